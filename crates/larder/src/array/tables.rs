//! Tables as they are written: with what DRAM knows, without what is dead or leads nowhere; and how their regions are
//! emptied.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::atomic::Ordering;

use larder_log::{NewRecord, RegionId};

use super::dead::Death;
use super::entry::{Entry, Fingerprint};
use super::host::Why;
use super::index::TablePlace;
use super::look::TableRead;
use super::set::Set;
use super::table::{KEY_BYTES, PAGES, Page, TableBuilder, TableIdentity, VALUE_BYTES};
use super::{Array, State};
use crate::key::KeyHash;
use crate::stored::IS_TABLE;

/// Zeros of the length of a table's value.
const BLANK: [u8; VALUE_BYTES] = [0; VALUE_BYTES];

/// What is to be done so that a table is written.
enum Step {
    /// Nothing.
    Done,
    Read(TableRead),
    /// Its stream has no region with room for it.
    MakeRoom,
}

impl Array {
    /// Writes a table with all that its sets know: at most one read, unless somebody else has written it meanwhile.
    /// Says whether that is done, by whomever.
    pub(super) async fn write_table(&self, table: u32, why: Why) -> bool {
        self.write_table_with(table, &[], why).await
    }

    /// The same, with entries that neither its sets nor its newest writing know.
    pub(super) async fn write_table_with(&self, table: u32, more: &[Entry], why: Why) -> bool {
        let mut read: Option<(TablePlace, Vec<Page>)> = None;
        loop {
            let step = self.step(&mut self.lock(), (table, more), read.as_ref());
            match step {
                Step::Done => break,
                Step::Read(wanted) => match self.read_pages(&wanted, why).await {
                    Some(pages) => read = Some((wanted.at, pages)),
                    // The device fails.
                    None if self.is_newest(&wanted) => return false,
                    // It is lost, and begins anew, or somebody was faster.
                    None => {}
                },
                Step::MakeRoom => {
                    if !self.make_room_for_tables().await {
                        return false;
                    }
                }
            }
        }
        self.log.write_what_is_due().await;
        // Not only by who has opened a region: that one may have given up.
        if self.is_crowded.load(Ordering::Acquire) && !self.cleaning.swap(true, Ordering::AcqRel) {
            let cleaning = Cleaning(self);
            self.empty_a_region_of_tables().await;
            drop(cleaning);
        }
        true
    }

    /// Writes a table, or says what that lacks.
    fn step(
        &self,
        state: &mut State,
        (table, more): (u32, &[Entry]),
        read: Option<&(TablePlace, Vec<Page>)>,
    ) -> Step {
        let known = match (state.entries.place(table), read) {
            (Some(at), Some((of, pages))) if at.is_same(of) => Some((of.stamp, pages.as_slice())),
            // Somebody else has written it, or it was lost and whoever comes next begins anew.
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
        let place = self.lock().entries.place(read.table);
        place.is_some_and(|at| at.is_same(&read.at))
    }

    /// Writes a table of which these pages, of this stamp, are all that flash knows. Says whether its open region has
    /// room for that.
    pub(super) fn rewrite(
        &self,
        state: &mut State,
        (table, more): (u32, &[Entry]),
        known: Option<(u64, &[Page])>,
    ) -> bool {
        let key = u64::from(table).to_le_bytes();
        let stream = self.place.index_stream;
        let open = state.active.open(stream);
        if !open.is_some_and(|open| open.has_room_for(KEY_BYTES + VALUE_BYTES)) {
            return false;
        }
        // First: who dies after this is not dead here.
        let stamp = self.dead.clock();
        let deaths = self.dead.within(state.entries.hashes_of(table));
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
        let (cache, sequence) = (self.place.log.cache, state.filling(region).sequence);
        let identity = TableIdentity { cache, table, sequence, offset };
        let (value, built) = builder.encode(identity, stamp);
        state.append_indexed(stream, &record(&value), next);
        state.entries.table_written(table, (region, offset), stamp, built);
        self.log.host().learns(region, deaths);
        self.counters().array_table_writes.add(1);
        self.counters().array_table_overflows.add(built.lost);
        true
    }

    /// What a table is to say: what is dirty in its sets first, then `more`, then what it said before.
    fn merge(
        &self,
        state: &State,
        (table, more): (u32, &[Entry]),
        known: Option<(u64, &[Page])>,
        deaths: &[Death],
    ) -> TableBuilder {
        let index = &state.entries;
        let shape = index.shape();
        let mut builder = TableBuilder::default();
        let dirty = index.sets_of(table).iter().flat_map(Set::dirty);
        dirty.filter(|&entry| self.is_current(state, entry)).for_each(|it| builder.add(shape, it));
        let news: HashSet<u64> = more.iter().map(|&it| shape.fingerprint_of(it).0).collect();
        more.iter().for_each(|&entry| builder.add(shape, entry));
        let Some((known_at, pages)) = known else { return builder };
        let died = deaths.iter().filter(|(_, index)| *index >= known_at);
        let died: HashSet<u64> = died.map(|(hash, _)| shape.fingerprint(*hash).0).collect();
        for &entry in pages.iter().flat_map(|page| &page.entries) {
            let Fingerprint(fingerprint) = shape.fingerprint_of(entry);
            let slot = index.slot_of(table, Fingerprint(fingerprint));
            let newer = index.set(slot).get(shape, slot.fingerprint);
            let is_replaced = newer.is_some_and(Entry::is_dirty) || news.contains(&fingerprint);
            if !is_replaced && !died.contains(&fingerprint) && self.is_current(state, entry) {
                builder.add(shape, entry);
            }
        }
        builder
    }

    /// Writes all tables that have something to learn. What cannot be written is lost with this opening.
    pub(super) async fn write_all_tables(&self) {
        for table in 0..self.place.tables {
            if self.has_news(table) {
                self.write_table(table, Why::Upkeep).await;
            }
        }
    }

    /// Whether there is something that the newest writing of a table does not say.
    pub(super) fn has_news(&self, table: u32) -> bool {
        let state = self.lock();
        let hashes = state.entries.hashes_of(table);
        let is_behind = state.entries.has_dirty(table) || state.entries.hides(table);
        is_behind || !self.dead.within(hashes).is_empty()
    }

    /// Whoever adds a death helps to write the table of another one, where there are too many.
    pub(super) async fn relieve(&self, hash: KeyHash) {
        if let Some(dead) = self.dead.to_work_off(hash.0) {
            let table = self.lock().entries.slot(dead).table;
            self.write_table(table, Why::Upkeep).await;
        }
    }

    /// Makes sure that there is an open region with room for a table. `false` if no region can be had.
    async fn make_room_for_tables(&self) -> bool {
        let now_s = self.log.host().regions.breaker.now_s();
        // Before: whoever waits for that may give up.
        self.is_crowded.store(true, Ordering::Release);
        self.open_next(self.place.index_stream, KEY_BYTES + VALUE_BYTES, now_s).await.is_some()
    }

    /// Moves what lives of the emptiest region of tables, if there are more of them than enough. Boxed, for it writes
    /// tables, and who does that may have come here.
    fn empty_a_region_of_tables(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            let Some(victim) = self.region_to_empty() else {
                self.is_crowded.store(false, Ordering::Release);
                return;
            };
            let tables = self.lock().entries.tables_in(victim);
            for table in tables {
                if !self.write_table(table, Why::Upkeep).await {
                    return;
                }
            }
            // A crash must find the newer writings: what tables on flash know was forgotten elsewhere.
            self.log.write_out().await;
            let is_empty = {
                let state = self.lock();
                state.entries.live_in(victim) == 0 && !state.entries.has_lost_tables()
            };
            if is_empty && self.log.give_up_region(victim).await {
                self.counters().array_emptied_regions.add(1);
            }
        })
    }

    fn region_to_empty(&self) -> Option<RegionId> {
        let state = self.lock();
        let of_tables =
            |region: RegionId| state.regions.get(region).stream() == Some(self.place.index_stream);
        let sealed = state.regions.sealed().map(|filling| filling.region);
        let regions: Vec<RegionId> = sealed.filter(|&region| of_tables(region)).collect();
        let emptiest = regions.iter().copied().min_by_key(|&it| state.entries.live_in(it))?;
        let too_many = regions.len() >= self.place.table_regions_max();
        (too_many || state.entries.live_in(emptiest) == 0).then_some(emptiest)
    }
}

/// Somebody empties a region, until this is dropped.
struct Cleaning<'a>(&'a Array);

impl Drop for Cleaning<'_> {
    fn drop(&mut self) {
        self.0.cleaning.store(false, Ordering::Release);
    }
}
