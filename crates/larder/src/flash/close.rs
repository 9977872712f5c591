//! Closes a cache at the speed of the device: the content of DRAM goes to flash sequentially.
//!
//! A small object belongs in a bucket, and each one costs a read and a write of its bucket: a DRAM full of small
//! objects would take minutes. So a close appends them to the engine that can append objects in sequence
//! (`Engine::appending`), the large-object engine. There they are like other large objects: records with checksums,
//! listed by footers, found again when a region is indexed, and killed by a tombstone when they change. Look-ups ask
//! that engine first. Older versions in buckets are handled by these rules:
//!
//! 1. With tombstones, the version in the bucket is void since the item came to DRAM. Without tombstones, an item is
//!    appended only if no bucket can hold its key; otherwise it goes to its bucket, as on an eviction.
//! 2. An object is not appended if the index of regions has an entry in its slot: the two keys would displace each
//!    other.
//! 3. Small objects take at most half of the bytes in regions. The rest goes to buckets.
//!
//! An object moves to its bucket when it has been read back to DRAM and DRAM evicts it again: first it is written to
//! the bucket, then removed from the region. Objects that are never read disappear when their region is reclaimed.

use std::sync::atomic::Ordering;

use super::Flash;
use super::demote::Admitted;
use super::engines::{AnyEngine, EngineId, call};
use crate::base::item::ItemRef;
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::base::tier::{Tier, Tiers};
use crate::dram::Receiver;
use crate::engine::Append;

/// Small objects get at most `1 / IN_ORDER_PART` of the bytes in regions.
const IN_ORDER_PART: u64 = 2;
/// Approximate bytes of a record in a region in addition to key and value, including its footer entry.
const RECORD_BYTES: u64 = 56;
const _: () = assert!(IN_ORDER_PART > 1, "rule 3: large objects keep a part of their regions");

/// Receives items of a cache that is closing, as long as no wait is necessary.
pub(crate) struct InOrder<'a> {
    flash: &'a Flash,
    /// The engine that it appends to.
    to: EngineId,
    appending: Box<dyn Append + 'a>,
    now_s: u32,
    /// Small objects appended, and their bytes.
    appended: (u64, u64),
    /// What admission said of the item that was not taken, if it was consulted.
    pub(crate) admitted: Option<Admitted>,
}

impl Drop for InOrder<'_> {
    fn drop(&mut self) {
        let (objects, bytes) = self.appended;
        self.flash.note_in_order(objects, bytes);
    }
}

impl Receiver for InOrder<'_> {
    fn expect(&mut self, hash: KeyHash) {
        self.appending.expect(hash);
    }

    fn take(&mut self, item: &ItemRef<'_>) -> bool {
        let Self { flash, appending, now_s, .. } = self;
        let counters = &flash.counters;
        // Flash has this version already.
        if item.clean && (appending.holds(item.hash) || flash.others_may_hold(item.hash)) {
            counters.evicted_clean_objects.add(1);
            return true;
        }
        // `appending` holds the lock on the engine's state and others wait for it, so nothing here may wait for the
        // device.
        let needs_a_wait = flash.is_over(item)
            || item.tiers == Tiers::DramOnly
            || !call!(flash.engines.get(self.to), can_append(item))
            || !appending.has_room_for(item)
            || !flash.breaker.allows();
        if needs_a_wait {
            return false;
        }
        let admitted = flash.admit(item, *now_s);
        let is_small = admitted.is_ok_and(|engine| engine != self.to);
        let may_go = match admitted {
            Ok(_) if is_small => flash.has_room_in_order(self.appended.1, item),
            Ok(_) => true,
            Err(_) => false,
        };
        // Rule 1: otherwise an older version in the bucket would be found once this record's region is reclaimed.
        // `append_new` enforces rule 2.
        if may_go && !flash.others_may_count(item.hash) && appending.append_new(item) {
            if is_small {
                self.appended.0 += 1;
                self.appended.1 += bytes_in_order(item);
                debug_assert!(
                    flash.in_order_bytes.load(Ordering::Relaxed) + self.appended.1
                        <= flash.in_order_bytes_max(),
                    "rule 3: half of the regions' room at most"
                );
            }
            return true;
        }
        self.admitted = Some(admitted);
        false
    }
}

impl Flash {
    /// Announces that a close is about to send this number of items.
    pub(crate) fn expect_in_order(&self, items: u64) {
        if let Some((_, any)) = self.engines.to_append_to() {
            call!(any, expect(items.min(self.in_order_bytes_max() / RECORD_BYTES)));
        }
    }

    /// Upper limit for the bytes of small objects (rule 3).
    fn in_order_bytes_max(&self) -> u64 {
        let to = self.engines.to_append_to();
        to.and_then(|(_, any)| call!(any, append_bytes_max())).unwrap_or(0) / IN_ORDER_PART
    }

    /// Starts receiving items of a cache that is closing. `None` if no engine can append.
    pub(crate) fn in_order(&self, now_s: u32) -> Option<InOrder<'_>> {
        let (to, any) = self.engines.to_append_to()?;
        let appending = call!(any, appending(now_s))?;
        Some(InOrder { flash: self, to, appending, now_s, appended: (0, 0), admitted: None })
    }

    /// Submits the appended items if they fill a write.
    pub(crate) async fn write_in_order(&self) {
        if let Some((_, any)) = self.engines.to_append_to() {
            call!(any, write_appended().await);
        }
    }

    /// Takes an item of a cache that is closing, if it can be appended. `asked` is the result of admission if it was
    /// consulted already. Returns whether the item is done with. If it returns `false`, the item is admitted, and the
    /// caller passes it to [`Flash::demote_in_bucket`].
    pub(crate) async fn demote_in_order(
        &self,
        item: &ItemRef<'_>,
        asked: Option<Admitted>,
        now_s: u32,
    ) -> bool {
        if asked.is_none() && item.clean && self.may_hold(item.hash) {
            self.counters.evicted_clean_objects.add(1);
            return true;
        }
        let mut admitted = asked.unwrap_or_else(|| self.admit(item, now_s));
        let to = self.engines.to_append_to().map(|(to, _)| to);
        if let Ok(engine) = admitted
            && Some(engine) != to
        {
            // An item that was asked for already was refused by `InOrder::take`.
            let Some(to) = to.filter(|_| asked.is_none() && self.goes_in_order(item)) else {
                return false;
            };
            self.note_in_order(1, bytes_in_order(item));
            admitted = Ok(to);
        }
        self.deliver(item, admitted, now_s).await;
        true
    }

    /// Takes an admitted item that cannot be appended.
    pub(crate) async fn demote_in_bucket(&self, item: &ItemRef<'_>, now_s: u32) {
        let admitted = self.engines.for_item(item).ok_or(RemovalReason::RejectedTooLarge);
        self.deliver(item, admitted, now_s).await;
    }

    fn goes_in_order(&self, item: &ItemRef<'_>) -> bool {
        let Some((_, any)) = self.engines.to_append_to() else { return false };
        call!(any, can_append(item))
            && !call!(any, may_hold(item.hash)) // rule 2
            && !self.others_may_count(item.hash) // rule 1
            && self.has_room_in_order(0, item) // rule 3
    }

    /// Whether a version of this hash in a bucket may still be valid. With tombstones it is void.
    fn others_may_count(&self, hash: KeyHash) -> bool {
        self.tombstones.is_none() && self.others_may_hold(hash)
    }

    /// Whether an engine other than the one that appends may hold a key of this hash.
    fn others_may_hold(&self, hash: KeyHash) -> bool {
        let Some((to, _)) = self.engines.to_append_to() else { return self.may_hold(hash) };
        self.engines.others(to).any(|any| call!(any, may_hold(hash)))
    }

    /// Whether `item` fits into the space for small objects, after `bytes` more that are not yet counted.
    fn has_room_in_order(&self, bytes: u64, item: &ItemRef<'_>) -> bool {
        let taken = self.in_order_bytes.load(Ordering::Relaxed) + bytes;
        taken + bytes_in_order(item) <= self.in_order_bytes_max()
    }

    fn note_in_order(&self, objects: u64, bytes: u64) {
        debug_assert_eq!(objects == 0, bytes == 0, "an object has bytes");
        self.in_order_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counters.closed_in_order_objects.add(objects);
    }

    /// Whether [`Flash::leave_out`] must run for each item that is left out, to void what flash has of it.
    pub(crate) fn voids_what_is_left_out(&self) -> bool {
        self.tombstones.is_none()
    }

    /// Drops an item for which a close has no time. Afterwards flash holds this version of its key or none. Without
    /// tombstones, a bucket may hold an older version, which is voided here.
    pub(crate) async fn leave_out(&self, item: &ItemRef<'_>) {
        let removals = &self.counters.removals;
        if item.clean && self.may_hold(item.hash) {
            self.counters.evicted_clean_objects.add(1);
            return;
        }
        let reason = if self.is_over(item) {
            self.counters.expired.add(1);
            RemovalReason::Expired
        } else if item.tiers == Tiers::DramOnly {
            self.counters.dram_evicted_objects.add(1);
            RemovalReason::Evicted
        } else {
            self.counters.left_out_objects.add(1);
            RemovalReason::LeftOut
        };
        removals.key(reason, Tier::Dram, item.key, item.object_bytes());
        // Without tombstones, only DRAM has hidden flash's version of the key, and DRAM is about to go away.
        if self.tombstones.is_none() {
            for any in self.engines.iter() {
                call!(any, void(item.hash).await);
            }
        }
    }

    /// For an item that lies in the engine that appends but belongs to another: the engine where it lies, and its own.
    fn misplaced(&self, item: &ItemRef<'_>) -> Option<(&AnyEngine, EngineId)> {
        let (name, any) = self.engines.to_append_to()?;
        let own = self.engines.for_item(item)?;
        (own != name && call!(any, may_hold(item.hash))).then_some((any, own))
    }

    /// Whether a clean item that leaves DRAM needs no work: as far as can be told without I/O, it is on flash and in
    /// the right engine.
    pub(crate) fn keeps(&self, item: &ItemRef<'_>) -> bool {
        self.may_hold(item.hash) && self.misplaced(item).is_none()
    }

    /// Moves a small object that lies in a region, and is in DRAM too, to the engine for small objects. The caller
    /// holds the key's lock.
    pub(super) async fn move_to_engine(&self, item: &ItemRef<'_>, now_s: u32) {
        let Some((any, own)) = self.misplaced(item) else { return };
        if self.is_over(item) || !self.breaker.allows() {
            return;
        }
        debug_assert_ne!(item.tiers, Tiers::DramOnly, "what is for DRAM alone is not on flash");
        let own = self.engines.get(own);
        let lost = call!(own, set_together(std::slice::from_ref(item), now_s).await);
        // In this order: if a crash leaves it in both, both are the same version.
        if lost.is_empty() && call!(any, invalidate(item.hash).await).is_ok() {
            self.counters.moved_small_objects.add(1);
        }
    }
}

fn bytes_in_order(item: &ItemRef<'_>) -> u64 {
    item.object_bytes() as u64 + RECORD_BYTES
}
