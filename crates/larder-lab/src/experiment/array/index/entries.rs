//! Entries of 16 bytes in four-way sets in DRAM, over tables of 16 KiB on flash. This models the array engine's
//! algorithm without its data, to predict its reads and writes.
//!
//! Each table has its own number of sets. A GET that finds no entry in its set reads the table, or the page of the
//! table with the key, and adds the entry to the set. A SET adds a dirty entry. The least recently used clean entry of
//! the set is evicted. If all four are dirty, the table is read, merged with the dirty entries of all its sets, and
//! written; then these entries are clean. So a GET makes at most two reads, and a SET one.

use super::stored::Stored;
use super::{Access, ValueIndex, spread};

const ENTRY_BYTES: u64 = 16;
const TABLE_BYTES: u32 = 16 << 10;
const PAGE_BYTES: u32 = 4 << 10;
const WAYS: usize = 4;
const SET_BYTES: u64 = ENTRY_BYTES * WAYS as u64;
/// Share of a table's slots in use. Above it, entries overflow their pages too often.
const LOAD: f64 = 0.85;

/// The entries of a set, most recently used first.
#[derive(Debug, Clone, Copy, Default)]
struct Set {
    keys: [u64; WAYS],
    dirty: [bool; WAYS],
    len: usize,
}

impl Set {
    fn way(&self, key: u64) -> Option<usize> {
        self.keys[..self.len].iter().position(|&known| known == key)
    }

    /// Makes the entry at `way` the most recently used.
    fn touch(&mut self, way: usize) {
        self.keys[..=way].rotate_right(1);
        self.dirty[..=way].rotate_right(1);
    }

    /// Adds an entry if there is room or a clean entry to evict.
    fn put(&mut self, key: u64, dirty: bool) -> bool {
        if self.len < WAYS {
            self.len += 1;
        } else {
            let Some(gone) = self.dirty.iter().rposition(|&dirty| !dirty) else { return false };
            self.keys.copy_within(gone + 1.., gone);
            self.dirty.copy_within(gone + 1.., gone);
        }
        (self.keys[self.len - 1], self.dirty[self.len - 1]) = (key, dirty);
        self.touch(self.len - 1);
        true
    }

    fn is_all_dirty(&self) -> bool {
        self.len == WAYS && self.dirty == [true; WAYS]
    }
}

/// See the module.
#[derive(Debug)]
pub(in crate::experiment::array) struct EntryCache {
    stored: Stored,
    sets: Vec<Set>,
    sets_of_table: usize,
    /// Whether each table was written and can be read.
    written: Vec<bool>,
}

impl EntryCache {
    /// Tables for `entries` entries, with sets in `dram_bytes` bytes. Each table has the same number of sets, at least
    /// one.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(in crate::experiment::array) fn new(entries: u64, dram_bytes: u64) -> Self {
        let slots = f64::from(TABLE_BYTES) / ENTRY_BYTES as f64;
        let tables = (entries as f64 / (slots * LOAD)).ceil().max(1.0);
        let sets_of_table = (dram_bytes as f64 / SET_BYTES as f64 / tables).round().max(1.0);
        let (tables, sets_of_table) = (tables as usize, sets_of_table as usize);
        Self {
            stored: Stored::default(),
            sets: vec![Set::default(); tables * sets_of_table],
            sets_of_table,
            written: vec![false; tables],
        }
    }

    /// The table and the set of a key: from the upper and the lower half of its bits.
    fn place(&self, key: u64) -> (usize, usize) {
        let index = |number: u64| usize::try_from(number).unwrap_or(0);
        let table = index(spread(key, self.written.len() as u64));
        let of_table = index(spread(key << 32, self.sets_of_table as u64));
        (table, table * self.sets_of_table + of_table)
    }

    fn merge(&mut self, table: usize, asked: &mut Vec<Access>) {
        let first = table * self.sets_of_table;
        for set in &mut self.sets[first..first + self.sets_of_table] {
            set.dirty = [false; WAYS];
        }
        self.written[table] = true;
        asked.push(Access::write(table as u64, TABLE_BYTES));
    }
}

impl ValueIndex for EntryCache {
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool {
        let (table, set) = self.place(key);
        if let Some(way) = self.sets[set].way(key) {
            self.sets[set].touch(way);
            asked.push(Access::value(key));
            return true;
        }
        if !self.written[table] {
            return false;
        }
        let all_dirty = self.sets[set].is_all_dirty();
        let bytes = if all_dirty { TABLE_BYTES } else { PAGE_BYTES };
        asked.push(Access::read(table as u64, bytes));
        if !self.stored.has(key) {
            return false;
        }
        if all_dirty {
            self.merge(table, asked);
        }
        let room = self.sets[set].put(key, false);
        debug_assert!(room, "a merge leaves clean entries");
        asked.push(Access::value(key));
        true
    }

    fn set(&mut self, key: u64, asked: &mut Vec<Access>) {
        let (table, set) = self.place(key);
        self.stored.add(key);
        if let Some(way) = self.sets[set].way(key) {
            self.sets[set].touch(way);
            self.sets[set].dirty[0] = true;
            return;
        }
        if self.sets[set].is_all_dirty() {
            if self.written[table] {
                asked.push(Access::read(table as u64, TABLE_BYTES));
            }
            self.merge(table, asked);
        }
        let room = self.sets[set].put(key, true);
        debug_assert!(room, "a merge leaves clean entries");
    }

    fn dram_bytes(&self) -> u64 {
        self.sets.len() as u64 * SET_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One table with one set.
    fn small() -> EntryCache {
        EntryCache::new(1, SET_BYTES)
    }

    fn asked(ask: impl FnOnce(&mut Vec<Access>)) -> Vec<Access> {
        let mut asked = Vec::new();
        ask(&mut asked);
        asked
    }

    #[test]
    fn a_set_of_dirty_entries_is_merged_and_the_clean_ones_give_way() {
        let mut index = small();
        assert_eq!(asked(|it| assert!(!index.get(9, it))), [], "its table was never written");
        for key in 0..4 {
            assert_eq!(asked(|it| index.set(key, it)), []);
        }
        let write = Access::write(0, TABLE_BYTES);
        assert_eq!(asked(|it| index.set(4, it)), [write], "0 gives way, and no table was there");
        assert_eq!(asked(|it| assert!(index.get(2, it))), [Access::value(2)]);
        // Key 1 is the least recently used clean entry.
        let page = Access::read(0, PAGE_BYTES);
        assert_eq!(asked(|it| assert!(index.get(0, it))), [page, Access::value(0)]);
        assert_eq!(asked(|it| assert!(index.get(1, it))), [page, Access::value(1)]);
        assert_eq!(asked(|it| assert!(!index.get(9, it))), [page], "an absent key costs one");
    }

    #[test]
    fn a_get_that_merges_reads_the_table_whole_and_still_twice_in_all() {
        let mut index = small();
        for key in 0..8 {
            index.set(key, &mut Vec::new());
        }
        let read = Access::read(0, TABLE_BYTES);
        let wanted = [read, Access::write(0, TABLE_BYTES), Access::value(0)];
        assert_eq!(asked(|it| assert!(index.get(0, it))), wanted);
        for key in 10..13 {
            assert_eq!(asked(|it| index.set(key, it)), []);
        }
        assert_eq!(asked(|it| index.set(13, it)), [], "the fourth was clean");
        assert_eq!(asked(|it| index.set(14, it)), [read, Access::write(0, TABLE_BYTES)]);
    }
}
