//! Builds items from the caller's options.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::{Change, SetOptions};
use crate::base::item::{DramFields, ItemRef, Marks};
use crate::base::key::KeyHash;
use crate::base::tier::Tiers;
use crate::base::time::CacheClock;
use crate::dram::value::Value;

/// Builds the items of a cache.
pub(super) struct ItemBuilder {
    clock: Arc<CacheClock>,
    /// Whether items record when they were requested.
    notes_access: bool,
}

impl ItemBuilder {
    pub(super) fn new(clock: &Arc<CacheClock>, notes_access: bool) -> Self {
        Self { clock: Arc::clone(clock), notes_access }
    }

    /// The second of a request, if items record it.
    pub(super) fn accessed_s(&self) -> Option<u32> {
        self.notes_access.then(|| self.clock.now_s())
    }

    /// Builds an item with these options.
    pub(super) fn item<'a>(
        &self,
        hash: KeyHash,
        key: &'a [u8],
        value: &'a [u8],
        options: SetOptions,
    ) -> ItemRef<'a> {
        let SetOptions { ttl, flags, version, stale, won, binary_key, .. } = options;
        let (expiry_s, early_ms) = self.expiry(ttl);
        let version = version.map_or(0, u64::from);
        let marks = self.marks_of_new(won).with_binary_key(binary_key);
        let dram = DramFields { version, early_ms, stale, marks };
        // DRAM only: on flash a record without a key counts as damaged.
        let tiers = if key.is_empty() { Tiers::DramOnly } else { options.tiers_allowed() };
        ItemRef { flags, tiers, dram, ..ItemRef::new(hash, key, value, expiry_s) }
    }

    /// The item that results from `change` to the existing value. `None`: no change.
    pub(super) fn item_after<'a>(
        &self,
        hash: KeyHash,
        key: &'a [u8],
        change: &'a Change<'_>,
        there: Option<&'a Value>,
    ) -> Option<ItemRef<'a>> {
        let there = there.map(|value| value.item(hash));
        Some(match change {
            Change::Keep => return None,
            Change::Store(value, options) => self.item(hash, key, value, *options),
            Change::StoreKeepingExpiry(value) => self.item_in_place(hash, key, value, None, there),
            Change::StoreKeepingExpiryAs(value, version) => {
                self.item_in_place(hash, key, value, Some(*version), there)
            }
            Change::Touch(ttl) => {
                let old = there?;
                let (expiry_s, early_ms) = self.expiry(*ttl);
                ItemRef { expiry_s, dram: DramFields { early_ms, ..old.dram }, ..old }
            }
            Change::Invalidate { ttl, version } => {
                let old = there?;
                let kept = (old.expiry_s, old.dram.early_ms);
                let endless = |ttl: &Duration| *ttl != Duration::MAX;
                let (expiry_s, early_ms) =
                    ttl.map_or(kept, |ttl| self.expiry(Some(ttl).filter(endless)));
                let version = version.map_or(0, u64::from);
                let is_binary = old.dram.marks.has_binary_key();
                let marks = self.marks_of_new(false).with_binary_key(is_binary);
                let dram = DramFields { version, early_ms, stale: true, marks };
                debug_assert!(!marks.is_won(), "no caller has won an item that becomes stale now");
                ItemRef { expiry_s, dram, tiers: Tiers::DramOnly, ..old }
            }
        })
    }

    /// Replaces the value of an item and keeps everything else.
    fn item_in_place<'a>(
        &self,
        hash: KeyHash,
        key: &'a [u8],
        value: &'a [u8],
        version: Option<NonZeroU64>,
        there: Option<ItemRef<'a>>,
    ) -> ItemRef<'a> {
        let Some(old) = there else {
            return self.item(hash, key, value, SetOptions { version, ..SetOptions::default() });
        };
        let marks = self.marks_of_new(old.dram.marks.is_won());
        let dram = DramFields { version: version.map_or(0, u64::from), marks, ..old.dram };
        ItemRef { value, dram, ..old }
    }

    /// The marks of an item that is set now.
    fn marks_of_new(&self, won: bool) -> Marks {
        Marks::of_new(won, self.accessed_s())
    }

    /// The second at which an item with this lifetime expires, and the number of milliseconds by which it expires
    /// earlier. 0 means never.
    fn expiry(&self, ttl: Option<Duration>) -> (u32, u16) {
        let Some(ttl) = ttl else { return (0, 0) };
        let now = self.clock.now();
        let end_ms = match ttl {
            // No look-up finds such a value: an update that stores it removes the existing value.
            Duration::ZERO => now.as_millis(),
            // Round the sum up, so that a value lives at least for its TTL.
            ttl => now.saturating_add(ttl).as_nanos().div_ceil(1_000_000),
        };
        // Second 0 means never, so use at least the first millisecond.
        let end_ms = end_ms.max(1);
        let Ok(end_s) = u32::try_from(end_ms.div_ceil(1000)) else { return (u32::MAX, 0) };
        let early_ms = u128::from(end_s) * 1000 - end_ms;
        debug_assert!(
            early_ms < 1000 && end_s > 0,
            "it expires in this second, which is not never"
        );
        (end_s, u16::try_from(early_ms).expect("at most a second"))
    }
}
