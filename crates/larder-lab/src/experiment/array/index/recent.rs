//! A bounded number of keys in LRU or FIFO order, in numbered slots.

use hashbrown::HashTable;

use super::recency::Recency;

/// See the module.
#[derive(Debug)]
pub(super) struct RecentKeys {
    /// The slot of each key.
    slots: HashTable<u32>,
    keys: Vec<u64>,
    recency: Recency,
    keys_max: usize,
}

impl RecentKeys {
    /// Room for `keys` keys, at least one.
    pub(super) fn new(keys: u64) -> Self {
        let keys_max = usize::try_from(keys).unwrap_or(usize::MAX).max(1);
        let recency = Recency::new(keys_max);
        Self { slots: HashTable::new(), keys: Vec::new(), recency, keys_max }
    }

    pub(super) fn keys_max(&self) -> usize {
        self.keys_max
    }

    pub(super) fn slot(&self, key: u64) -> Option<u32> {
        self.slots.find(key, |&slot| self.keys[slot as usize] == key).copied()
    }

    /// Makes the key in this slot the most recent.
    pub(super) fn touch(&mut self, slot: u32) {
        self.recency.touch(slot);
    }

    /// Adds a key that is not there, as the most recent. Returns its slot, and the key that had been there.
    pub(super) fn add(&mut self, key: u64) -> (u32, Option<u64>) {
        let (slot, gone) = self.room();
        self.keys[slot as usize] = key;
        self.recency.add(slot);
        let keys = &self.keys;
        self.slots.insert_unique(key, slot, |&slot| keys[slot as usize]);
        (slot, gone)
    }

    fn room(&mut self) -> (u32, Option<u64>) {
        if self.keys.len() < self.keys_max {
            self.keys.push(0);
            return (u32::try_from(self.keys.len() - 1).unwrap_or(u32::MAX), None);
        }
        let slot = self.recency.take_oldest().unwrap_or(0);
        let gone = self.keys[slot as usize];
        if let Ok(entry) = self.slots.find_entry(gone, |&known| known == slot) {
            entry.remove();
        }
        (slot, Some(gone))
    }
}
