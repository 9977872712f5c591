//! An index in DRAM with room for only some of the entries. A key without an entry is a miss, although its value is on
//! flash.

use hashbrown::HashTable;

use super::recency::Recency;
use super::{Access, ValueIndex};

/// The same as in `whole`.
const ENTRY_BYTES: u64 = 8;

/// Which entry is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiment::array) enum Order {
    /// The one that was added first.
    Fifo,
    /// The least recently used.
    Lru,
}

/// See the module.
#[derive(Debug)]
pub(in crate::experiment::array) struct CutIndex {
    order: Order,
    /// The slot of each key.
    slots: HashTable<u32>,
    keys: Vec<u64>,
    recency: Recency,
    entries: usize,
}

impl CutIndex {
    /// An index in `dram_bytes` bytes, with at least one entry.
    pub(in crate::experiment::array) fn new(dram_bytes: u64, order: Order) -> Self {
        let entries = usize::try_from(dram_bytes / ENTRY_BYTES).unwrap_or(usize::MAX).max(1);
        let recency = Recency::new(entries);
        Self { order, slots: HashTable::new(), keys: Vec::new(), recency, entries }
    }

    fn slot(&self, key: u64) -> Option<u32> {
        self.slots.find(key, |&slot| self.keys[slot as usize] == key).copied()
    }

    fn used(&mut self, slot: u32) {
        if self.order == Order::Lru {
            self.recency.touch(slot);
        }
    }

    /// Returns a slot for a new entry: a free one, or that of the evicted entry.
    fn room(&mut self) -> u32 {
        if self.keys.len() < self.entries {
            self.keys.push(0);
            return u32::try_from(self.keys.len() - 1).unwrap_or(u32::MAX);
        }
        let slot = self.recency.take_oldest().unwrap_or(0);
        let gone = self.keys[slot as usize];
        if let Ok(entry) = self.slots.find_entry(gone, |&known| known == slot) {
            entry.remove();
        }
        slot
    }
}

impl ValueIndex for CutIndex {
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool {
        let Some(slot) = self.slot(key) else { return false };
        self.used(slot);
        asked.push(Access::value(key));
        true
    }

    fn set(&mut self, key: u64, _: &mut Vec<Access>) {
        if let Some(slot) = self.slot(key) {
            self.used(slot);
            return;
        }
        let slot = self.room();
        self.keys[slot as usize] = key;
        self.recency.add(slot);
        let keys = &self.keys;
        self.slots.insert_unique(key, slot, |&slot| keys[slot as usize]);
    }

    fn dram_bytes(&self) -> u64 {
        self.entries as u64 * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(order: Order) -> [bool; 3] {
        let mut index = CutIndex::new(2 * ENTRY_BYTES, order);
        let mut asked = Vec::new();
        index.set(1, &mut asked);
        index.set(2, &mut asked);
        assert!(index.get(1, &mut asked));
        index.set(3, &mut asked);
        assert_eq!(asked, [Access::value(1)]);
        [1, 2, 3].map(|key| index.get(key, &mut asked))
    }

    #[test]
    fn the_first_or_the_least_used_entry_gives_way() {
        assert_eq!(found(Order::Fifo), [false, true, true]);
        assert_eq!(found(Order::Lru), [true, false, true]);
    }
}
