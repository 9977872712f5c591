//! The whole index in DRAM: a GET makes one read for a hit and none for a miss (`uDepot-OPT` of the paper's artifact).

use super::stored::Stored;
use super::{Access, ValueIndex};

/// An entry of a hash table of addresses, the same as in `paged`.
const ENTRY_BYTES: u64 = 8;

/// See the module.
#[derive(Debug)]
pub(in crate::experiment::array) struct WholeIndex {
    stored: Stored,
    entries: u64,
}

impl WholeIndex {
    /// An index of `entries` entries.
    pub(in crate::experiment::array) fn new(entries: u64) -> Self {
        Self { stored: Stored::default(), entries }
    }
}

impl ValueIndex for WholeIndex {
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool {
        let found = self.stored.has(key);
        if found {
            asked.push(Access::value(key));
        }
        found
    }

    fn set(&mut self, key: u64, _: &mut Vec<Access>) {
        self.stored.add(key);
    }

    fn dram_bytes(&self) -> u64 {
        self.entries * ENTRY_BYTES
    }
}
