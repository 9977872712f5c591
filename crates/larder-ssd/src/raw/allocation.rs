//! Which blocks the host has, and which are free.

use std::collections::BTreeMap;

use super::free::{BlockChoice, FreeBlocks};
use crate::nand::{BlockIndex, DieIndex, NandGeometry, Tag};

/// The blocks that the host has allocated, and the free ones.
///
/// Invariant: a block is free, or allocated, or neither because it failed. Only an allocated block has a tag that waits
/// for its first program.
#[derive(Debug)]
pub(super) struct Allocation {
    free: FreeBlocks,
    /// By block.
    allocated: Vec<bool>,
    /// For allocated blocks without a programmed page: the tag that the first program writes.
    tags: BTreeMap<BlockIndex, Tag>,
}

impl Allocation {
    /// Nothing is allocated; the blocks for which `erases` returns a number are free.
    pub(super) fn new(geometry: &NandGeometry, erases: impl Fn(BlockIndex) -> Option<u32>) -> Self {
        Self {
            free: FreeBlocks::find(geometry, erases),
            allocated: vec![false; geometry.blocks() as usize],
            tags: BTreeMap::new(),
        }
    }

    pub(super) fn free(&self) -> &FreeBlocks {
        &self.free
    }

    /// Whether the host has `block`.
    pub(super) fn has(&self, block: BlockIndex) -> bool {
        self.allocated[block.at()]
    }

    /// Allocates a free block of `die`; `None` if there is none.
    pub(super) fn take(&mut self, die: DieIndex, wanted: BlockChoice) -> Option<BlockIndex> {
        let block = self.free.take(die, wanted)?;
        self.found(block);
        Some(block)
    }

    /// The host has `block`, which is not free.
    pub(super) fn found(&mut self, block: BlockIndex) {
        let before = std::mem::replace(&mut self.allocated[block.at()], true);
        assert!(!before, "{block:?} was free and allocated");
    }

    /// Keeps `tag` for the first program of `block`.
    pub(super) fn set_tag(&mut self, block: BlockIndex, tag: Tag) {
        debug_assert!(self.has(block));
        self.tags.insert(block, tag);
    }

    /// The tag that waits for the first program of `block`.
    pub(super) fn take_tag(&mut self, block: BlockIndex) -> Option<Tag> {
        self.tags.remove(&block)
    }

    /// Takes `block` from the host without freeing it: its erase failed.
    pub(super) fn drop_failed(&mut self, block: BlockIndex) {
        self.allocated[block.at()] = false;
        self.tags.remove(&block);
    }

    /// Takes `block` of `die`, erased `erases` times, from the host and frees it.
    pub(super) fn give_back(&mut self, die: DieIndex, block: BlockIndex, erases: u32) {
        self.drop_failed(block);
        self.free.give(die, block, erases);
    }
}
