//! Regions that give way whole.
//!
//! A region all of whose records have expired is given up without a look at its footer. The index
//! still points into it, and does not know what it points to: an entry names a place, not a filling.
//! Were the region filled again at once, an entry of the old filling might point to a record of the
//! new one. So the region is Expired first, which makes all entries that point into it count as
//! absent, and becomes Free when the index has been swept, part by part: nothing sets an entry that
//! points into an Expired region, so a part that was swept stays clean. One sweep is for all regions
//! that were Expired when it began.

use crate::host::{Entries, Event, Host};
use crate::log::{LogState, RegionLog};
use crate::region::{RegionId, RegionState};

/// A region that is opened has so much of the index swept, if there is something to sweep.
const PARTS_OF_A_SWEEP: usize = 8;
/// Parts of the index that are swept without letting others in.
const PARTS_AT_ONCE: usize = 64;

/// How far the index has been swept.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The regions that are Free at the end. None: there is no sweep.
    regions: Vec<RegionId>,
    next_part: usize,
}

impl<E: Entries, H: Host> RegionLog<E, H> {
    /// Gives up the regions all of whose records have expired. The caller has the writer.
    pub(crate) async fn give_up_expired(&self, now_s: u32) {
        // Units are reclaimed whole.
        if self.place.regions_per_unit.is_some() {
            return;
        }
        let regions = self.lock().regions.expired(now_s);
        if !regions.is_empty()
            && let Ok(sequence) = self.void_regions(&regions).await
        {
            let mut state = self.lock();
            for &region in &regions {
                state.regions.empty(region, sequence, RegionState::Expired);
            }
            self.host.note(Event::ExpiredRegions(regions.len() as u64));
        }
        self.sweep_on();
    }

    /// Sweeps a part of the index, or as much as it takes to have a free region.
    fn sweep_on(&self) {
        let parts = self.lock().entries.parts();
        let mut swept = 0;
        loop {
            let state = &mut *self.lock();
            let is_urgent = state.regions.in_state(RegionState::Free).is_empty();
            if !is_urgent && swept >= parts.div_ceil(PARTS_OF_A_SWEEP) {
                return;
            }
            if !self.sweep_some(state) {
                return;
            }
            swept += PARTS_AT_ONCE;
        }
    }

    /// Says whether there was something to sweep.
    fn sweep_some(&self, state: &mut LogState<E>) -> bool {
        let LogState { entries, regions, sweep, .. } = state;
        if sweep.regions.is_empty() {
            *sweep = Sweep { regions: regions.in_state(RegionState::Expired), next_part: 0 };
        }
        if sweep.regions.is_empty() {
            return false;
        }
        let end = (sweep.next_part + PARTS_AT_ONCE).min(entries.parts());
        let is_gone = |region: RegionId| regions.get(region).state() == RegionState::Expired;
        let forgotten: u64 = (sweep.next_part..end).map(|it| entries.sweep(it, &is_gone)).sum();
        self.host.note(Event::ExpiredRecords(forgotten));
        sweep.next_part = end;
        if end == entries.parts() {
            for region in std::mem::take(&mut sweep.regions) {
                let sequence = regions.get(region).sequence();
                regions.empty(region, sequence, RegionState::Free);
            }
        }
        true
    }
}
