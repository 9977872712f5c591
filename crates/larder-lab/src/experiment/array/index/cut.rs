//! An index in DRAM with room for only some of the entries. A key without an entry is a miss, although its value is on
//! flash.

use super::recent::RecentKeys;
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
    keys: RecentKeys,
}

impl CutIndex {
    /// An index in `dram_bytes` bytes, with at least one entry.
    pub(in crate::experiment::array) fn new(dram_bytes: u64, order: Order) -> Self {
        Self { order, keys: RecentKeys::new(dram_bytes / ENTRY_BYTES) }
    }

    fn used(&mut self, slot: u32) {
        if self.order == Order::Lru {
            self.keys.touch(slot);
        }
    }
}

impl ValueIndex for CutIndex {
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool {
        let Some(slot) = self.keys.slot(key) else { return false };
        self.used(slot);
        asked.push(Access::value(key));
        true
    }

    fn set(&mut self, key: u64, _: &mut Vec<Access>) {
        match self.keys.slot(key) {
            Some(slot) => self.used(slot),
            None => _ = self.keys.add(key),
        }
    }

    fn dram_bytes(&self) -> u64 {
        self.keys.keys_max() as u64 * ENTRY_BYTES
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
