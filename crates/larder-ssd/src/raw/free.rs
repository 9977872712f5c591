//! Free blocks of each die, least worn first: dynamic wear levelling within a die. Ties go by
//! number, so that the same history has the same outcome.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::nand::{BlockIndex, DieIndex, NandGeometry};

#[derive(Debug)]
pub(super) struct FreeBlocks {
    /// By die, erases and number of each free block.
    heaps: Vec<BinaryHeap<Reverse<(u32, BlockIndex)>>>,
}

impl FreeBlocks {
    /// Those for which `erases` gives a number.
    pub(super) fn find(
        geometry: &NandGeometry,
        erases: impl Fn(BlockIndex) -> Option<u32>,
    ) -> Self {
        let of_die = |die| {
            let blocks = geometry.blocks_of(DieIndex(die));
            blocks.filter_map(|block| Some(Reverse((erases(block)?, block)))).collect()
        };
        Self { heaps: (0..geometry.array.dies()).map(of_die).collect() }
    }

    pub(super) fn count(&self, die: DieIndex) -> usize {
        self.heaps[die.at()].len()
    }

    /// The least worn.
    pub(super) fn take(&mut self, die: DieIndex) -> Option<BlockIndex> {
        self.heaps[die.at()].pop().map(|Reverse((_, block))| block)
    }

    pub(super) fn give(&mut self, die: DieIndex, block: BlockIndex, erases: u32) {
        debug_assert!(self.heaps[die.at()].iter().all(|Reverse((_, other))| *other != block));
        self.heaps[die.at()].push(Reverse((erases, block)));
    }
}
