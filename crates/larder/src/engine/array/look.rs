//! Looks a key up: in its set, in its table, and in the record.

use std::ops::Range;

use larder_device::IoBuffer;
use larder_log::{LogPlace, RecordIdentity, RegionIdentity, RegionState};

use super::entry::{RecordPlace, SetEntry};
use super::host::Why;
use super::index::{Slot, TablePlace};
use super::place::ArrayPlace;
use super::table::{PAGE_BYTES, PAGES, Page, TableIdentity, home_of, pages_of, parse_page};
use super::{Array, State};
use crate::base::item::{FlashItem, Kind, is_expired};
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::long::{Lack, ReadPurpose};

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

impl Array {
    /// Looks `key` up: at most two reads, and two for each part of a long value.
    pub(super) async fn find_whole(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<FlashItem> {
        let (fetched, entry) = self.head_or_whole(hash, key, now_s).await?;
        match fetched.kind {
            Kind::Head => self.complete(fetched, entry).await,
            Kind::Whole | Kind::Part => Some(fetched),
        }
    }

    /// The record of `key` and its entry: the head of a long value, or the whole object. At most two reads.
    pub(super) async fn head_or_whole(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(FlashItem, SetEntry)> {
        let entry = self.find(hash).await?;
        let fetched = self.fetch(hash, entry, now_s).await.ok()?;
        if fetched.item().key != key || fetched.kind == Kind::Part {
            self.counters().array_collisions.add(1);
            return None;
        }
        if fetched.item().is_expired(now_s) {
            self.counters().expired.add(1);
            let bytes = fetched.item().object_bytes();
            self.counters().removals.key(RemovalReason::Expired, Tier::ArrayObjects, key, bytes);
            return None;
        }
        Some((fetched, entry))
    }

    /// The entry of this hash: at most one read.
    pub(super) async fn find(&self, hash: KeyHash) -> Option<SetEntry> {
        self.locate(hash, ReadPurpose::Counts).await.ok()
    }

    /// The same, with the reason if there is none.
    pub(super) async fn locate(&self, hash: KeyHash, asked: ReadPurpose) -> Result<SetEntry, Lack> {
        let why = match asked {
            ReadPurpose::Counts => Why::Request,
            ReadPurpose::Walk => Why::Upkeep,
        };
        let mut may_read = true;
        loop {
            let look = self.look_at_set(&mut self.lock(), hash, asked);
            let read = match look {
                Look::Absent => return Err(Lack::Gone),
                Look::Found(entry) => return Ok(entry),
                Look::InTable(read) => read,
            };
            // A request may cost only one read.
            let in_memory = read.in_memory.is_some();
            if !may_read && !in_memory {
                return Err(Lack::Unreadable);
            }
            may_read &= in_memory;
            let pages = self.read_pages(&read, why).await.ok_or(Lack::Unreadable)?;
            if let Some(found) = self.find_in(hash, (&read, &pages), asked) {
                self.log.write_what_is_due().await;
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
        if self.dead.has_died_since(hash.0, at.stamp) {
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
        let LogPlace { cache, .. } = self.place.log;
        let sequence = state.filling(at.region).sequence;
        let identity = TableIdentity { cache, table, sequence, offset: at.offset };
        let (offset, span) = span_of(at.offset, &pages);
        let in_memory = state.active.in_memory(at.region, (offset, span), self.log.pool());
        TableRead { table, at, identity, pages, in_memory }
    }

    /// Reads pages of a table. `None` if one cannot be read or is not valid.
    pub(super) async fn read_pages(&self, read: &TableRead, why: Why) -> Option<Vec<Page>> {
        let parsed = match &read.in_memory {
            Some(buffer) => parse_pages(buffer.as_slice(), read),
            None => {
                self.log.host().reads_a_table(why);
                let (offset, span) = span_of(read.at.offset, &read.pages);
                let (buffer, skip) = self.log.read(read.at.region, offset, span).await?;
                buffer.as_slice().get(skip..).and_then(|bytes| parse_pages(bytes, read))
            }
        };
        if parsed.is_none() {
            let mut state = self.lock();
            let newest = state.entries.place(read.table);
            match newest.is_some_and(|newest| newest.is_same(&read.at)) {
                true => {
                    state.entries.table_lost(read.table);
                    self.counters().array_bad_records.add(1);
                }
                false => self.counters().array_overtaken_reads.add(1),
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
        let state = &mut *self.lock();
        let slot = state.entries.slot(hash.0);
        let shape = state.entries.shape();
        // Another task may have put it into the set during the read.
        if let Some(entry) = Self::in_set(state, slot, asked) {
            return Some(Ok(entry));
        }
        if !state.entries.place(read.table).is_some_and(|it| it.is_same(&read.at)) {
            self.counters().array_overtaken_reads.add(1);
            return None;
        }
        if self.dead.has_died_since(hash.0, read.at.stamp) {
            return Some(Err(Lack::Gone));
        }
        let mut entries = pages.iter().flat_map(|page| page.entries.iter().copied());
        let Some(found) = entries.find(|&entry| shape.is_of(entry, slot.fingerprint)) else {
            return Some(Err(Lack::Gone));
        };
        if !self.is_current(state, found) {
            self.counters().array_stale_entries.add(1);
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

    /// Reads the record of an entry: one read; none if the record is gone or in memory.
    pub(super) async fn fetch(
        &self,
        hash: KeyHash,
        entry: SetEntry,
        now_s: u32,
    ) -> Result<FlashItem, Lack> {
        let (at, filling, in_memory) = {
            let state = &mut *self.lock();
            let at = state.entries.shape().place_of(entry);
            let is_current = self.is_current(state, entry);
            let ends = is_current.then(|| state.regions.get(at.region).latest_expiry_s());
            if ends.is_none_or(|ends| is_expired(ends, now_s)) {
                self.counters().array_stale_entries.add(1);
                return Err(self.forget(state, hash, entry));
            }
            (at, state.filling(at.region), self.in_memory(state, at))
        };
        self.read_record(at, filling, in_memory).await
    }

    /// The bytes at a place, if they are not on flash yet.
    pub(super) fn in_memory(&self, state: &State, at: RecordPlace) -> Option<IoBuffer> {
        state.active.in_memory(at.region, (at.offset, at.span), self.log.pool())
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
                let read = self.log.read(at.region, at.offset, at.span).await;
                read.ok_or(Lack::Unreadable)?
            }
        };
        let ArrayPlace { log: LogPlace { cache, .. }, hasher, .. } = self.place;
        let identity = RecordIdentity { cache, sequence: filling.sequence, offset: at.offset };
        FlashItem::parse(buffer, skip, identity, hasher).ok_or_else(|| {
            let counters = self.counters();
            if self.log.is_filling(filling) {
                counters.array_bad_records.add(1);
                Lack::Gone
            } else {
                counters.array_overtaken_reads.add(1);
                Lack::Unreadable
            }
        })
    }

    /// Removes an entry that leads to no record from its set, if it is still there. Returns what that means for the
    /// look-up.
    fn forget(&self, state: &mut State, hash: KeyHash, entry: SetEntry) -> Lack {
        let slot = state.entries.slot(hash.0);
        let shape = state.entries.shape();
        match state.entries.set(slot).get(shape, slot.fingerprint) {
            Some(there) if shape.place_of(there) == shape.place_of(entry) => {
                state.entries.set_mut(slot).remove(shape, slot.fingerprint);
                Lack::Gone
            }
            // The object has moved.
            Some(_) => Lack::Unreadable,
            None => Lack::Gone,
        }
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
