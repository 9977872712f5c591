//! What the log asks of the engine: dead records go to the tombstones, events to the counters, and record positions to
//! the index.

use std::sync::Arc;

use larder_log::{Entries, Event, FooterEntry, Host, RegionId, RegionIdentity};

use super::index::LocIndex;
use crate::base::error::Error;
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::region_tombstones::RegionTombstones;
use crate::engine::tombstones::Tombstones;
use crate::observe::events;
use crate::observe::stats::Counters;

/// The engine as the host of its log.
pub(super) struct LogHost {
    /// Records which regions are dead.
    pub(super) regions: RegionTombstones,
    pub(super) counters: Arc<Counters>,
}

impl LogHost {
    /// Records what is dead, if the content must survive a crash.
    pub(super) fn tombstones(&self) -> Option<&Arc<Tombstones>> {
        self.regions.tombstones.as_ref()
    }

    /// Reports the objects of these entries as removed.
    fn removed(&self, reason: RemovalReason, entries: &[FooterEntry]) {
        for &FooterEntry { hash, length, .. } in entries {
            self.counters.removals.hash(reason, Tier::LargeObjects, hash, length as usize);
        }
    }

    fn retired(&self, region: RegionId, lost: &[FooterEntry]) {
        let objects = lost.len() as u64;
        self.removed(RemovalReason::Lost, lost);
        self.counters.lost_to_device_errors_objects.add(objects);
        self.counters.loc_retired_regions.add(1);
        events::retired(events::Place::Region, region.number().into(), objects);
    }

    fn revived(&self, regions: u64) {
        self.counters.loc_revived_regions.add(regions);
        events::revived(events::Place::Region, regions);
    }

    /// Reports this number of objects as removed, without their keys.
    fn removed_unknown(&self, reason: RemovalReason, objects: u64) {
        self.counters.removals.unknown(reason, Tier::LargeObjects, objects);
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
            Event::Wrote { bytes, .. } => counters.loc_written_bytes.add(bytes),
            Event::WriteEnded(ended) => {
                self.regions.breaker.ended(ended.is_ok());
                if let Err(error) = ended {
                    counters.device_failed(error);
                }
            }
            Event::Failed(error) => counters.device_failed(error),
            Event::Sealed => counters.loc_sealed_regions.add(1),
            Event::Retired(region, lost) => self.retired(region, lost),
            Event::Revived(regions) => self.revived(regions),
            Event::BadFooter => counters.loc_bad_records.add(1),
            Event::ExpiredRegions(regions) => counters.loc_expired_regions.add(regions),
            Event::ExpiredRecords(records) => {
                counters.loc_expired_objects.add(records);
                self.removed_unknown(RemovalReason::Expired, records);
            }
            Event::Reclaimed => counters.loc_reclaimed_regions.add(1),
            Event::ReclaimedUnlisted(records) => {
                self.removed_unknown(RemovalReason::RegionReclaimed, records);
            }
            Event::Reinserted(bytes) => {
                counters.loc_reinserted_objects.add(1);
                counters.loc_reinserted_bytes.add(bytes);
            }
            Event::Evicted { records, listed } => {
                counters.loc_evicted_objects.add(records);
                self.removed(RemovalReason::RegionReclaimed, listed);
            }
            Event::Deallocated(bytes) => counters.loc_deallocated_bytes.add(bytes),
            event => debug_assert!(false, "no counter for {event:?}"),
        }
    }

    fn wants_removals(&self) -> bool {
        self.counters.removals.wanted()
    }
}

impl Entries for LocIndex {
    fn points_to(&self, _stream: usize, hash: u64, region: RegionId, offset: u32) -> bool {
        self.points_to(KeyHash(hash), region, offset)
    }

    fn set(&mut self, _stream: usize, filling: RegionIdentity, entry: &FooterEntry) {
        self.set(KeyHash(entry.hash), filling.region, entry.offset, entry.length);
    }

    fn remove_if_at(
        &mut self,
        _stream: Option<usize>,
        hash: u64,
        region: RegionId,
        offset: u32,
    ) -> bool {
        self.remove_if_at(KeyHash(hash), region, offset)
    }

    fn remove_region(&mut self, region: RegionId) -> u64 {
        self.remove_region(region)
    }

    fn parts(&self) -> usize {
        self.shards()
    }

    fn sweep(&mut self, part: usize, is_gone: &dyn Fn(RegionId) -> bool) -> u64 {
        self.sweep(part, is_gone)
    }
}
