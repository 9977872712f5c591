//! Regions that are given up whole.
//!
//! The log gives up a region without reading its footer if all its records have expired. The index still has entries
//! that point into the region, and the log does not know them: an entry names a place, not a filling. If the region
//! were filled again at once, an entry of the old filling might point to a record of the new one. So the region is
//! Expired first, and all entries that point into it count as absent. It becomes Free when the index has been swept,
//! part by part: no new entry points into an Expired region, so a part that was swept stays clean. One sweep serves all
//! regions that were Expired when it began.

use crate::host::{Entries, Event, Host};
use crate::log::{LogState, RegionLog};
use crate::region::RegionState;
use crate::sweep::PARTS_AT_ONCE;

/// Each opening of a region sweeps `1 / PARTS_OF_A_SWEEP` of the index, if there is something to sweep.
const PARTS_OF_A_SWEEP: usize = 8;

impl<E: Entries, H: Host> RegionLog<E, H> {
    /// Gives up the regions all of whose records have expired. The caller must hold the writer.
    pub(crate) async fn give_up_expired(&self, now_s: u32) {
        // Reclaim units are only reclaimed whole.
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

    /// Sweeps a share of the index; if no region is Free, goes on until one is.
    fn sweep_on(&self) {
        let parts = self.lock().entries.parts();
        let mut swept = 0;
        loop {
            let state = &mut *self.lock();
            let is_urgent = state.regions.in_state(RegionState::Free).is_empty();
            if !is_urgent && swept >= parts.div_ceil(PARTS_OF_A_SWEEP) {
                return;
            }
            let LogState { entries, regions, sweep, .. } = state;
            let Some(forgotten) = sweep.step(entries, regions) else { return };
            self.host.note(Event::ExpiredRecords(forgotten));
            swept += PARTS_AT_ONCE;
        }
    }
}
