//! What the log asks of the engine: dead regions go to the tombstones, and events to the counters.

use std::sync::Arc;

use larder_log::{Event, Host, RegionId, RegionIdentity};

use super::sets::PageSets;
use crate::base::error::Error;
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::region_tombstones::RegionTombstones;
use crate::engine::tombstones::Tombstones;
use crate::observe::events;
use crate::observe::stats::Counters;

/// The engine as the host of its log.
pub(super) struct LogHost {
    pub(super) regions: RegionTombstones,
    pub(super) sets: Arc<PageSets>,
    pub(super) counters: Arc<Counters>,
}

impl LogHost {
    /// Records what is dead, if the content must survive a crash.
    pub(super) fn tombstones(&self) -> Option<&Arc<Tombstones>> {
        self.regions.tombstones.as_ref()
    }

    fn removed(&self, reason: RemovalReason) -> u64 {
        let objects = self.sets.take_gone();
        self.counters.removals.unknown(reason, Tier::SmallObjects, objects);
        objects
    }
}

impl Host for LogHost {
    type Error = Error;

    async fn invalidate_before(&self, regions: &[RegionId], sequence: u64) -> Result<(), Error> {
        self.regions.invalidate_before(regions, sequence).await
    }

    fn filling_began(&self, region: RegionId, sequence: u64) {
        self.regions.filling_began(region, sequence);
    }

    fn filling_sealed(&self, filling: RegionIdentity) {
        self.regions.filling_sealed(filling);
    }

    fn now_s(&self) -> u32 {
        self.regions.breaker.now_s()
    }

    fn note(&self, event: Event<'_>) {
        let counters = &*self.counters;
        match event {
            Event::Wrote { bytes, .. } => counters.soc_written_bytes.add(bytes),
            Event::WriteEnded(ended) => {
                self.regions.breaker.ended(ended.is_ok());
                if let Err(error) = ended {
                    counters.device_failed(error);
                }
            }
            Event::Failed(error) => counters.device_failed(error),
            Event::Retired(region, _) => {
                let objects = self.removed(RemovalReason::Lost);
                counters.lost_to_device_errors_objects.add(objects);
                counters.soc_retired_regions.add(1);
                events::retired(events::Place::Region, region.number().into(), objects);
            }
            Event::Revived(regions) => events::revived(events::Place::Region, regions),
            Event::BadFooter => counters.soc_bad_pages.add(1),
            Event::Reclaimed => counters.soc_reclaimed_regions.add(1),
            Event::Evicted { .. } => {
                let objects = self.removed(RemovalReason::RegionReclaimed);
                counters.soc_evicted_objects.add(objects);
            }
            // Objects are counted when their regions are given up, deallocated bytes by the device.
            Event::Sealed
            | Event::ReclaimedUnlisted(_)
            | Event::ExpiredRegions(_)
            | Event::ExpiredRecords(_)
            | Event::Reinserted(_)
            | Event::Deallocated(_) => {}
            event => debug_assert!(false, "no counter for {event:?}"),
        }
    }

    fn wants_removals(&self) -> bool {
        false
    }
}
