//! A sweep of the index: it forgets the entries that point into Expired regions, and then the regions are Free.

use crate::host::Entries;
use crate::region::{RegionId, RegionState};
use crate::regions::Regions;

/// Parts of the index that are swept under one hold of the lock.
pub(crate) const PARTS_AT_ONCE: usize = 64;

/// The progress of a sweep of the index.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The regions that become Free at the end of the sweep. If there are none, no sweep is under way.
    regions: Vec<RegionId>,
    next_part: usize,
}

impl Sweep {
    /// Sweeps up to [`PARTS_AT_ONCE`] parts. Returns the number of entries that it removed; `None` if no region is
    /// Expired.
    pub(crate) fn step(
        &mut self,
        entries: &mut impl Entries,
        regions: &mut Regions,
    ) -> Option<u64> {
        if self.regions.is_empty() {
            *self = Self { regions: regions.in_state(RegionState::Expired), next_part: 0 };
        }
        if self.regions.is_empty() {
            return None;
        }
        let end = (self.next_part + PARTS_AT_ONCE).min(entries.parts());
        let is_gone = |region: RegionId| regions.get(region).state() == RegionState::Expired;
        let forgotten: u64 = (self.next_part..end).map(|it| entries.sweep(it, &is_gone)).sum();
        self.next_part = end;
        if end == entries.parts() {
            for region in std::mem::take(&mut self.regions) {
                let sequence = regions.get(region).sequence();
                regions.empty(region, sequence, RegionState::Free);
            }
        }
        Some(forgotten)
    }
}
