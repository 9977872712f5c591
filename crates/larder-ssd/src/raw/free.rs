//! Free blocks of each die, least worn first: dynamic wear levelling within a die. Ties are broken by number, so that
//! the same history has the same outcome.

use std::collections::BTreeSet;

use crate::nand::{BlockIndex, DieIndex, NandGeometry};

#[derive(Debug)]
pub(super) struct FreeBlocks {
    /// Per die: erases and number of each free block.
    dies: Vec<BTreeSet<(u32, BlockIndex)>>,
}

/// Which free block of a die to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockChoice {
    /// For data of unknown lifetime: the block may be erased soon.
    LeastWorn,
    /// For long-lived data.
    MostWorn,
}

impl FreeBlocks {
    /// The blocks for which `erases` returns a number.
    pub(super) fn find(
        geometry: &NandGeometry,
        erases: impl Fn(BlockIndex) -> Option<u32>,
    ) -> Self {
        let of_die = |die| {
            let blocks = geometry.blocks_of(DieIndex(die));
            blocks.filter_map(|block| Some((erases(block)?, block))).collect()
        };
        Self { dies: (0..geometry.array.dies()).map(of_die).collect() }
    }

    pub(super) fn count(&self, die: DieIndex) -> usize {
        self.dies[die.at()].len()
    }

    /// Erases of the least worn free block.
    pub(super) fn least_worn(&self, die: DieIndex) -> Option<u32> {
        self.dies[die.at()].first().map(|(erases, _)| *erases)
    }

    /// Erases of the most worn free block.
    pub(super) fn most_worn(&self, die: DieIndex) -> Option<u32> {
        self.dies[die.at()].last().map(|(erases, _)| *erases)
    }

    pub(super) fn take(&mut self, die: DieIndex, wanted: BlockChoice) -> Option<BlockIndex> {
        let free = &mut self.dies[die.at()];
        let taken = match wanted {
            BlockChoice::LeastWorn => free.pop_first(),
            BlockChoice::MostWorn => free.pop_last(),
        };
        taken.map(|(_, block)| block)
    }

    pub(super) fn give(&mut self, die: DieIndex, block: BlockIndex, erases: u32) {
        debug_assert!(self.dies[die.at()].iter().all(|(_, other)| *other != block));
        self.dies[die.at()].insert((erases, block));
    }
}
