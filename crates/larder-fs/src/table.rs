//! The blocks of the log: the use of each, its fill level, and its number of live pages.
//!
//! A page is live if a durable state of the file system points to it. So the counts change when a batch has been
//! written. A block whose count is 0 may be freed after the next checkpoint, which no longer needs it.

use std::collections::BTreeMap;

use crate::address::Address;
use crate::formats::tag::Use;
use crate::geometry::{Geometry, STREAMS};

/// State of a block of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockUse {
    pub(crate) what_for: Use,
    /// Pages that are written or abandoned.
    pub(crate) used_pages: u32,
    pub(crate) live_pages: u32,
    /// The batch that wrote to it last, which gives its age.
    pub(crate) batch: u64,
    /// A live page of it cannot be read, so it must not be a victim.
    pub(crate) damaged: bool,
}

/// All blocks.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) blocks: BTreeMap<u64, BlockUse>,
    /// The block that each stream is writing to.
    open: [Option<u64>; STREAMS],
    /// Blocks with checkpoints, in the order of their numbers.
    pub(crate) checkpoints: Vec<u64>,
    /// Number of times that a count contradicted a change: then a damaged checkpoint had wrong counts.
    pub(crate) mismatches: u64,
}

fn stream(what_for: Use) -> usize {
    match what_for {
        Use::Nodes | Use::Checkpoint => 0,
        Use::Hot => 1,
        Use::Cold => 2,
    }
}

impl Table {
    /// Number of blocks that can still be allocated.
    pub(crate) fn free_blocks(&self, geometry: &Geometry) -> u64 {
        let taken = self.blocks.len() + self.checkpoints.len();
        geometry.blocks.saturating_sub(taken as u64)
    }

    pub(crate) fn open_block(&self, what_for: Use) -> Option<u64> {
        self.open.get(stream(what_for)).copied().flatten()
    }

    /// Sets the block that the stream of a use writes to.
    pub(crate) fn set_open(&mut self, what_for: Use, block: Option<u64>) {
        if let Some(open) = self.open.get_mut(stream(what_for)) {
            *open = block;
        }
    }

    /// Closes a block: it accepts no more pages.
    pub(crate) fn close(&mut self, block: u64) {
        for open in self.open.iter_mut().filter(|open| **open == Some(block)) {
            *open = None;
        }
    }

    pub(crate) fn is_open(&self, block: u64) -> bool {
        self.open.contains(&Some(block))
    }

    /// Adds a new block as the open block of its stream.
    pub(crate) fn insert(&mut self, block: u64, what_for: Use, batch: u64) {
        let fresh = BlockUse { what_for, used_pages: 0, live_pages: 0, batch, damaged: false };
        let before = self.blocks.insert(block, fresh);
        assert!(before.is_none(), "block {block} is in the table already");
        self.set_open(what_for, Some(block));
    }

    pub(crate) fn became_live(&mut self, address: Address) {
        match self.blocks.get_mut(&address.block().number()) {
            Some(it) if it.live_pages < it.used_pages => it.live_pages += 1,
            _ => self.mismatches += 1,
        }
    }

    pub(crate) fn died(&mut self, address: Address) {
        match self.blocks.get_mut(&address.block().number()) {
            Some(it) if it.live_pages > 0 => it.live_pages -= 1,
            _ => self.mismatches += 1,
        }
    }

    /// Blocks without live pages that are not open: the next checkpoint frees them.
    pub(crate) fn retired(&self) -> Vec<u64> {
        let dead =
            self.blocks.iter().filter(|(block, it)| it.live_pages == 0 && !self.is_open(**block));
        dead.map(|(block, _)| *block).collect()
    }

    /// Total number of live pages.
    pub(crate) fn live_pages(&self) -> u64 {
        self.blocks.values().map(|it| u64::from(it.live_pages)).sum()
    }

    /// Live pages of node blocks, and of all others.
    pub(crate) fn live_by_use(&self) -> (u64, u64) {
        let nodes = self.blocks.values().filter(|it| it.what_for == Use::Nodes);
        let nodes = nodes.map(|it| u64::from(it.live_pages)).sum();
        (nodes, self.live_pages() - nodes)
    }
}

#[cfg(test)]
mod tests {
    use larder_blocks::BlockId;

    use super::*;

    #[test]
    fn a_block_is_retired_when_nothing_of_it_lives() {
        let mut table = Table::default();
        table.insert(5, Use::Hot, 1);
        let page = |page| Address::new(BlockId::new(5), page).unwrap();
        table.blocks.get_mut(&5).unwrap().used_pages = 2;
        table.became_live(page(1));
        assert!(table.retired().is_empty());
        table.died(page(1));
        assert!(table.retired().is_empty(), "it is written to");
        table.close(5);
        assert_eq!(table.retired(), [5]);
        table.died(page(1));
        assert_eq!((table.mismatches, table.live_pages()), (1, 0));
    }
}
