//! Writes items: those that DRAM evicts, those that stay in DRAM, and values part by part. Decides whether an item is
//! worth a write, and to which engine it goes.

use super::Flash;
use super::engines::{EngineId, call};
use crate::base::error::Error;
use crate::base::item::{ItemRef, is_over};
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::base::tier::{Tier, Tiers};
use crate::engine::long::NewParts;
use crate::flash::admission::Candidate;
use crate::observe::endurance;

/// Result of admission for an item.
pub(crate) type Admitted = Result<EngineId, RemovalReason>;

/// Result of sending an item to flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlashOutcome {
    /// Flash holds this version of the key.
    Stored,
    /// Admission refused it, no engine can hold it, or it is for DRAM only. Flash holds what it held before.
    Refused,
    /// A device error: flash holds no version of the key.
    Lost,
    /// Writes are suspended because writes have failed: flash holds no version of the key.
    InOutage,
}

impl Flash {
    /// Takes an item that DRAM has evicted. Afterwards flash holds this version of its key or none. The caller holds
    /// the key's lock.
    pub(crate) async fn demote(&self, item: &ItemRef<'_>, now_s: u32) {
        self.demote_together(std::slice::from_ref(item), now_s).await;
    }

    /// Takes evicted items of one group ([`Flash::group_of`]) with a single write of that group. As with
    /// [`Flash::demote`], the caller holds the locks of all their keys.
    pub(crate) async fn demote_together(&self, items: &[ItemRef<'_>], now_s: u32) {
        let mut grouped = Vec::with_capacity(items.len());
        let mut of = None;
        for item in items {
            if item.clean && self.may_hold(item.hash) {
                self.counters.evicted_clean_objects.add(1);
                self.move_to_engine(item, now_s).await;
                continue;
            }
            match self.admit(item, now_s) {
                Ok(engine) if self.has_groups(engine, item.hash) && self.breaker.allows() => {
                    debug_assert!(of.is_none_or(|of| of == engine), "one group, one engine");
                    of = Some(engine);
                    grouped.push(*item);
                }
                admitted => self.deliver(item, admitted, now_s).await,
            }
        }
        let Some(engine) = of else { return };
        debug_assert!(!grouped.is_empty(), "a group that has an engine has items");
        for item in self.set_in(engine, &grouped, now_s).await {
            self.forget(item.hash, item.key, now_s).await;
        }
    }

    fn has_groups(&self, engine: EngineId, hash: KeyHash) -> bool {
        call!(self.engines.get(engine), group_of(hash)).is_some()
    }

    /// The group of an item: items of the same group are best sent together. `None` for an item that can go with any
    /// others.
    pub(crate) fn group_of(&self, item: &ItemRef<'_>) -> Option<u64> {
        let engine = self.engines.for_item(item)?;
        call!(self.engines.get(engine), group_of(item.hash))
    }

    /// Writes items of one group to their engine and removes older versions from the other engines. Returns the items
    /// that are not stored. With tombstones there are no older versions: the request that set the item has voided them.
    async fn set_in<'i, 'a>(
        &self,
        engine: EngineId,
        items: &'i [ItemRef<'a>],
        now_s: u32,
    ) -> Vec<&'i ItemRef<'a>> {
        debug_assert!(
            items.iter().all(|item| call!(self.engines.get(engine), takes(item))),
            "an object goes to an engine that has room for one of its size"
        );
        if self.tombstones.is_none() {
            for any in self.engines.others(engine) {
                for item in items {
                    call!(any, remove(item.hash, item.key, now_s).await);
                }
            }
        }
        call!(self.engines.get(engine), set_together(items, now_s).await)
    }

    /// Stores an item that was admitted, or forgets flash's version of its key.
    pub(super) async fn deliver(&self, item: &ItemRef<'_>, admitted: Admitted, now_s: u32) {
        let stored = match admitted {
            Ok(engine) => self.store(item, engine, now_s).await,
            Err(reason) => Err(Some(reason)),
        };
        if let Err(reason) = stored {
            // Engines report their own losses.
            if let Some(reason) = reason {
                let removals = &self.counters.removals;
                removals.key(reason, Tier::Dram, item.key, item.object_bytes());
            }
            self.forget(item.hash, item.key, now_s).await;
        }
    }

    /// Whether an item from DRAM has expired, to the millisecond. Flash has a resolution of seconds, so the item would
    /// come back to life there until its second ends.
    pub(crate) fn is_over(&self, item: &ItemRef<'_>) -> bool {
        is_over(item.expiry_s, item.dram.early_ms, self.clock.now_ms())
    }

    /// Decides whether `item` is worth a write, and counts the reason if not.
    pub(super) fn admit(&self, item: &ItemRef<'_>, now_s: u32) -> Admitted {
        let counters = &self.counters;
        if self.is_over(item) {
            counters.expired.add(1);
            return Err(RemovalReason::Expired);
        }
        if item.tiers == Tiers::DramOnly {
            counters.dram_evicted_objects.add(1);
            return Err(RemovalReason::Evicted);
        }
        let Some(engine) = self.engines.for_item(item) else {
            counters.rejected_too_large_objects.add(1);
            return Err(RemovalReason::RejectedTooLarge);
        };
        let left_s = (item.expiry_s != 0).then(|| item.expiry_s.saturating_sub(now_s));
        self.load.note(item.object_bytes() as u64, left_s);
        let admitted = self.is_worth_a_write(item.hash, item.object_bytes(), now_s);
        if admitted { Ok(engine) } else { Err(RemovalReason::RejectedByAdmission) }
    }

    /// Asks the admission policy about an object of this size.
    pub(super) fn is_worth_a_write(&self, hash: KeyHash, bytes: usize, now_s: u32) -> bool {
        let candidate = Candidate { hash, object_bytes: bytes as u64, now_s };
        let written = || endurance::written_bytes(&*self.device);
        self.admission.admits(candidate, &self.counters, written)
    }

    /// Writes `item` to its engine. If it is not stored, returns the reason, or `None` if an engine has already
    /// reported it.
    pub(super) async fn store(
        &self,
        item: &ItemRef<'_>,
        engine: EngineId,
        now_s: u32,
    ) -> Result<(), Option<RemovalReason>> {
        if !self.breaker.allows() {
            self.counters.rejected_in_outage_objects.add(1);
            return Err(Some(RemovalReason::RejectedInOutage));
        }
        let lost = self.set_in(engine, std::slice::from_ref(item), now_s).await;
        if lost.is_empty() { Ok(()) } else { Err(None) }
    }

    /// Writes an item that stays in DRAM and hides there what flash holds of the key. The caller holds the key's lock.
    pub(crate) async fn send(&self, item: &ItemRef<'_>, now_s: u32) -> FlashOutcome {
        if item.tiers == Tiers::DramOnly {
            return FlashOutcome::Refused;
        }
        match self.admit(item, now_s) {
            Err(_) => FlashOutcome::Refused,
            Ok(engine) => match self.store(item, engine, now_s).await {
                Ok(()) => FlashOutcome::Stored,
                // `None`: the engine has counted the loss. `Some`: the item never reached an engine.
                Err(Some(_)) => FlashOutcome::InOutage,
                Err(None) => FlashOutcome::Lost,
            },
        }
    }

    /// Writes what the engines hold in memory, then flushes the device's volatile cache.
    ///
    /// # Errors
    /// If the flush fails. Losses from other device errors are counted.
    pub(crate) async fn persist(&self) -> Result<(), Error> {
        for any in self.engines.iter() {
            call!(any, persist().await);
        }
        self.front.flush().await
    }

    /// Starts storing an object with a value of this length, if it would be stored in parts and admission accepts it.
    pub(crate) fn new_parts(
        &self,
        item: &ItemRef<'_>,
        value_bytes: usize,
        now_s: u32,
    ) -> Option<(EngineId, NewParts)> {
        if item.tiers == Tiers::DramOnly || self.is_over(item) || !self.breaker.allows() {
            return None;
        }
        // As for whole objects, the last engine that takes it.
        let begun = self.engines.named().rev().find_map(|(engine, any)| {
            call!(any, new_parts(item, value_bytes)).map(|parts| (engine, parts))
        })?;
        let object_bytes = item.key.len() + value_bytes;
        self.is_worth_a_write(item.hash, object_bytes, now_s).then_some(begun)
    }

    /// Stores the next part. Returns whether it is stored.
    pub(crate) async fn add_part(
        &self,
        engine: EngineId,
        parts: &mut NewParts,
        bytes: &[u8],
        now_s: u32,
    ) -> bool {
        self.breaker.allows()
            && call!(self.engines.get(engine), add_part(parts, bytes, now_s).await)
    }

    /// Stores the head record, which makes the parts an object. No older version of its key may exist anywhere. The
    /// caller holds the key's lock.
    pub(crate) async fn add_head(
        &self,
        engine: EngineId,
        parts: &NewParts,
        item: &ItemRef<'_>,
        now_s: u32,
    ) -> bool {
        call!(self.engines.get(engine), add_head(parts, item, now_s).await)
    }
}
