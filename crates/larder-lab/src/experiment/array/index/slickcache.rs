//! The index of SlickCache as BigKV's artifact builds it (`cascade.c`), with entries of 24 bytes: three tiers, of which
//! only the first is in DRAM.
//!
//! The least recently used entry of the first tier is evicted; if it has changed, it goes down. The second tier is a
//! log of the entries that went down last, on flash: FIFOs of 32 blocks of 16 KiB, of which a look-up reads 8 at a
//! time, the newest first. Older entries are in blocks of 128 KiB of the third tier, of which a Bloom filter says the
//! right one. A found entry comes back to the first tier. A SET of a key that is there reads the old value to compare
//! the key, as uDepot does; any other adds an entry and reads nothing.
//!
//! Where the artifact has faults, the model is better than it: the filter is never wrong (the artifact's has 3 bits an
//! entry), look-ups below the first tier do not wait for one another (there, one at a time for each 32nd of the keys),
//! and the buffers of the third tier, which are an eighth of the first, are not part of the DRAM.

use std::collections::HashMap;

use super::recent::RecentKeys;
use super::{Access, ValueIndex, spread};

const ENTRY_BYTES: u64 = 24;
/// A block of the second tier.
const BLOCK_BYTES: u32 = 16 << 10;
/// Blocks of a FIFO, and of them those that are read together.
const FIFO_BLOCKS: u64 = 32;
const TOGETHER: u64 = 8;
/// A block of the third tier, and as many bytes as blocks of the second that are read together.
const LARGE_BYTES: u32 = 128 << 10;
/// Entries of the first tier for each entry of the second (128 MiB beside 32 FIFOs), and for each one that waits in a
/// buffer of the third (256 of one block, half full).
const FIRST_PER_SECOND: u64 = 8;

/// See the module.
#[derive(Debug)]
pub(in crate::experiment::array) struct SlickIndex {
    first: RecentKeys,
    /// By slot of the first tier: whether the entry has changed since it came.
    dirty: Vec<bool>,
    /// Of each key that is in a lower tier: how many had gone down when it went last.
    below: HashMap<u64, u64>,
    gone_down: u64,
    /// Entries in the second tier, and in the buffers of the third.
    second: u64,
    /// Large blocks for which there is room on flash.
    large_blocks: u64,
}

impl SlickIndex {
    /// An index with `dram_bytes` bytes for the first tier, and `table_bytes` bytes of flash for the others.
    pub(in crate::experiment::array) fn new(dram_bytes: u64, table_bytes: u64) -> Self {
        let first = RecentKeys::new(dram_bytes / ENTRY_BYTES);
        let entries = first.keys_max();
        Self {
            first,
            dirty: vec![false; entries],
            below: HashMap::new(),
            gone_down: 0,
            second: (entries as u64 / FIRST_PER_SECOND).max(FIFO_BLOCKS),
            large_blocks: (table_bytes / u64::from(LARGE_BYTES)).max(1),
        }
    }

    /// Adds an entry to the first tier.
    fn add(&mut self, key: u64, dirty: bool, asked: &mut Vec<Access>) {
        let (slot, gone) = self.first.add(key);
        let had_changed = std::mem::replace(&mut self.dirty[slot as usize], dirty);
        if let Some(gone) = gone.filter(|_| had_changed) {
            self.go_down(gone, asked);
        }
    }

    /// An entry goes to the second tier. Full blocks are written; the second tier then reads its oldest, whose entries
    /// go to the third.
    fn go_down(&mut self, key: u64, asked: &mut Vec<Access>) {
        self.below.insert(key, self.gone_down);
        self.gone_down += 1;
        let every = |bytes: u32| u64::from(bytes) / ENTRY_BYTES;
        let place = self.block(self.gone_down);
        if self.gone_down.is_multiple_of(every(BLOCK_BYTES)) {
            if self.gone_down > self.second {
                asked.push(Access::read(place, BLOCK_BYTES));
            }
            asked.push(Access::write(place, BLOCK_BYTES));
        }
        if self.gone_down > self.second && self.gone_down.is_multiple_of(every(LARGE_BYTES)) {
            asked.push(Access::write(place, LARGE_BYTES));
        }
    }

    /// Where a large block lies, in blocks of 16 KiB.
    fn block(&self, number: u64) -> u64 {
        number % self.large_blocks * u64::from(LARGE_BYTES / BLOCK_BYTES)
    }

    /// Reads what a look-up below the first tier reads. Returns whether the key is there.
    fn look_below(&self, key: u64, asked: &mut Vec<Access>) -> bool {
        let at = self.below.get(&key);
        let younger = at.map_or(u64::MAX, |at| self.gone_down - 1 - at);
        let filled = self.gone_down.min(self.second);
        let blocks = match younger < filled {
            true => younger * FIFO_BLOCKS / self.second + 1,
            false => (filled * FIFO_BLOCKS).div_ceil(self.second),
        };
        let place = self.block(spread(key, self.large_blocks));
        let large = Access::read(place, LARGE_BYTES);
        asked.extend((0..blocks.div_ceil(TOGETHER)).map(|_| large));
        if at.is_some() && younger >= 2 * self.second {
            asked.push(large);
        }
        at.is_some()
    }
}

impl ValueIndex for SlickIndex {
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool {
        if let Some(slot) = self.first.slot(key) {
            self.first.touch(slot);
        } else {
            if !self.look_below(key, asked) {
                return false;
            }
            self.add(key, false, asked);
        }
        asked.push(Access::value(key));
        true
    }

    fn set(&mut self, key: u64, asked: &mut Vec<Access>) {
        match self.first.slot(key) {
            Some(slot) => {
                self.first.touch(slot);
                self.dirty[slot as usize] = true;
                asked.push(Access::value(key));
            }
            None => self.add(key, true, asked),
        }
    }

    fn dram_bytes(&self) -> u64 {
        self.first.keys_max() as u64 * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(ask: impl FnOnce(&mut Vec<Access>)) -> Vec<Access> {
        let mut asked = Vec::new();
        ask(&mut asked);
        asked
    }

    fn reads(asked: &[Access], bytes: u32) -> usize {
        asked.iter().filter(|it| **it == Access::read(it.place, bytes)).count()
    }

    #[test]
    fn a_key_in_the_first_tier_costs_its_value_and_an_update_the_old_one() {
        let mut index = SlickIndex::new(100 * ENTRY_BYTES, 1 << 20);
        assert_eq!(asked(|it| index.set(1, it)), []);
        assert_eq!(asked(|it| index.set(1, it)), [Access::value(1)], "the old value");
        assert_eq!(asked(|it| assert!(index.get(1, it))), [Access::value(1)]);
        assert_eq!(asked(|it| assert!(!index.get(2, it))), [], "nothing is below");
    }

    #[test]
    fn the_longer_ago_an_entry_went_down_the_more_is_read() {
        let mut index = SlickIndex::new(800 * ENTRY_BYTES, 1 << 20);
        assert_eq!(index.second, 100);
        (0..1300).for_each(|key| index.set(key, &mut Vec::new()));
        // 0 to 499 went down, in this order.
        let mut large = |key| {
            let asked = asked(|it| assert!(index.get(key, it)));
            assert_eq!(asked.last(), Some(&Access::value(key)));
            reads(&asked, LARGE_BYTES)
        };
        assert_eq!([large(499), large(430), large(390), large(100)], [1, 3, 4, 5]);
        assert_eq!(large(499), 0, "it came back to the first tier");
        assert_eq!(asked(|it| index.set(200, it)), [], "an entry that is not there is not sought");
    }

    #[test]
    fn what_has_not_changed_does_not_go_down_again_and_full_blocks_are_written() {
        let mut index = SlickIndex::new(ENTRY_BYTES, 1 << 20);
        let per_block = u64::from(BLOCK_BYTES) / ENTRY_BYTES;
        let mut all = Vec::new();
        (0..=2 * per_block).for_each(|key| index.set(key, &mut all));
        let writes = all.iter().filter(|it| **it == Access::write(it.place, BLOCK_BYTES)).count();
        assert_eq!((writes, reads(&all, BLOCK_BYTES)), (2, 2), "the second tier was full");
        let down = index.gone_down;
        index.get(7, &mut Vec::new());
        assert_eq!(index.gone_down, down + 1, "the last one set gave way to 7");
        index.get(8, &mut Vec::new());
        assert_eq!(index.gone_down, down + 1, "7 had not changed");
    }
}
