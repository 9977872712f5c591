//! The array engine: large objects in a log of regions (`larder-log`), grouped by remaining time to live, with an index
//! that is on flash too (BigKV, EuroSys'23). DRAM has some of the index entries, and knows where the others are.
//!
//! ```text
//!   DRAM    sets of four entries ── miss ──► where the key's table lies
//!             │ hit                               │ one read, 4 KiB
//!   flash     │            regions of tables ◄────┘
//!             └──────────► regions of objects, a stream for each group of times to live
//! ```
//!
//! 1. *Two reads,* and at most two for each part of a value that is longer than a region (`long.rs`). An entry in DRAM
//!    leads to the record, in one read. Without such an entry, a page of the key's table is read first; if the table
//!    was never written, the key is not there, and no read is made. An entry that was read replaces a clean entry in
//!    its set. If all entries of the set are dirty, the whole table is read at once, so that it can be written with the
//!    dirty entries included. A set makes at most that one read. If an object moves between the two reads of a look-up,
//!    the result is a miss, never a third read.
//! 2. *Which filling.* An entry names the filling of its record, so that an entry for a region that was reclaimed, has
//!    expired or was lost is detected without a read. The entry has only a few bits of the filling's number, so values
//!    repeat: then the record, which has its full identity, decides. Of keys with the same hash, only the last one that
//!    was set is found.
//! 3. *What is dead* (`dead.rs`) is decided by stamps: those of records, those of tables, and the index of a death. A
//!    death is recorded before the request is answered, because the content of flash is not fully known, and it is kept
//!    until a table on flash knows it. Records, deaths and tables get their numbers under the lock of the log, so that
//!    they are totally ordered.
//! 4. *Tables* lie in their own regions, which are not reclaimed to make room. When there are more of these regions
//!    than necessary, the live tables of one are written elsewhere (`tables/mod.rs`). Every table is written from time
//!    to time, so that recovery after a crash can ignore older records ([`larder_log::Closing::horizon`]).
//! 5. A crash leaves tables, which know all records up to their stamps, and the footers of regions, which list all
//!    other records with their stamps (`recover.rs`).
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | stores and deaths |
//! | `look` | look-ups and scans of objects |
//! | `long` | values in parts |
//! | `engine` | the implementation of [`Engine`](super::Engine) |
//! | `log`, `host` | the regions, and what the log asks of the engine |
//! | `place` | where the regions lie |
//! | `rescue` | from a full region to the next one |
//! | `reinsertion`, `share` | which objects are appended again before their region is reclaimed; how many |
//! | `division`, `group_bytes` | which groups of times to live share a placement handle |
//! | `tables/` | look-ups in sets and tables; writes of tables |
//! | `table`, `entry`, `set`, `index` | bytes of a table; entries, sets, and all that DRAM has of the index |
//! | `dead` | keys that have died while their table on flash does not know it |
//! | `recover` | recovery after a crash |
//! | `snapshot`, `stored` | what a clean shutdown keeps |
//! | `memory` | the memory of the index |

mod dead;
mod division;
mod engine;
mod entry;
mod group_bytes;
mod host;
mod index;
mod log;
mod long;
mod look;
pub(crate) mod memory;
pub(crate) mod place;
mod recover;
mod reinsertion;
mod rescue;
mod set;
mod share;
mod snapshot;
pub(crate) mod stored;
pub(crate) mod table;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use larder_device::Device;
use larder_log::{RegionIdentity, RegionState};

use crate::base::error::Error;
use crate::base::item::{ItemRef, Kind};
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::base::ttl_groups::group_of;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::long::{Stamps, set_in_parts};
use crate::engine::stored::record_of;
use crate::engine::tombstones::{Inheritance, Receipt, Tombstones};
use crate::observe::stats::Counters;
use host::Why;
use log::{ArrayLog, State};
use place::ArrayPlace;
use recover::ArrayRecovery;
use reinsertion::{Appended, Reinsertion};
use tables::Tables;

/// See the [module](self).
pub(crate) struct Array {
    log: Arc<ArrayLog>,
    tables: Tables,
    reinsertion: Reinsertion,
    /// Stamps of values in parts.
    stamps: Stamps,
    /// What a crash has left, until it has been recovered.
    inheritance: Mutex<Option<Arc<Inheritance>>>,
}

/// Result of an attempt to append.
enum AppendOutcome {
    /// Appended to this filling. `piece_is_due`: enough data has been collected for a write.
    Yes { filling: RegionIdentity, stream: usize, piece_is_due: bool },
    /// The open region of this stream has no room.
    Full(usize),
    /// All entries of the set are dirty, so this table must be written first.
    AllDirty(u32),
}

impl Array {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        place: ArrayPlace,
        tombstones: Option<Arc<Tombstones>>,
        (counters, breaker): (Arc<Counters>, Arc<CircuitBreaker>),
    ) -> Self {
        let stamps = Stamps::from(place.log.first_sequence);
        let log = Arc::new(ArrayLog::new(device, place, tombstones, (counters, breaker)));
        let tables = Tables::in_log(Arc::clone(&log));
        let reinsertion = Reinsertion::of(&log);
        Self { log, tables, reinsertion, stamps, inheritance: Mutex::default() }
    }

    /// Stores `item` in place of an older version. Returns whether it is stored; if not, no version of the key is
    /// stored.
    async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        match item.object_bytes() <= self.log.place().record_object_bytes_max() {
            true => self.set_record(item, now_s).await,
            false => set_in_parts(self, item, now_s).await,
        }
    }

    /// The same, for an object that fits into one record.
    async fn set_record(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        let mut may_merge = true;
        loop {
            match self.append(item, now_s, may_merge) {
                AppendOutcome::Yes { filling, stream, piece_is_due } => {
                    let bytes = self.log.place().log.form.bytes_in_region(item.object_bytes());
                    let new = Appended { stream, bytes, now_s };
                    let more = self.reinsertion.advance(new).await;
                    return !(piece_is_due || more) || self.write_pieces(filling).await;
                }
                AppendOutcome::Full(stream) => {
                    if !self.rotate(stream, item.object_bytes(), now_s).await {
                        break;
                    }
                }
                // Only once: if other tasks filled the set again, one of their entries is lost instead of making
                // another read.
                AppendOutcome::AllDirty(table) => {
                    self.tables.write_table(table, Why::Request).await;
                    may_merge = false;
                }
            }
        }
        match self.log.tombstones() {
            // The request that set the item has already voided older versions on flash.
            Some(_) => self.log.lock().entries.remove(item.hash.0),
            None => _ = self.die(item.hash),
        }
        self.log.counters().lost_to_device_errors_objects.add(1);
        let (hash, bytes) = (item.hash.0, item.object_bytes());
        self.log.counters().removals.hash(RemovalReason::Lost, Tier::ArrayObjects, hash, bytes);
        false
    }

    /// Makes sure that the open region of a group has room for an object of this size. `false` if no region is
    /// available.
    async fn rotate(&self, stream: usize, object_bytes: usize, now_s: u32) -> bool {
        debug_assert_ne!(stream, self.log.place().index_stream);
        let opened = rescue::open_next(&self.log, stream, object_bytes, now_s).await;
        if opened == Some(true) {
            self.reinsertion.region_began();
            let begun = self.log.object_region_began();
            self.tables.sweep_for_region(begun).await;
        }
        opened.is_some()
    }

    /// Appends `item` to the open region of its group.
    fn append(&self, item: &ItemRef<'_>, now_s: u32, may_merge: bool) -> AppendOutcome {
        let state = &mut *self.log.lock();
        let slot = state.entries.slot(item.hash.0);
        let shape = state.entries.shape();
        // Compare without the stamp: the earlier append may have had another one.
        let same = record_of(item, None);
        let there = state.entries.set(slot).get(shape, slot.fingerprint);
        let already = there.map(|entry| shape.place_of(entry)).filter(|at| {
            let active = state.active.get(at.region);
            active.is_some_and(|active| active.holds(at.offset, at.span, &same))
        });
        if let Some(at) = already {
            // An earlier call appended it and was dropped.
            let piece_is_due = state.active.is_due(at.region);
            let stream = group_of(self.log.place().groups, item.expiry_s, now_s);
            return AppendOutcome::Yes { filling: state.filling(at.region), stream, piece_is_due };
        }
        if may_merge && !state.entries.set(slot).has_room_for(shape, slot.fingerprint) {
            return AppendOutcome::AllDirty(slot.table);
        }
        let stream = group_of(self.log.place().groups, item.expiry_s, now_s);
        let open = state.active.open(stream);
        if !open.is_some_and(|active| active.has_room_for(item.object_bytes())) {
            return AppendOutcome::Full(stream);
        }
        if self.log.tombstones().is_none() && item.kind != Kind::Part {
            // Without a log, DRAM has hidden the version on flash until now. Mark it dead no earlier than this: if a
            // table were written between the death and this append, it would treat an entry still in its set as newer
            // than the death.
            self.log.dead().die(item.hash.0);
        }
        let lost_before = state.entries.lost;
        let region = state.append(stream, &record_of(item, Some(self.log.dead().clock())));
        self.log.counters().array_lost_entries.add(state.entries.lost - lost_before);
        let piece_is_due = state.active.is_due(region);
        AppendOutcome::Yes { filling: state.filling(region), stream, piece_is_due }
    }

    /// Writes the data that is due of the active regions. Returns whether this filling, to which something was
    /// appended, is still valid: a failed write loses its whole region.
    async fn write_pieces(&self, filling: RegionIdentity) -> bool {
        let mut writer = self.log.regions().writer().await;
        self.log.regions().write_due(&mut writer).await;
        self.reinsertion.note_busy(writer.busy());
        drop(writer);
        let state = self.log.lock();
        let is_kept = state.filling(filling.region) == filling;
        is_kept && state.regions.get(filling.region).state() != RegionState::Retired
    }

    /// Marks everything of this hash dead. Returns whether there may have been something.
    fn die(&self, hash: KeyHash) -> (bool, Option<Receipt>) {
        self.die_in(&mut self.log.lock(), hash)
    }

    fn die_in(&self, state: &mut State, hash: KeyHash) -> (bool, Option<Receipt>) {
        let slot = state.entries.slot(hash.0);
        let shape = state.entries.shape();
        let was_here = state.entries.set_mut(slot).remove(shape, slot.fingerprint).is_some();
        if !was_here && !state.entries.is_touched(slot.table) {
            return (false, None);
        }
        // A record that came after the last death is in a table that knows of that death.
        let stamp = state.entries.place(slot.table).map_or(0, |at| at.stamp);
        let may_be_newer = was_here || state.entries.hides(slot.table);
        if !may_be_newer && self.log.dead().has_died_since(hash.0, stamp) {
            return (true, self.log.dead().all_so_far());
        }
        (true, self.log.dead().die(hash.0))
    }

    /// Whether an object of this hash may be stored.
    fn may_hold(&self, hash: KeyHash) -> bool {
        let state = self.log.lock();
        let slot = state.entries.slot(hash.0);
        if state.entries.set(slot).get(state.entries.shape(), slot.fingerprint).is_some() {
            return true;
        }
        let place = state.entries.place(slot.table);
        place.is_some_and(|at| !self.log.dead().has_died_since(hash.0, at.stamp))
    }

    /// Bytes of the data about objects, tables and regions.
    fn index_bytes(&self) -> u64 {
        let state = self.log.lock();
        (size_of_val(state.regions.all()) + state.entries.memory_bytes()) as u64
    }

    /// Marks all regions Unknown: an earlier opening has left them.
    fn inherit_from(&self, log: Arc<Inheritance>) {
        self.log.lock().regions.forget_all();
        let mut slot = self.inheritance.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = Some(log);
    }

    /// Recovers what a crash has left.
    ///
    /// # Errors
    /// If it cannot be recorded which regions are void.
    async fn recover_all(&self) -> Result<(), Error> {
        let inheritance = self.inheritance.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(inheritance) = inheritance else { return Ok(()) };
        ArrayRecovery::of(&self.log, &self.tables, inheritance).run().await?;
        *self.inheritance.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Voids everything before this epoch. The caller makes sure that no other request uses the engine and that nothing
    /// is in flight.
    fn clear_all(&self, epoch: u64) {
        let first_sequence = epoch << 32;
        let first = self.log.place().log.first_sequence;
        assert!(first_sequence > first, "epoch {epoch}: fillings from {first} on are void");
        self.reinsertion.forget();
        self.log.clear(first_sequence);
        self.stamps.restart(first_sequence);
        self.tables.restart_sweep();
        self.log.divide_groups();
    }
}
