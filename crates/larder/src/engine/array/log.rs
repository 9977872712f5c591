//! The log of the array: its regions, where they lie, and what is dead.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use larder_device::{Device, IoBuffer};
use larder_log::{LogPlace, LogState, RecordIdentity, RegionIdentity, RegionLog, RegionState};

use super::dead::{DEATHS_PER_TABLE, Dead};
use super::division;
use super::entry::{RecordPlace, SetEntry};
use super::group_bytes::GroupBytes;
use super::host::LogHost;
use super::index::ArrayIndex;
use super::place::ArrayPlace;
use crate::base::error::Error;
use crate::base::item::FlashItem;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::long::Lack;
use crate::engine::region_tombstones::RegionTombstones;
use crate::engine::tombstones::Tombstones;
use crate::observe::stats::Counters;

/// Regions of objects that are begun between two checks of the division.
const LOOK_EVERY: u32 = 32;

pub(super) type State = LogState<ArrayIndex>;

/// The regions of objects and of tables, with the index in DRAM as their entries. An entry is current if the region
/// that it names still has the filling that it names.
pub(super) struct ArrayLog {
    regions: RegionLog<ArrayIndex, LogHost>,
    place: ArrayPlace,
    dead: Arc<Dead>,
    /// Number of regions of objects that were begun.
    begun: AtomicU32,
}

impl ArrayLog {
    pub(super) fn new(
        device: Arc<dyn Device>,
        place: ArrayPlace,
        tombstones: Option<Arc<Tombstones>>,
        (counters, breaker): (Arc<Counters>, Arc<CircuitBreaker>),
    ) -> Self {
        assert_eq!(place.log.streams.len(), place.index_stream + 1, "each stream has a handle");
        let most = DEATHS_PER_TABLE * place.tables as usize;
        let dead = Arc::new(Dead::new(tombstones.as_ref(), most));
        let regions = RegionTombstones { tombstones, breaker, first: place.first_region_number };
        let host = LogHost {
            regions,
            counters,
            dead: Arc::clone(&dead),
            index_stream: place.index_stream,
            group_bytes: GroupBytes::of(place.index_stream),
            learnt: Mutex::default(),
        };
        let regions = RegionLog::new(device, place.log.clone(), empty_index(&place), host);
        Self { regions, place, dead, begun: AtomicU32::new(0) }
    }

    pub(super) fn regions(&self) -> &RegionLog<ArrayIndex, LogHost> {
        &self.regions
    }

    pub(super) fn host(&self) -> &LogHost {
        self.regions.host()
    }

    pub(super) fn place(&self) -> &ArrayPlace {
        &self.place
    }

    pub(super) fn dead(&self) -> &Arc<Dead> {
        &self.dead
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.host().counters
    }

    pub(super) fn tombstones(&self) -> Option<&Arc<Tombstones>> {
        self.host().regions.tombstones.as_ref()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.regions.lock()
    }

    /// Whether the record of an entry is where the entry says, as far as DRAM knows.
    pub(super) fn is_current(&self, state: &State, entry: SetEntry) -> bool {
        let shape = state.entries.shape();
        let RecordPlace { region, .. } = shape.place_of(entry);
        if region.number() >= self.place.log.regions {
            return false;
        }
        let filled = state.regions.get(region);
        shape.is_of_filling(entry, filled.sequence())
            && matches!(filled.state(), RegionState::Active | RegionState::Sealed)
    }

    /// The bytes at a place, if they are not on flash yet.
    pub(super) fn in_memory(&self, state: &State, at: RecordPlace) -> Option<IoBuffer> {
        state.active.in_memory(at.region, (at.offset, at.span), self.regions.pool())
    }

    /// Reads the record at a place.
    ///
    /// # Errors
    /// If it cannot be read or is not valid.
    pub(super) async fn read_record(
        &self,
        at: RecordPlace,
        filling: RegionIdentity,
        in_memory: Option<IoBuffer>,
    ) -> Result<FlashItem, Lack> {
        let (buffer, skip) = match in_memory {
            Some(buffer) => (buffer, 0),
            None => {
                self.counters().array_record_reads.add(1);
                let read = self.regions.read(at.region, at.offset, at.span).await;
                read.ok_or(Lack::Unreadable)?
            }
        };
        let ArrayPlace { log: LogPlace { cache, .. }, hasher, .. } = self.place;
        let identity = RecordIdentity { cache, sequence: filling.sequence, offset: at.offset };
        FlashItem::parse(buffer, skip, identity, hasher).ok_or_else(|| {
            let counters = self.counters();
            if self.regions.is_filling(filling) {
                counters.array_bad_records.add(1);
                Lack::Gone
            } else {
                counters.array_overtaken_reads.add(1);
                Lack::Unreadable
            }
        })
    }

    /// Counts a region of objects that was begun; from time to time, divides the groups anew. Returns the number that
    /// were begun before it.
    pub(super) fn object_region_began(&self) -> u32 {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        if begun % LOOK_EVERY == LOOK_EVERY - 1 {
            self.divide_groups();
        }
        begun
    }

    /// Checks whether another division of the groups among the plan's handles is better, and applies it.
    pub(super) fn divide_groups(&self) {
        if division::divide(&self.place, &self.host().group_bytes, &self.regions) {
            self.counters().array_group_divisions.add(1);
        }
    }

    /// Restores a valid filling of an earlier opening.
    pub(super) fn restore_filling(
        &self,
        filling: RegionIdentity,
        stream: u16,
        latest_expiry_s: u32,
    ) {
        let stays = usize::from(stream) == self.place.index_stream;
        let mut state = self.lock();
        state.regions.restore(filling, latest_expiry_s);
        state.regions.note_filled(filling.region, (stream, stays));
        drop(state);
        // A substitute for the bytes that were written to this group before.
        self.host().group_bytes.add(usize::from(stream), self.place.log.region_bytes.into());
        if let Some(tombstones) = self.tombstones() {
            let number = self.host().regions.number(filling.region);
            tombstones.inherit_filling(number, filling.sequence, 0);
        }
    }

    /// Records that regions which were not taken over stay empty after a crash.
    pub(super) async fn void_what_is_free(&self) -> Result<(), Error> {
        let free = self.lock().regions.in_state(RegionState::Free);
        self.regions.empty_regions(&free).await
    }

    /// Voids everything before this epoch. The caller makes sure that no other request uses the engine and that nothing
    /// is in flight.
    pub(super) fn clear(&self, first_sequence: u64) {
        self.regions.clear(first_sequence, empty_index(&self.place));
        self.dead.forget_all();
    }
}

fn empty_index(place: &ArrayPlace) -> ArrayIndex {
    let sizes = (place.tables, place.sets_per_table);
    ArrayIndex::new(sizes, place.log.region_bytes, place.index_stream)
}
