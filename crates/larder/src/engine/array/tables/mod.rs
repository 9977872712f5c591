//! Writes tables, with what DRAM knows and without entries that are dead or lead to no record; all of them in turn from
//! time to time; and empties their regions. `locate.rs` looks keys up.

mod locate;

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_log::{NewRecord, RegionId};

use super::dead::Death;
use super::entry::{Fingerprint, SetEntry};
use super::host::Why;
use super::index::TablePlace;
use super::log::{ArrayLog, State};
use super::rescue;
use super::set::IndexSet;
use super::table::{KEY_BYTES, PAGES, Page, TableBuilder, TableIdentity, VALUE_BYTES};
use crate::base::key::KeyHash;
use crate::engine::stored::IS_TABLE;
use locate::TableRead;

/// A zero value with the length of a table's value.
const BLANK: [u8; VALUE_BYTES] = [0; VALUE_BYTES];

/// The next step of writing a table.
enum Step {
    /// Nothing.
    Done,
    Read(TableRead),
    /// The open region of its stream has no room for it.
    MakeRoom,
}

/// Number of times that all tables are written during one round of the regions.
const SWEEPS_A_ROUND: u64 = 8;

/// Progress of a sweep, which writes all tables in turn, so that recovery after a crash can ignore what is older than
/// the last complete sweep.
#[derive(Debug)]
struct Sweep {
    /// The next table.
    next: u32,
    /// The clock at the beginning of the sweep; `None` if one of its tables could not be written.
    began: Option<u64>,
}

impl Sweep {
    /// A sweep that begins now.
    fn beginning_at(clock: u64) -> Self {
        Self { next: 0, began: Some(clock) }
    }
}

/// The tables on flash, and the sets in DRAM in front of them. Of each table the newest writing is valid, and it knows
/// everything up to its stamp.
pub(super) struct Tables {
    log: Arc<ArrayLog>,
    /// Whether a task is emptying a region of tables: one at a time is enough.
    cleaning: AtomicBool,
    /// Whether there may be too many regions of tables.
    is_crowded: AtomicBool,
    sweep: async_lock::Mutex<Sweep>,
}

impl Tables {
    pub(super) fn in_log(log: Arc<ArrayLog>) -> Self {
        let sweep = async_lock::Mutex::new(Sweep::beginning_at(log.dead().clock()));
        let (cleaning, is_crowded) = (AtomicBool::new(false), AtomicBool::new(true));
        Self { log, cleaning, is_crowded, sweep }
    }

    /// Writes a table with everything that its sets know. Costs at most one read, unless another task has written the
    /// table in between. Returns whether it is written, by this or another task.
    pub(super) async fn write_table(&self, table: u32, why: Why) -> bool {
        self.write_table_with(table, &[], why).await
    }

    /// The same, with entries that neither its sets nor its newest writing know.
    pub(super) async fn write_table_with(&self, table: u32, more: &[SetEntry], why: Why) -> bool {
        let mut read: Option<(TablePlace, Vec<Page>)> = None;
        loop {
            let step = self.step(&mut self.log.lock(), (table, more), read.as_ref());
            match step {
                Step::Done => break,
                Step::Read(wanted) => match self.read_pages(&wanted, why).await {
                    Some(pages) => read = Some((wanted.at, pages)),
                    // The device fails.
                    None if self.is_newest(&wanted) => return false,
                    // The table is lost, and starts again empty, or another task has written it.
                    None => {}
                },
                Step::MakeRoom => {
                    if !self.make_room_for_tables().await {
                        return false;
                    }
                }
            }
        }
        self.log.regions().write_what_is_due().await;
        // Any task does this, not only the one that has opened a region: that one may have been dropped.
        if self.is_crowded.load(Ordering::Acquire) && !self.cleaning.swap(true, Ordering::AcqRel) {
            let cleaning = Cleaning(self);
            self.empty_a_region_of_tables().await;
            drop(cleaning);
        }
        true
    }

    /// Writes a table, or returns what is missing for that.
    fn step(
        &self,
        state: &mut State,
        (table, more): (u32, &[SetEntry]),
        read: Option<&(TablePlace, Vec<Page>)>,
    ) -> Step {
        let known = match (state.entries.place(table), read) {
            (Some(at), Some((of, pages))) if at.is_same(of) => Some((of.stamp, pages.as_slice())),
            // Another task has written it, or it was lost and the next caller starts it again.
            (_, Some(_)) => return Step::Done,
            (Some(at), None) => {
                return Step::Read(self.table_read(state, table, at, 0..PAGES));
            }
            (None, None) => None,
        };
        match self.rewrite(state, (table, more), known) {
            true => Step::Done,
            false => Step::MakeRoom,
        }
    }

    fn is_newest(&self, read: &TableRead) -> bool {
        let place = self.log.lock().entries.place(read.table);
        place.is_some_and(|at| at.is_same(&read.at))
    }

    /// Writes a table. `known` has the pages of its newest writing on flash, with their stamp. Returns whether the open
    /// region has room for it.
    pub(super) fn rewrite(
        &self,
        state: &mut State,
        (table, more): (u32, &[SetEntry]),
        known: Option<(u64, &[Page])>,
    ) -> bool {
        let key = u64::from(table).to_le_bytes();
        let stream = self.log.place().index_stream;
        let open = state.active.open(stream);
        if !open.is_some_and(|open| open.has_room_for(KEY_BYTES + VALUE_BYTES)) {
            return false;
        }
        // Read the clock first: keys that die after this are not dead in this writing.
        let stamp = self.log.dead().clock();
        let deaths = self.log.dead().within(state.entries.hashes_of(table));
        let builder = self.merge(state, (table, more), known, &deaths);
        let record = |value| NewRecord {
            hash: table.into(),
            key: &key,
            value,
            expiry_s: 0,
            flags: 0,
            marks: IS_TABLE,
            stamp: Some(stamp),
        };
        let next = state.active.next_place(stream, &record(&BLANK)).expect("it is open");
        let (region, offset, _) = next;
        let (cache, sequence) = (self.log.place().log.cache, state.filling(region).sequence);
        let identity = TableIdentity { cache, table, sequence, offset };
        let (value, built) = builder.encode(identity, stamp);
        state.append_indexed(stream, &record(&value), next);
        state.entries.table_written(table, (region, offset), stamp, built);
        self.log.host().learns(region, deaths);
        self.log.counters().array_table_writes.add(1);
        self.log.counters().array_table_overflows.add(built.lost);
        true
    }

    /// Collects the entries of a table: dirty entries of its sets first, then `more`, then its previous entries.
    fn merge(
        &self,
        state: &State,
        (table, more): (u32, &[SetEntry]),
        known: Option<(u64, &[Page])>,
        deaths: &[Death],
    ) -> TableBuilder {
        let index = &state.entries;
        let shape = index.shape();
        let mut builder = TableBuilder::default();
        let dirty = index.sets_of(table).iter().flat_map(IndexSet::dirty);
        dirty
            .filter(|&entry| self.log.is_current(state, entry))
            .for_each(|it| builder.add(shape, it));
        let news: HashSet<u64> = more.iter().map(|&it| shape.fingerprint_of(it).0).collect();
        more.iter().for_each(|&entry| builder.add(shape, entry));
        let Some((known_at, pages)) = known else { return builder };
        let died = deaths.iter().filter(|(_, index)| *index >= known_at);
        let died: HashSet<u64> = died.map(|(hash, _)| shape.fingerprint(*hash).0).collect();
        for &entry in pages.iter().flat_map(|page| &page.entries) {
            let Fingerprint(fingerprint) = shape.fingerprint_of(entry);
            let slot = index.slot_of(table, Fingerprint(fingerprint));
            let newer = index.set(slot).get(shape, slot.fingerprint);
            let is_replaced = newer.is_some_and(SetEntry::is_dirty) || news.contains(&fingerprint);
            if !is_replaced && !died.contains(&fingerprint) && self.log.is_current(state, entry) {
                builder.add(shape, entry);
            }
        }
        builder
    }

    /// Writes all tables that have something to learn. What cannot be written is lost with this opening.
    pub(super) async fn write_all_tables(&self) {
        for table in 0..self.log.place().tables {
            if self.has_news(table) {
                self.write_table(table, Why::Upkeep).await;
            }
        }
    }

    /// Whether there is something that the newest writing of a table does not know.
    pub(super) fn has_news(&self, table: u32) -> bool {
        let state = self.log.lock();
        let hashes = state.entries.hashes_of(table);
        let is_behind = state.entries.has_dirty(table) || state.entries.hides(table);
        is_behind || !self.log.dead().within(hashes).is_empty()
    }

    /// Each caller that adds a death helps to write a table with pending deaths, if there are too many.
    pub(super) async fn relieve(&self, hash: KeyHash) {
        if let Some(dead) = self.log.dead().to_work_off(hash.0) {
            let table = self.log.lock().entries.slot(dead).table;
            self.write_table(table, Why::Upkeep).await;
        }
    }

    /// Makes sure that there is an open region with room for a table. `false` if no region is available.
    async fn make_room_for_tables(&self) -> bool {
        let now_s = self.log.host().regions.breaker.now_s();
        // Set this before the await, because the task may be dropped while it waits.
        self.is_crowded.store(true, Ordering::Release);
        let stream = self.log.place().index_stream;
        rescue::open_next(&self.log, stream, KEY_BYTES + VALUE_BYTES, now_s).await.is_some()
    }

    /// Moves the live tables of the emptiest region of tables, if there are more such regions than necessary. Boxed
    /// because of recursion: it writes tables, and writing a table may have called it.
    fn empty_a_region_of_tables(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            let Some(victim) = self.region_to_empty() else {
                self.is_crowded.store(false, Ordering::Release);
                return;
            };
            let tables = self.log.lock().entries.tables_in(victim);
            for table in tables {
                if !self.write_table(table, Why::Upkeep).await {
                    return;
                }
            }
            // A crash must find the newer writings: deaths that tables on flash know have been forgotten elsewhere.
            self.log.regions().write_out().await;
            let is_empty = {
                let state = self.log.lock();
                state.entries.live_in(victim) == 0 && !state.entries.has_lost_tables()
            };
            if is_empty && self.log.regions().give_up_region(victim).await {
                self.log.counters().array_emptied_regions.add(1);
            }
        })
    }

    fn region_to_empty(&self) -> Option<RegionId> {
        let state = self.log.lock();
        let of_tables = |region: RegionId| {
            state.regions.get(region).stream() == Some(self.log.place().index_stream)
        };
        let sealed = state.regions.sealed().map(|filling| filling.region);
        let regions: Vec<RegionId> = sealed.filter(|&region| of_tables(region)).collect();
        let emptiest = regions.iter().copied().min_by_key(|&it| state.entries.live_in(it))?;
        let too_many = regions.len() >= self.log.place().table_regions_max();
        (too_many || state.entries.live_in(emptiest) == 0).then_some(emptiest)
    }

    /// Starts a new sweep. The caller makes sure that no other request uses the engine.
    pub(super) fn restart_sweep(&self) {
        if let Some(mut sweep) = self.sweep.try_lock() {
            *sweep = Sweep::beginning_at(self.log.dead().clock());
        }
    }

    /// Continues the sweep by at most `most` tables: writes those that have something to learn. One task at a time is
    /// enough, so other callers return at once.
    async fn sweep_tables(&self, most: u32) {
        let Some(mut sweep) = self.sweep.try_lock() else { return };
        for _ in 0..most {
            if sweep.next >= self.log.place().tables {
                return self.end_sweep(&mut sweep).await;
            }
            if self.has_news(sweep.next) && !self.write_table(sweep.next, Why::Upkeep).await {
                sweep.began = None;
            }
            // Not earlier: if this future is dropped, the next caller repeats this table.
            sweep.next += 1;
        }
    }

    /// Ends a sweep: tables on flash know everything from before its beginning.
    async fn end_sweep(&self, sweep: &mut Sweep) {
        if let Some(began) = sweep.began
            && !self.log.lock().entries.has_lost_tables()
        {
            self.log.regions().write_out().await;
            let mut state = self.log.lock();
            // If a region failed during the write, its tables are lost, and an older writing may be the newest one
            // left.
            if !state.entries.has_lost_tables() {
                state.active.set_horizon(began);
            }
        }
        *sweep = Sweep::beginning_at(self.log.dead().clock());
    }

    /// Continues the sweep when a region of objects has begun, after `begun` others.
    pub(super) async fn sweep_for_region(&self, begun: u32) {
        self.sweep_tables(self.due_tables(begun)).await;
    }

    /// Number of tables to write at this beginning of a region. It is 0 at most beginnings if there are fewer tables
    /// than regions.
    fn due_tables(&self, begun: u32) -> u32 {
        let tables = u64::from(self.log.place().tables) * SWEEPS_A_ROUND;
        let before = |begun: u64| tables * begun / u64::from(self.log.place().log.regions);
        let due = before(u64::from(begun) + 1) - before(begun.into());
        u32::try_from(due).unwrap_or(u32::MAX)
    }
}

/// Marks that a task is emptying a region, until it is dropped.
struct Cleaning<'a>(&'a Tables);

impl Drop for Cleaning<'_> {
    fn drop(&mut self) {
        self.0.cleaning.store(false, Ordering::Release);
    }
}
