//! Objects that have expired, one by one and by whole regions.
//!
//! A region all of whose objects have expired is given up without a look at its footer. The index
//! still points into it, and does not know what it points to: an entry names a place, not a filling.
//! Were the region filled again at once, an entry of the old filling might point to a record of the
//! new one. So the region is Expired first, which makes all entries that point into it count as
//! absent, and becomes Free when the index has been swept, part by part: nothing sets an entry that
//! points into an Expired region, so a part that was swept stays clean. One sweep is for all regions
//! that were Expired when it began.

use super::footer::RegionIdentity;
use super::index::Location;
use super::regions::RegionState;
use super::{Loc, State};
use crate::key::KeyHash;
use crate::removal::RemovalReason;
use crate::tier::Tier;

/// A region that is opened has so much of the index swept, if there is something to sweep.
const PARTS_OF_A_SWEEP: usize = 8;
/// Shards of the index that are swept without letting others in.
const SHARDS_AT_ONCE: usize = 64;

/// How far the index has been swept.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The regions that are Free at the end. None: there is no sweep.
    regions: Vec<u32>,
    next_shard: usize,
}

impl Loc {
    /// Forgets an object that has expired in this second. With one shelf this needs no tombstone, once
    /// flash knows the time: after a crash it will have expired no less, and what comes after it is
    /// newer. Not so with several, see `shelves.rs`.
    pub(super) async fn forget_expired(
        &self,
        hash: KeyHash,
        at: Location,
        (identity, expiry_s): (RegionIdentity, u32),
    ) {
        if let Some(tombstones) = &self.tombstones {
            let is_over = if self.place.shelves() > 1 {
                let receipt = tombstones.bury_record(at.region, at.offset, identity.sequence);
                tombstones.commit(receipt).await.is_ok()
            } else {
                tombstones.is_over(expiry_s).await
            };
            if !is_over {
                return; // it stays, and whoever takes its place buries it
            }
        }
        self.forget(hash, at, identity);
    }

    /// Gives up the regions all of whose objects have expired. The caller has the turn.
    pub(super) async fn give_up_expired(&self, now_s: u32) {
        // Units are reclaimed whole.
        if self.place.regions_per_unit.is_some() {
            return;
        }
        let regions = self.lock().regions.expired(now_s);
        if !regions.is_empty()
            && let Ok(sequence) = self.bury_regions(&regions).await
        {
            let mut state = self.lock();
            for &region in &regions {
                state.regions.empty(region, sequence, RegionState::Expired);
            }
            self.counters.loc_expired_regions.add(regions.len() as u64);
        }
        self.sweep_on();
    }

    /// Sweeps a part of the index, or as much as it takes to have a free region.
    fn sweep_on(&self) {
        let shards = self.lock().index.shards();
        let mut swept = 0;
        loop {
            let state = &mut *self.lock();
            let is_urgent = state.regions.in_state(RegionState::Free).is_empty();
            if !is_urgent && swept >= shards.div_ceil(PARTS_OF_A_SWEEP) {
                return;
            }
            if !self.sweep_some(state) {
                return;
            }
            swept += SHARDS_AT_ONCE;
        }
    }

    /// Says whether there was something to sweep.
    fn sweep_some(&self, state: &mut State) -> bool {
        let State { index, regions, sweep, .. } = state;
        if sweep.regions.is_empty() {
            *sweep = Sweep { regions: regions.in_state(RegionState::Expired), next_shard: 0 };
        }
        if sweep.regions.is_empty() {
            return false;
        }
        let end = (sweep.next_shard + SHARDS_AT_ONCE).min(index.shards());
        let is_gone = |region: u32| regions.get(region).state == RegionState::Expired;
        let forgotten: u64 = (sweep.next_shard..end).map(|shard| index.sweep(shard, is_gone)).sum();
        self.counters.loc_expired_objects.add(forgotten);
        let removals = &self.counters.removals;
        removals.unknown(RemovalReason::Expired, Tier::LargeObjects, forgotten);
        sweep.next_shard = end;
        if end == index.shards() {
            for region in std::mem::take(&mut sweep.regions) {
                let sequence = regions.get(region).sequence;
                regions.empty(region, sequence, RegionState::Free);
            }
        }
        true
    }
}
