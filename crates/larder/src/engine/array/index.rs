//! The index: some entries in DRAM, and where the tables with all other entries lie on flash.

use larder_log::{Entries, FooterEntry, RegionId, RegionIdentity};

use super::entry::{Fingerprint, GRAIN_BYTES, RecordPlace, SetEntry, Shape};
use super::set::{AllDirty, IndexSet, WAYS};
use super::table::Built;

/// Where a table lies, and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Region of its newest writing; `None` if there is none, or it is lost.
    place: Option<RegionId>,
    offset: u32,
    entries: u16,
    /// A bit for each page that has entries in its neighbour page.
    overflown: u8,
    /// Whether flash may have records in its range.
    is_touched: bool,
    /// Whether flash may have live records in its range that neither DRAM nor its newest writing knows.
    hides: bool,
    /// It knows all records of its range with smaller stamps.
    stamp: u64,
}

/// Where a table is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TablePlace {
    pub(crate) region: RegionId,
    pub(crate) offset: u32,
    /// It knows all records of its range with smaller stamps.
    pub(crate) stamp: u64,
    overflown: u8,
}

impl TablePlace {
    /// Whether entries of a page are in its neighbour page.
    pub(crate) fn is_overflown(&self, page: usize) -> bool {
        self.overflown & 1 << page != 0
    }

    /// Whether both are the same writing of the table.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.region, self.offset, self.stamp) == (other.region, other.offset, other.stamp)
    }
}

/// What a clean shutdown keeps of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableSummary {
    pub(crate) place: Option<(RegionId, u32)>,
    pub(crate) stamp: u64,
    pub(crate) entries: u16,
    pub(crate) overflown: u8,
    pub(crate) is_touched: bool,
    pub(crate) hides: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ArrayIndex {
    shape: Shape,
    sets: Box<[IndexSet]>,
    sets_per_table: u32,
    tables: Box<[Descriptor]>,
    /// The stream of tables.
    index_stream: usize,
    /// Number of tables whose newest writing lies in a region, by region.
    live: std::collections::BTreeMap<u32, u32>,
    /// Dirty entries that were displaced before their table learned them.
    pub(crate) lost: u64,
}

/// A key's hash, as the index divides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) table: u32,
    pub(crate) fingerprint: Fingerprint,
    set: usize,
}

impl ArrayIndex {
    /// Creates an empty index.
    pub(crate) fn new(
        (tables, sets_per_table): (u32, u32),
        region_bytes: u32,
        index_stream: usize,
    ) -> Self {
        assert!(tables > 0 && sets_per_table > 0);
        let none = Descriptor {
            place: None,
            offset: 0,
            entries: 0,
            overflown: 0,
            is_touched: false,
            hides: false,
            stamp: 0,
        };
        let sets = tables as usize * sets_per_table as usize;
        Self {
            shape: Shape::new(tables, region_bytes),
            sets: vec![IndexSet::default(); sets].into_boxed_slice(),
            sets_per_table,
            tables: vec![none; tables as usize].into_boxed_slice(),
            index_stream,
            live: std::collections::BTreeMap::new(),
            lost: 0,
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.sets) + size_of_val(&*self.tables)
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Where a hash belongs.
    pub(crate) fn slot(&self, hash: u64) -> Slot {
        let product = u128::from(hash) * self.tables.len() as u128;
        let table = u32::try_from(product >> 64).expect("below the number of tables");
        self.slot_of(table, self.shape.fingerprint(hash))
    }

    /// Where an entry of a table belongs: the fingerprint determines its set within the table.
    pub(crate) fn slot_of(&self, table: u32, fingerprint: Fingerprint) -> Slot {
        let bits = fingerprint.0 >> 16 & ((1 << 30) - 1);
        let within = (bits * u64::from(self.sets_per_table)) >> 30;
        let within = usize::try_from(within).expect("below the number of sets of a table");
        let set = table as usize * self.sets_per_table as usize + within;
        Slot { table, fingerprint, set }
    }

    /// Range of the hashes of a table.
    pub(crate) fn hashes_of(&self, table: u32) -> std::ops::Range<u128> {
        let tables = self.tables.len() as u128;
        let first = |table: u128| (table << 64).div_ceil(tables);
        first(u128::from(table))..first(u128::from(table) + 1)
    }

    pub(crate) fn set(&self, slot: Slot) -> &IndexSet {
        &self.sets[slot.set]
    }

    pub(crate) fn set_mut(&mut self, slot: Slot) -> &mut IndexSet {
        &mut self.sets[slot.set]
    }

    /// Removes the entry of this hash from its set.
    pub(crate) fn remove(&mut self, hash: u64) {
        let slot = self.slot(hash);
        self.sets[slot.set].remove(self.shape, slot.fingerprint);
    }

    /// All sets of a table.
    pub(crate) fn sets_of(&self, table: u32) -> &[IndexSet] {
        let sets = self.sets_per_table as usize;
        &self.sets[table as usize * sets..][..sets]
    }

    pub(crate) fn has_dirty(&self, table: u32) -> bool {
        self.sets_of(table).iter().any(|set| set.dirty().next().is_some())
    }

    /// Puts an entry into its set, possibly displacing a clean one.
    ///
    /// # Errors
    /// If all entries of the set are dirty.
    pub(crate) fn install(&mut self, slot: Slot, entry: SetEntry) -> Result<(), AllDirty> {
        self.sets[slot.set].put(self.shape, entry)
    }

    /// Puts new entries of a table, which the table does not know, into their sets, if all of them have room there.
    /// Returns whether they had.
    pub(crate) fn install_all(&mut self, table: u32, entries: &[SetEntry]) -> bool {
        let mut brought = vec![0; self.sets_per_table as usize];
        let first = table as usize * self.sets_per_table as usize;
        for entry in entries {
            let slot = self.slot_of(table, self.shape.fingerprint_of(*entry));
            brought[slot.set - first] += 1;
        }
        let has_room = |(set, brought): (&IndexSet, &usize)| set.dirty().count() + brought <= WAYS;
        if !self.sets_of(table).iter().zip(&brought).all(has_room) {
            return false;
        }
        for entry in entries {
            let slot = self.slot_of(table, self.shape.fingerprint_of(*entry));
            let put = self.install(slot, entry.with_dirty(true));
            debug_assert!(put.is_ok(), "there is room for all that are dirty");
        }
        true
    }

    /// Where a table lies, if it has been written and is not lost.
    pub(crate) fn place(&self, table: u32) -> Option<TablePlace> {
        let Descriptor { place, offset, overflown, stamp, .. } = self.tables[table as usize];
        place.map(|region| TablePlace { region, offset, stamp, overflown })
    }

    /// Notes that flash may have records in the range of a table.
    pub(crate) fn touch(&mut self, table: u32) {
        self.tables[table as usize].is_touched = true;
    }

    /// Whether flash may have records in the range of a table in addition to those in DRAM.
    pub(crate) fn is_touched(&self, table: u32) -> bool {
        self.tables[table as usize].is_touched
    }

    /// Whether flash may have live records in the range of a table that the index does not know.
    pub(crate) fn hides(&self, table: u32) -> bool {
        self.tables[table as usize].hides
    }

    /// Whether any table hides records.
    pub(crate) fn has_lost_tables(&self) -> bool {
        self.tables.iter().any(|table| table.hides)
    }

    /// Notes the newest writing of a table, which knows all entries of the table's sets.
    pub(crate) fn table_written(
        &mut self,
        table: u32,
        (region, offset): (RegionId, u32),
        stamp: u64,
        built: Built,
    ) {
        self.table_found(table, (region, offset), stamp);
        let descriptor = &mut self.tables[table as usize];
        (descriptor.entries, descriptor.overflown) = (built.entries, built.overflown);
        let sets = self.sets_per_table as usize;
        let own = &mut self.sets[table as usize * sets..][..sets];
        own.iter_mut().for_each(IndexSet::all_known);
    }

    /// Notes the newest writing of a table; its number of entries is not known.
    pub(crate) fn table_found(
        &mut self,
        table: u32,
        (region, offset): (RegionId, u32),
        stamp: u64,
    ) {
        self.table_lost(table);
        let descriptor = &mut self.tables[table as usize];
        (descriptor.place, descriptor.offset) = (Some(region), offset);
        (descriptor.stamp, descriptor.is_touched) = (stamp, true);
        descriptor.hides = false;
        (descriptor.entries, descriptor.overflown) = (0, u8::MAX);
        *self.live.entry(region.number()).or_default() += 1;
    }

    /// Forgets the newest writing of a table; its entries in DRAM stay.
    pub(crate) fn table_lost(&mut self, table: u32) {
        let descriptor = &mut self.tables[table as usize];
        (descriptor.is_touched, descriptor.hides) = (true, true);
        let Some(region) = descriptor.place.take() else { return };
        let live = self.live.get_mut(&region.number()).expect("it was counted");
        *live -= 1;
        if *live == 0 {
            self.live.remove(&region.number());
        }
    }

    /// What a clean shutdown keeps of a table.
    pub(crate) fn kept(&self, table: u32) -> TableSummary {
        let Descriptor { place, offset, entries, overflown, is_touched, hides, stamp } =
            self.tables[table as usize];
        let place = place.map(|region| (region, offset));
        TableSummary { place, stamp, entries, overflown, is_touched, hides }
    }

    /// Restores what a clean shutdown has kept of a table.
    pub(crate) fn take_over(&mut self, table: u32, kept: TableSummary) {
        let TableSummary { place, stamp, entries, overflown, is_touched, hides } = kept;
        if let Some(place) = place {
            self.table_found(table, place, stamp);
        }
        let descriptor = &mut self.tables[table as usize];
        (descriptor.entries, descriptor.overflown) = (entries, overflown);
        (descriptor.is_touched, descriptor.hides) = (is_touched, hides);
    }

    /// Number of tables that have their newest writing in a region.
    pub(crate) fn live_in(&self, region: RegionId) -> u32 {
        self.live.get(&region.number()).copied().unwrap_or(0)
    }

    /// The tables that have their newest writing in a region.
    pub(crate) fn tables_in(&self, region: RegionId) -> Vec<u32> {
        let here = (0..).zip(&self.tables).filter(|(_, it)| it.place == Some(region));
        here.map(|(table, _)| table).collect()
    }

    /// Approximate number of entries: entries that no longer lead to a record count until their table is rewritten.
    pub(crate) fn estimated_len(&self) -> u64 {
        let in_tables: u64 = self.tables.iter().map(|table| u64::from(table.entries)).sum();
        let dirty: usize = self.sets.iter().map(|set| set.dirty().count()).sum();
        in_tables + dirty as u64
    }

    fn entry_at(&self, hash: u64, region: RegionId, offset: u32) -> Option<Slot> {
        let slot = self.slot(hash);
        let entry = self.sets[slot.set].get(self.shape, slot.fingerprint)?;
        let place = self.shape.place_of(entry);
        ((place.region, place.offset) == (region, offset)).then_some(slot)
    }

    fn is_table_at(&self, table: u64, region: RegionId, offset: u32) -> bool {
        let descriptor = usize::try_from(table).ok().and_then(|table| self.tables.get(table));
        descriptor.is_some_and(|it| it.place == Some(region) && it.offset == offset)
    }
}

/// What the log asks. For objects only the entries in DRAM are consulted; entries in tables are detected as outdated
/// later, by the filling number in the entry.
impl Entries for ArrayIndex {
    fn points_to(&self, stream: usize, hash: u64, region: RegionId, offset: u32) -> bool {
        match stream == self.index_stream {
            true => self.is_table_at(hash, region, offset),
            false => self.entry_at(hash, region, offset).is_some(),
        }
    }

    /// For a table, [`ArrayIndex::table_written`] stores more. For an object, if its set has no room, one of its
    /// entries is lost.
    fn set(&mut self, stream: usize, filling: RegionIdentity, entry: &FooterEntry) {
        if stream == self.index_stream {
            return;
        }
        let FooterEntry { hash, offset, length, .. } = *entry;
        let slot = self.slot(hash);
        let span = length.next_multiple_of(GRAIN_BYTES);
        let place = RecordPlace { region: filling.region, offset, span };
        let group = u8::try_from(stream).expect("groups come first, and are at most 32");
        let entry = self.shape.entry(slot.fingerprint, (place, filling.sequence), group);
        let entry = entry.with_dirty(true);
        self.touch(slot.table);
        if self.install(slot, entry).is_err() {
            self.tables[slot.table as usize].hides = true;
            self.sets[slot.set].put_over(entry);
            self.lost += 1;
        }
    }

    fn remove_if_at(
        &mut self,
        stream: Option<usize>,
        hash: u64,
        region: RegionId,
        offset: u32,
    ) -> bool {
        if stream == Some(self.index_stream) {
            let is_there = self.is_table_at(hash, region, offset);
            if let (true, Ok(table)) = (is_there, u32::try_from(hash)) {
                self.table_lost(table);
            }
            return is_there;
        }
        let Some(slot) = self.entry_at(hash, region, offset) else { return false };
        self.sets[slot.set].remove(self.shape, slot.fingerprint);
        true
    }

    /// Nothing to do: remaining entries are detected as outdated by their filling number.
    fn remove_region(&mut self, _region: RegionId) -> u64 {
        0
    }

    fn parts(&self) -> usize {
        0
    }

    fn sweep(&mut self, _part: usize, _is_gone: &dyn Fn(RegionId) -> bool) -> u64 {
        0
    }
}
