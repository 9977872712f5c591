//! What the log asks of the array: dead regions go to the tombstones, events to the counters, and deaths that tables on
//! flash know are forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use larder_log::{Event, FooterEntry, Host, RegionId, RegionIdentity};

use super::dead::{Dead, Death};
use super::group_bytes::GroupBytes;
use crate::base::error::Error;
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::region_tombstones::RegionTombstones;
use crate::observe::events;
use crate::observe::stats::Counters;

/// Why a table is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// For a look-up or a set.
    Request,
    /// For maintenance: no request waits for it.
    Upkeep,
}

/// The engine as the host of its log.
pub(super) struct LogHost {
    pub(super) regions: RegionTombstones,
    pub(super) counters: Arc<Counters>,
    pub(super) dead: Arc<Dead>,
    /// The stream of tables.
    pub(super) index_stream: usize,
    pub(super) group_bytes: GroupBytes,
    /// Deaths that written tables know, while these tables are not on flash yet; by the region of the table.
    pub(super) learnt: Mutex<HashMap<u32, Vec<Death>>>,
}

impl LogHost {
    /// Notes the deaths that a table knows which is on its way to flash in this region.
    pub(super) fn learns(&self, region: RegionId, deaths: Vec<Death>) {
        if !deaths.is_empty() {
            let mut learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
            learnt.entry(region.number()).or_default().extend(deaths);
        }
    }

    /// Counts a read of a table.
    pub(super) fn reads_a_table(&self, why: Why) {
        match why {
            Why::Request => self.counters.array_table_reads.add(1),
            Why::Upkeep => self.counters.array_upkeep_reads.add(1),
        }
    }

    /// The deaths that tables in a region know; they are on flash now, or lost.
    fn take_learnt(&self, region: RegionId) -> Vec<Death> {
        let mut learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        learnt.remove(&region.number()).unwrap_or_default()
    }

    /// Reports the objects of these entries as removed.
    fn removed(&self, reason: RemovalReason, entries: &[FooterEntry]) {
        for &FooterEntry { hash, length, .. } in entries {
            self.counters.removals.hash(reason, Tier::ArrayObjects, hash, length as usize);
        }
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
        self.dead.known(&self.take_learnt(filling.region));
    }

    fn now_s(&self) -> u32 {
        self.regions.breaker.now_s()
    }

    fn note(&self, event: Event<'_>) {
        let counters = &*self.counters;
        match event {
            Event::Wrote { stream, bytes } if stream == self.index_stream => {
                counters.array_index_written_bytes.add(bytes);
            }
            Event::Wrote { stream, bytes } => {
                counters.array_data_written_bytes.add(bytes);
                self.group_bytes.add(stream, bytes);
            }
            Event::WriteEnded(ended) => {
                self.regions.breaker.ended(ended.is_ok());
                if let Err(error) = ended {
                    counters.device_failed(error);
                }
            }
            Event::Failed(error) => counters.device_failed(error),
            Event::Sealed => counters.array_sealed_regions.add(1),
            Event::Retired(region, lost) => {
                // The deaths that these tables knew stay pending.
                drop(self.take_learnt(region));
                let objects = lost.len() as u64;
                self.removed(RemovalReason::Lost, lost);
                counters.lost_to_device_errors_objects.add(objects);
                counters.array_retired_regions.add(1);
                events::retired(events::Place::Region, region.number().into(), objects);
            }
            Event::Revived(regions) => {
                counters.array_revived_regions.add(regions);
                events::revived(events::Place::Region, regions);
            }
            Event::BadFooter => counters.array_bad_records.add(1),
            Event::ExpiredRegions(regions) => counters.array_expired_regions.add(regions),
            Event::Reclaimed => counters.array_reclaimed_regions.add(1),
            Event::Reinserted(bytes) => {
                counters.array_reinserted_objects.add(1);
                counters.array_reinserted_bytes.add(bytes);
            }
            Event::Evicted { records, listed } => {
                counters.array_evicted_objects.add(records);
                self.removed(RemovalReason::RegionReclaimed, listed);
            }
            // Not reported as removals: their number is unknown, since the index in DRAM knows only some of them.
            Event::ExpiredRecords(_) | Event::ReclaimedUnlisted(_) | Event::Deallocated(_) => {}
            event => debug_assert!(false, "no counter for {event:?}"),
        }
    }

    fn wants_removals(&self) -> bool {
        self.counters.removals.wanted()
    }
}
