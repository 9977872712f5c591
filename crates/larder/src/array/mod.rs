//! The array engine: large objects in a log of regions (`larder-log`), by what remains of their time, under an index
//! that lies on flash too (BigKV, EuroSys'23). DRAM has some of its entries, and says where the rest is.
//!
//! ```text
//!   DRAM    sets of four entries ── miss ──► where the key's table lies
//!             │ hit                               │ one read, 4 KiB
//!   flash     │            regions of tables ◄────┘
//!             └──────────► regions of objects, a stream for each group of times to live
//! ```
//!
//! 1. *Two reads,* and two at most for each part of a value that is longer than a region (`long.rs`).
//!    An entry in DRAM leads to the record, in one read. Without one, a page of the key's table is read
//!    first; if the table was never written there is nothing, without a read. An entry that was read takes the place
//!    of a clean one in its set; where all are dirty, the whole table is read at once, so that it can be written with
//!    what they say. A set makes at most that one read. What moves between the two reads of a look-up makes it a miss,
//!    never a third.
//! 2. *Which filling.* An entry says of which filling its record is, so that what leads into a region that was
//!    reclaimed, has expired or was lost is recognised without a read. A number of so few bits comes round: then the
//!    record, which says in full whose it is, tells. Of keys with one hash the last that was set is found.
//! 3. *What is dead* (`dead.rs`) is a matter of stamps: those of records, of tables, and the index of a death. A death
//!    is written down before it is answered, for nobody knows what flash holds, and until a table knows it that is on
//!    flash. Records, deaths and tables get their numbers under the lock of the log, so each is before or after each
//!    other.
//! 4. *Tables* lie in regions of their own, which do not give way when room is wanted; when they are more than enough,
//!    what lives of one is written to another (`tables.rs`). Every table is written now and then, so that a crash need
//!    not look at what is older ([`larder_log::Closing::horizon`]).
//! 5. A crash leaves tables, which know all records up to their stamps, and the footers of regions, which list all
//!    others with theirs (`recover.rs`).

pub(crate) mod config;
mod dead;
mod division;
mod engine;
mod entry;
mod group_bytes;
pub(crate) mod groups;
mod host;
mod index;
mod long;
mod look;
pub(crate) mod memory;
pub(crate) mod place;
mod recover;
mod rescue;
mod rotate;
mod scan;
mod set;
mod snapshot;
pub(crate) mod stored;
mod sweep;
pub(crate) mod table;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard};

use larder_device::Device;
use larder_log::{LogState, RegionIdentity, RegionLog, RegionState};

use crate::breaker::CircuitBreaker;
use crate::item::{ItemRef, Kind};
use crate::key::KeyHash;
use crate::long::{Stamps, set_in_parts};
use crate::region_tombstones::RegionTombstones;
use crate::removal::RemovalReason;
use crate::stats::Counters;
use crate::stored::record_of;
use crate::tier::Tier;
use crate::tombstones::{Inheritance, Receipt, Tombstones};
use dead::{DEATHS_PER_TABLE, Dead};
use group_bytes::GroupBytes;
use groups::group_of;
use host::{LogHost, Why};
use index::Index;
use place::ArrayPlace;
use sweep::Sweep;

/// See the [module](self).
pub(crate) struct Array {
    log: RegionLog<Index, LogHost>,
    place: ArrayPlace,
    dead: Arc<Dead>,
    /// Whether somebody empties a region of tables: one at a time is enough.
    cleaning: AtomicBool,
    /// Whether there may be too many regions of tables.
    is_crowded: AtomicBool,
    /// Regions of objects that were begun.
    begun: AtomicU32,
    /// The turn of all tables to be written.
    sweep: async_lock::Mutex<Sweep>,
    /// Of values in parts.
    stamps: Stamps,
    /// What a crash has left, until it was looked at.
    inheritance: Mutex<Option<Arc<Inheritance>>>,
}

type State = LogState<Index>;

/// How an attempt to append ended.
enum Appended {
    /// Where it is, and whether enough has come together to be written.
    Yes { filling: RegionIdentity, piece_is_due: bool },
    /// The open region of this stream has no room.
    Full(usize),
    /// No entry of this table's set may give way.
    AllDirty(u32),
}

impl Array {
    pub(crate) fn new(
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
        let log = RegionLog::new(device, place.log.clone(), empty_index(&place), host);
        let sweep = async_lock::Mutex::new(Sweep::beginning_at(dead.clock()));
        let stamps = Stamps::from(place.log.first_sequence);
        Self {
            log,
            place,
            dead,
            cleaning: AtomicBool::new(false),
            is_crowded: AtomicBool::new(true),
            begun: AtomicU32::new(0),
            sweep,
            stamps,
            inheritance: Mutex::default(),
        }
    }

    fn counters(&self) -> &Counters {
        &self.log.host().counters
    }

    fn tombstones(&self) -> Option<&Arc<Tombstones>> {
        self.log.host().regions.tombstones.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.log.lock()
    }

    /// Stores `item` in place of an older version. Says whether it is stored; if not, no version of the key is.
    async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        match item.object_bytes() <= self.place.record_object_bytes_max() {
            true => self.set_record(item, now_s).await,
            false => set_in_parts(self, item, now_s).await,
        }
    }

    /// The same, of what one record holds.
    async fn set_record(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        let mut may_merge = true;
        loop {
            match self.append(item, now_s, may_merge) {
                Appended::Yes { filling, piece_is_due } => {
                    return !piece_is_due || self.write_pieces(filling).await;
                }
                Appended::Full(stream) => {
                    if !self.rotate(stream, item.object_bytes(), now_s).await {
                        break;
                    }
                }
                // Once: where others were faster meanwhile, one of theirs is lost rather than another read made.
                Appended::AllDirty(table) => {
                    self.write_table(table, Why::Request).await;
                    may_merge = false;
                }
            }
        }
        match self.tombstones() {
            // Who made the item saw to what is on flash.
            Some(_) => self.lock().entries.remove(item.hash.0),
            None => _ = self.die(item.hash),
        }
        self.counters().lost_to_device_errors_objects.add(1);
        let (hash, bytes) = (item.hash.0, item.object_bytes());
        self.counters().removals.hash(RemovalReason::Lost, Tier::ArrayObjects, hash, bytes);
        false
    }

    /// Appends `item` to the open region of its group.
    fn append(&self, item: &ItemRef<'_>, now_s: u32, may_merge: bool) -> Appended {
        let state = &mut *self.lock();
        let slot = state.entries.slot(item.hash.0);
        let shape = state.entries.shape();
        // Whenever it was appended.
        let same = record_of(item, None);
        let there = state.entries.set(slot).get(shape, slot.fingerprint);
        let already = there.map(|entry| shape.place_of(entry)).filter(|at| {
            let active = state.active.get(at.region);
            active.is_some_and(|active| active.holds(at.offset, at.span, &same))
        });
        if let Some(at) = already {
            // A caller gave up after appending it.
            let piece_is_due = state.active.is_due(at.region);
            return Appended::Yes { filling: state.filling(at.region), piece_is_due };
        }
        if may_merge && !state.entries.set(slot).has_room_for(shape, slot.fingerprint) {
            return Appended::AllDirty(slot.table);
        }
        let stream = group_of(self.place.groups, item.expiry_s, now_s);
        let open = state.active.open(stream);
        if !open.is_some_and(|active| active.has_room_for(item.object_bytes())) {
            return Appended::Full(stream);
        }
        if self.tombstones().is_none() && item.kind != Kind::Part {
            // Where there is no log, DRAM has hidden what is on flash. Not before: a table that is written between the
            // death and this would count what its set still has as newer than the death.
            self.dead.die(item.hash.0);
        }
        let lost_before = state.entries.lost;
        let region = state.append(stream, &record_of(item, Some(self.dead.clock())));
        self.counters().array_lost_entries.add(state.entries.lost - lost_before);
        let piece_is_due = state.active.is_due(region);
        Appended::Yes { filling: state.filling(region), piece_is_due }
    }

    /// Writes what has come together of the active regions. Says whether this filling, to which something was appended,
    /// still counts: a failed write takes its region with it.
    async fn write_pieces(&self, filling: RegionIdentity) -> bool {
        let mut writer = self.log.writer().await;
        self.log.write_due(&mut writer).await;
        drop(writer);
        let state = self.lock();
        let is_kept = state.filling(filling.region) == filling;
        is_kept && state.regions.get(filling.region).state() != RegionState::Retired
    }

    /// All that there is of this hash dies. Says whether there may have been something.
    fn die(&self, hash: KeyHash) -> (bool, Option<Receipt>) {
        self.die_in(&mut self.lock(), hash)
    }

    fn die_in(&self, state: &mut State, hash: KeyHash) -> (bool, Option<Receipt>) {
        let slot = state.entries.slot(hash.0);
        let shape = state.entries.shape();
        let was_here = state.entries.set_mut(slot).remove(shape, slot.fingerprint).is_some();
        if !was_here && !state.entries.is_touched(slot.table) {
            return (false, None);
        }
        // What came after its last death is in a table that knows of that death.
        let stamp = state.entries.place(slot.table).map_or(0, |at| at.stamp);
        let may_be_newer = was_here || state.entries.hides(slot.table);
        if !may_be_newer && self.dead.has_died_since(hash.0, stamp) {
            return (true, self.dead.all_so_far());
        }
        (true, self.dead.die(hash.0))
    }

    /// Whether an object of this hash may be stored.
    fn may_hold(&self, hash: KeyHash) -> bool {
        let state = self.lock();
        let slot = state.entries.slot(hash.0);
        if state.entries.set(slot).get(state.entries.shape(), slot.fingerprint).is_some() {
            return true;
        }
        let place = state.entries.place(slot.table);
        place.is_some_and(|at| !self.dead.has_died_since(hash.0, at.stamp))
    }

    /// Everything before this epoch is void. Nobody else uses the engine, and nothing is under way.
    fn clear_all(&self, epoch: u64) {
        let first_sequence = epoch << 32;
        let first = self.place.log.first_sequence;
        assert!(first_sequence > first, "epoch {epoch}: fillings from {first} on are void");
        self.log.clear(first_sequence, empty_index(&self.place));
        self.dead.forget_all();
        self.stamps.restart(first_sequence);
        self.restart_sweep();
        self.divide_groups();
    }
}

fn empty_index(place: &ArrayPlace) -> Index {
    let sizes = (place.tables, place.sets_per_table);
    Index::new(sizes, place.log.region_bytes, place.index_stream)
}
