//! Records state changes of blocks, for a caller that stores the media content, for example in a file.

use std::ops::Range;

use super::drive::RawSsd;
use super::image::{BlockChange, BlockImage};
use crate::nand::BlockIndex;

impl RawSsd {
    /// Starts or stops recording state changes of blocks. A caller that writes the changes down in order has at any
    /// time the state that a power loss at that time would have left.
    pub fn record_changes(&mut self, record: bool) {
        self.changes = record.then(Vec::new);
    }

    /// Takes the changes recorded since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<BlockChange> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The state of `block`; `None` if the drive has no such block.
    pub fn block_image(&self, block: BlockIndex) -> Option<BlockImage> {
        (block.0 < self.geometry.blocks()).then(|| self.image(block))
    }

    fn image(&self, block: BlockIndex) -> BlockImage {
        let entry = self.medium.block(block);
        let counters = self.dies[self.geometry.die_of(block).at()].counters;
        BlockImage {
            erases: entry.erases,
            written_pages: entry.written,
            health: entry.health,
            tag: self.medium.tag(block),
            die_appended_pages: counters.appended_pages,
            die_migrated_pages: counters.migrated_pages,
        }
    }

    /// Records a change of `block`: the pages `programmed` were programmed; empty if none.
    pub(super) fn note(&mut self, block: BlockIndex, programmed: Range<u32>) {
        if self.changes.is_none() {
            return;
        }
        let word = |page| self.medium.word(self.page_of(block, page)).unwrap_or(0);
        let change =
            BlockChange { block, image: self.image(block), words: programmed.map(word).collect() };
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }
}
