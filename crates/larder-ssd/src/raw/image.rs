//! The state of a block on the media.

use crate::nand::{BlockIndex, Health, Tag};

/// The state of a block on the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockImage {
    /// Erases of the block.
    pub erases: u32,
    /// Pages programmed since the last erase, in whole stripes. A bad block keeps its last number.
    pub written_pages: u32,
    /// Health of the block.
    pub health: Health,
    /// The tag stored with its first page; present if and only if pages are programmed.
    pub tag: Option<Tag>,
    /// Pages that hosts have programmed on its die so far.
    pub die_appended_pages: u64,
    /// Pages that were moved to its die so far.
    pub die_migrated_pages: u64,
}

impl BlockImage {
    /// A new block.
    pub const FRESH: Self = Self {
        erases: 0,
        written_pages: 0,
        health: Health::Good,
        tag: None,
        die_appended_pages: 0,
        die_migrated_pages: 0,
    };
}

/// The state of a block after an operation on the media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockChange {
    /// The block.
    pub block: BlockIndex,
    /// The state after the operation.
    pub image: BlockImage,
    /// The words of the pages that were programmed, which are the last ones of the block; 0 for pages without a word.
    pub words: Vec<u64>,
}
