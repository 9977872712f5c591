//! Looks up where a key's record lies: in its set, and in its table.

use std::ops::Range;

use larder_device::IoBuffer;
use larder_log::LogPlace;

use super::Tables;
use crate::base::key::KeyHash;
use crate::engine::array::entry::SetEntry;
use crate::engine::array::host::Why;
use crate::engine::array::index::{Slot, TablePlace};
use crate::engine::array::log::State;
use crate::engine::array::table::{
    PAGE_BYTES, PAGES, Page, TableIdentity, home_of, pages_of, parse_page,
};
use crate::engine::long::{Lack, ReadPurpose};

/// Reads of a table for one look-up. Each but the last was overtaken by a rewriting of the table.
const READS_MAX: u32 = 4;

/// Where a look-up continues.
enum Look {
    /// There is no entry.
    Absent,
    Found(SetEntry),
    InTable(TableRead),
}

/// Pages of a table that must be read.
pub(super) struct TableRead {
    pub(super) table: u32,
    pub(super) at: TablePlace,
    identity: TableIdentity,
    pages: Range<usize>,
    /// A copy of the pages, if they are not on flash yet.
    in_memory: Option<IoBuffer>,
}

impl TableRead {
    /// Whether all pages of the table are read.
    fn is_whole(&self) -> bool {
        self.pages.len() == PAGES
    }
}

impl Tables {
    /// The entry of this hash: one read at most, unless the table is rewritten during the read.
    pub(in crate::engine::array) async fn find(&self, hash: KeyHash) -> Option<SetEntry> {
        self.locate(hash, ReadPurpose::Counts).await.ok()
    }

    /// The same, with the reason if there is none.
    pub(in crate::engine::array) async fn locate(
        &self,
        hash: KeyHash,
        asked: ReadPurpose,
    ) -> Result<SetEntry, Lack> {
        let why = match asked {
            ReadPurpose::Counts => Why::Request,
            ReadPurpose::Walk => Why::Upkeep,
        };
        let mut reads = 0;
        loop {
            let look = self.look_at_set(&mut self.log.lock(), hash, asked);
            let read = match look {
                Look::Absent => return Err(Lack::Gone),
                Look::Found(entry) => return Ok(entry),
                Look::InTable(read) => read,
            };
            // A request costs one read, and another one each time that the table is rewritten meanwhile.
            reads += u32::from(read.in_memory.is_none());
            if reads > READS_MAX {
                return Err(Lack::Unreadable);
            }
            let pages = self.read_pages(&read, why).await.ok_or(Lack::Unreadable)?;
            if let Some(found) = self.find_in(hash, (&read, &pages), asked) {
                self.log.regions().write_what_is_due().await;
                return found;
            }
        }
    }

    /// The entry of this hash in its set.
    fn in_set(state: &mut State, slot: Slot, asked: ReadPurpose) -> Option<SetEntry> {
        let shape = state.entries.shape();
        match asked {
            ReadPurpose::Counts => state.entries.set_mut(slot).hit(shape, slot.fingerprint),
            ReadPurpose::Walk => state.entries.set(slot).get(shape, slot.fingerprint),
        }
    }

    fn look_at_set(&self, state: &mut State, hash: KeyHash, asked: ReadPurpose) -> Look {
        let slot = state.entries.slot(hash.0);
        if let Some(entry) = Self::in_set(state, slot, asked) {
            return Look::Found(entry);
        }
        let Some(at) = state.entries.place(slot.table) else { return Look::Absent };
        if self.log.dead().has_died_since(hash.0, at.stamp) {
            return Look::Absent;
        }
        let home = home_of(slot.fingerprint);
        // If the set has no room for the entry, the table must be written, which needs all of its pages.
        let is_full = asked == ReadPurpose::Counts && state.entries.set(slot).is_all_dirty();
        let pages = match is_full {
            true => 0..PAGES,
            false => pages_of(home, at.is_overflown(home)),
        };
        Look::InTable(self.table_read(state, slot.table, at, pages))
    }

    /// Prepares a read of pages of a table.
    pub(super) fn table_read(
        &self,
        state: &State,
        table: u32,
        at: TablePlace,
        pages: Range<usize>,
    ) -> TableRead {
        let LogPlace { cache, .. } = self.log.place().log;
        let sequence = state.filling(at.region).sequence;
        let identity = TableIdentity { cache, table, sequence, offset: at.offset };
        let (offset, span) = span_of(at.offset, &pages);
        let in_memory =
            state.active.in_memory(at.region, (offset, span), self.log.regions().pool());
        TableRead { table, at, identity, pages, in_memory }
    }

    /// Reads pages of a table. `None` if one cannot be read or is not valid.
    pub(super) async fn read_pages(&self, read: &TableRead, why: Why) -> Option<Vec<Page>> {
        let parsed = match &read.in_memory {
            Some(buffer) => parse_pages(buffer.as_slice(), read),
            None => {
                self.log.host().reads_a_table(why);
                let (offset, span) = span_of(read.at.offset, &read.pages);
                let (buffer, skip) = self.log.regions().read(read.at.region, offset, span).await?;
                buffer.as_slice().get(skip..).and_then(|bytes| parse_pages(bytes, read))
            }
        };
        if parsed.is_none() {
            let mut state = self.log.lock();
            let newest = state.entries.place(read.table);
            match newest.is_some_and(|newest| newest.is_same(&read.at)) {
                true => {
                    state.entries.table_lost(read.table);
                    self.log.counters().array_bad_records.add(1);
                }
                false => self.log.counters().array_overtaken_reads.add(1),
            }
        }
        parsed
    }

    /// Finds the entry of this hash in pages that were read, and puts it into its set. `None` if the table was
    /// rewritten during the read: deaths that the newer writing knows have been forgotten, so an entry of the older one
    /// may be dead.
    fn find_in(
        &self,
        hash: KeyHash,
        (read, pages): (&TableRead, &[Page]),
        asked: ReadPurpose,
    ) -> Option<Result<SetEntry, Lack>> {
        let state = &mut *self.log.lock();
        let slot = state.entries.slot(hash.0);
        let shape = state.entries.shape();
        // Another task may have put it into the set during the read.
        if let Some(entry) = Self::in_set(state, slot, asked) {
            return Some(Ok(entry));
        }
        if !state.entries.place(read.table).is_some_and(|it| it.is_same(&read.at)) {
            self.log.counters().array_overtaken_reads.add(1);
            return None;
        }
        if self.log.dead().has_died_since(hash.0, read.at.stamp) {
            return Some(Err(Lack::Gone));
        }
        let mut entries = pages.iter().flat_map(|page| page.entries.iter().copied());
        let Some(found) = entries.find(|&entry| shape.is_of(entry, slot.fingerprint)) else {
            return Some(Err(Lack::Gone));
        };
        if !self.log.is_current(state, found) {
            self.log.counters().array_stale_entries.add(1);
            return Some(Err(Lack::Gone));
        }
        if asked == ReadPurpose::Counts {
            self.install(state, slot, found.with_hit(), (read, pages));
        }
        Some(Ok(found))
    }

    /// Puts an entry of a table into its set, if possible.
    fn install(
        &self,
        state: &mut State,
        slot: Slot,
        found: SetEntry,
        (read, pages): (&TableRead, &[Page]),
    ) {
        if state.entries.install(slot, found).is_err()
            && read.is_whole()
            && self.rewrite(state, (read.table, &[]), Some((read.at.stamp, pages)))
        {
            let installed = state.entries.install(slot, found);
            debug_assert!(installed.is_ok(), "the table knows all of its set");
        }
    }

    /// Positions of the objects of a table.
    pub(in crate::engine::array) async fn positions_in(&self, table: u32) -> Vec<u64> {
        let read = {
            let state = self.log.lock();
            state.entries.place(table).map(|at| self.table_read(&state, table, at, 0..PAGES))
        };
        let pages = match &read {
            Some(read) => self.read_pages(read, Why::Upkeep).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let state = self.log.lock();
        let index = &state.entries;
        let shape = index.shape();
        let in_sets = index.sets_of(table).iter().flat_map(|set| set.entries());
        let in_table = pages.iter().flat_map(|Page { entries, .. }| entries.iter().copied());
        let is_only_there = |&entry: &SetEntry| {
            let slot = index.slot_of(table, shape.fingerprint_of(entry));
            index.set(slot).get(shape, slot.fingerprint).is_none()
        };
        let all = in_sets.chain(in_table.filter(is_only_there));
        all.filter(|&entry| self.log.is_current(&state, entry)).map(SetEntry::position).collect()
    }
}

/// Offset in the region and length of pages of a table.
fn span_of(offset: u32, pages: &Range<usize>) -> (u32, u32) {
    let bytes = |pages: usize| u32::try_from(pages * PAGE_BYTES).expect("four pages at most");
    (offset + bytes(pages.start), bytes(pages.len()))
}

fn parse_pages(bytes: &[u8], read: &TableRead) -> Option<Vec<Page>> {
    let pages = read.pages.clone().zip(bytes.chunks_exact(PAGE_BYTES));
    let parsed = pages.map(|(page, bytes)| parse_page(bytes, read.identity, page));
    parsed.collect::<Option<Vec<_>>>().filter(|parsed| parsed.len() == read.pages.len())
}
