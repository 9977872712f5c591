//! The state that the cache shares with the sender of demotions: its own thread, or a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::gate::{Gate, GateEntry};
use super::memory::{MemoryBudget, is_another, left_for_dram};
use super::reentry;
use crate::base::error::{Error, ErrorKind};
use crate::base::item::ItemRef;
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::base::tier::{Tier, Tiers};
use crate::base::time::CacheClock;
use crate::config::DRAM_BYTES_MIN;
use crate::dram::{Admit, DramFull, DramTier, OnItsWay};
use crate::flash::Flash;
use crate::observe::stats::Counters;

/// Number of key locks. Two keys with the same lock wait for each other needlessly.
pub(super) const STRIPES: usize = 1024;

/// The tiers, and the locks that keep them consistent.
pub(super) struct Core {
    pub(super) gate: Gate,
    pub(super) dram: DramTier,
    pub(super) flash: Option<Arc<Flash>>,
    pub(super) stripes: Vec<async_lock::Mutex<()>>,
    /// The changes of the keys of each stripe.
    pub(super) changes: Vec<Changes>,
    pub(super) memory: MemoryBudget,
    pub(super) clock: Arc<CacheClock>,
    pub(super) counters: Arc<Counters>,
}

/// The changes of the keys of a stripe, so that a look-up that found nothing knows whether there was one meanwhile.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The hash of the key for which the lock is held to change that key; else 0.
    under_way: AtomicU64,
    /// Number of changes that have ended, of all keys of the stripe.
    ended: AtomicU64,
}

/// A held key lock.
pub(super) struct KeyLock<'a> {
    changes: &'a Changes,
    _guard: async_lock::MutexGuard<'a, ()>,
}

impl<'a> KeyLock<'a> {
    fn of(changes: &'a Changes, guard: async_lock::MutexGuard<'a, ()>, hash: KeyHash) -> Self {
        changes.under_way.store(hash.0, Ordering::SeqCst);
        Self { changes, _guard: guard }
    }
}

impl Drop for KeyLock<'_> {
    /// Before others get the lock. A look-up checks these fields in the other order, so it sees at least one of them.
    fn drop(&mut self) {
        self.changes.ended.fetch_add(1, Ordering::SeqCst);
        self.changes.under_way.store(0, Ordering::SeqCst);
    }
}

/// The number of changes of a stripe that had ended when a look-up began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangesSeen(u64);

impl Core {
    /// Locks a key. Without flash there are no two tiers to keep consistent, and no lock.
    pub(super) async fn lock_key(&self, hash: KeyHash) -> Option<KeyLock<'_>> {
        self.flash.as_ref()?;
        let stripe = self.stripe(hash);
        let guard = self.stripes[stripe].lock().await;
        Some(KeyLock::of(&self.changes[stripe], guard, hash))
    }

    /// Locks a key of a cache with flash, if no other caller has locked it.
    pub(super) fn try_lock_key(&self, hash: KeyHash) -> Option<KeyLock<'_>> {
        let stripe = self.stripe(hash);
        let guard = self.stripes[stripe].try_lock()?;
        Some(KeyLock::of(&self.changes[stripe], guard, hash))
    }

    /// For a look-up that begins now: see [`Core::may_have_changed`].
    pub(super) fn changes_so_far(&self, hash: KeyHash) -> ChangesSeen {
        ChangesSeen(self.changes[self.stripe(hash)].ended.load(Ordering::SeqCst))
    }

    /// Whether this key is being changed now, or may have been changed since a look-up began: then the look-up may
    /// have found nothing although the key had a value all the time. A change first voids the version on flash and then
    /// stores the new one in DRAM; from there it may have gone on to flash.
    pub(super) fn may_have_changed(&self, hash: KeyHash, seen: ChangesSeen) -> bool {
        let changes = &self.changes[self.stripe(hash)];
        changes.under_way.load(Ordering::SeqCst) == hash.0 || self.changes_so_far(hash) != seen
    }

    /// Looks a key up in DRAM and then on flash, for a call that brings nothing to DRAM. Does it again under the key's
    /// lock if it finds nothing and the key may have been changed meanwhile. Inside an update, which holds a lock,
    /// there is no second look.
    ///
    /// `look` is no async closure: the compiler could not tell that the future of one moves between threads.
    pub(super) async fn look_twice<T, F: Future<Output = Option<T>>>(
        &self,
        hash: KeyHash,
        look: impl Fn() -> F,
    ) -> Option<T> {
        let seen = self.changes_so_far(hash);
        let found = look().await;
        if found.is_some() || !self.may_have_changed(hash, seen) || self.check_reentry().is_err() {
            return found;
        }
        let _key_lock = self.lock_key(hash).await;
        look().await
    }

    /// Whether the key's lock is held, as it must be for a change (rule 1). `true` without flash, where there are no
    /// key locks.
    pub(super) fn is_key_locked(&self, hash: KeyHash) -> bool {
        self.flash.is_none() || self.stripes[self.stripe(hash)].try_lock().is_none()
    }

    /// The stripe of a key.
    pub(super) fn stripe(&self, hash: KeyHash) -> usize {
        debug_assert_eq!(self.stripes.len(), STRIPES, "a key has the same lock for good");
        let stripe = hash.spread_over(self.stripes.len() as u64);
        usize::try_from(stripe).expect("below the number of stripes")
    }

    pub(super) fn now_s(&self) -> u32 {
        self.clock.now_s()
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Makes sure that flash's version of a key does not come back after a crash. The caller holds the key's lock and
    /// is about to change the key.
    pub(super) async fn invalidate_on_flash(&self, hash: KeyHash) -> Result<(), Error> {
        debug_assert!(
            self.is_key_locked(hash),
            "rule 1: the caller that changes a key holds its lock"
        );
        match &self.flash {
            Some(flash) => flash.invalidate(hash).await,
            None => Ok(()),
        }
    }

    /// Stores `item` above DRAM's budget, on its way to flash, without a wait: for a change that has voided flash's
    /// version and then found no room in DRAM. The caller holds the key's lock.
    pub(super) fn insert_above(
        &self,
        item: &ItemRef<'_>,
        admit: Admit<'_>,
    ) -> Result<OnItsWay, DramFull> {
        debug_assert!(self.is_key_locked(item.hash), "rule 1: a change holds its key's lock");
        let above = self.dram.demotions().above();
        let taken = match item.tiers {
            Tiers::DramOnly => None,
            _ => above.try_take(self.dram.demoting_bytes(item)),
        };
        self.dram.insert_to_demote(item, taken.ok_or(DramFull)?, admit)
    }

    /// The tier of `key`, if it is stored, and its bytes if DRAM has it; only for the removal listener.
    pub(super) fn tier_and_bytes(&self, hash: KeyHash, key: &[u8]) -> Option<(Tier, usize)> {
        if !self.counters.removals.wanted() {
            return None;
        }
        let mut residents = self.dram.residents(hash).into_iter();
        if let Some(there) = residents.find(|resident| resident.value.key() == key) {
            return Some((Tier::Dram, key.len() + there.value.len()));
        }
        let tier = self.flash.as_deref().and_then(|flash| flash.tier_of(hash));
        Some((tier.unwrap_or(Tier::SmallObjects), 0))
    }

    /// Counts an item that was not stored because there was no room.
    pub(super) fn count_refused(&self, reason: RemovalReason, item: &ItemRef<'_>) {
        let counters = &self.counters;
        match reason {
            RemovalReason::RejectedDemotions => counters.rejected_demotions_objects.add(1),
            _ => counters.rejected_dram_pinned_objects.add(1),
        }
        counters.removals.key(reason, Tier::Dram, item.key, item.object_bytes());
    }

    /// Enters the gate, for a call that may touch the device. Without flash a clear or a close need not wait for
    /// calls.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(super) async fn enter(&self) -> Result<Option<GateEntry<'_>>, Error> {
        if self.flash.is_some() {
            self.gate.enter().await.map(Some)
        } else {
            self.gate.check().map(|()| None)
        }
    }

    /// Leaves the gate, and then reports removals to the listener, with no locks held.
    pub(super) fn leave(&self, inside: Option<GateEntry<'_>>) {
        drop(inside);
        self.counters.removals.tell();
    }

    /// Refuses a call that would wait for a lock that the caller's own thread holds. Without flash there are no such
    /// locks.
    pub(super) fn check_reentry(&self) -> Result<(), Error> {
        if self.flash.is_some() { reentry::check_update(self.id()) } else { Ok(()) }
    }

    /// Identifies the cache while it is not moved, as during a call.
    pub(super) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether a tier allowed for `item` can hold it.
    pub(super) fn can_hold(&self, item: &ItemRef<'_>) -> bool {
        // Ask flash first: it answers without a lock.
        self.flash
            .as_deref()
            .is_some_and(|flash| item.tiers != Tiers::DramOnly && flash.takes(item))
            || self.stays_in_dram(item)
    }

    /// Whether `item` may stay in DRAM; if not, it goes straight to flash.
    pub(super) fn stays_in_dram(&self, item: &ItemRef<'_>) -> bool {
        let is_for_flash = item.tiers == Tiers::FlashOnly && self.flash.is_some();
        !is_for_flash && self.dram.can_hold(item.object_bytes())
    }

    pub(super) fn too_large(&self, item: &ItemRef<'_>) -> Error {
        let object_bytes = item.object_bytes();
        let message = match &self.flash {
            Some(_) if item.tiers == Tiers::DramOnly => format!(
                "object of {object_bytes} bytes, for DRAM only: dram_bytes is too small for it"
            ),
            Some(flash) => format!(
                "object of {object_bytes} bytes: flash holds at most {} (use more of it, or set \
                 region_bytes higher), and dram_bytes is too small for it",
                flash.object_bytes_max()
            ),
            None => format!("object of {object_bytes} bytes: dram_bytes is too small for it"),
        };
        Error::new(ErrorKind::InvalidInput, message)
    }

    /// Called after something went to flash, which may need more memory for it.
    pub(super) fn keep_memory_budget(&self) {
        if let Some(all) = self.memory.due() {
            self.divide_memory(all);
        }
    }

    /// Memory that flash needs, regardless of the budget.
    pub(super) fn flash_bytes(&self) -> u64 {
        self.flash.as_deref().map_or(0, Flash::memory_bytes_to_keep)
    }

    /// Divides a budget of all memory between DRAM and flash.
    pub(super) fn divide_memory(&self, all: u64) {
        let needed = self.flash_bytes();
        let share = left_for_dram(all, needed).max(DRAM_BYTES_MIN);
        if is_another(share, self.dram.budget_bytes(), all) {
            self.dram.set_budget(share, self.now_s());
        }
    }
}
