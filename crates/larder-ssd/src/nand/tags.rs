//! A few bytes of the firmware per block, written with the first page of the block.

use super::index::BlockIndex;

/// Out-of-band bytes of a block: FlashBlox (FAST'17) stores address, erase count and time in 16 bytes.
pub type Tag = [u8; 16];

/// The tags of all blocks.
#[derive(Debug)]
pub(crate) struct Tags {
    /// `None` while no page of the block is programmed.
    tags: Vec<Option<Tag>>,
}

impl Tags {
    pub(crate) fn new(blocks: u32) -> Self {
        Self { tags: vec![None; blocks as usize] }
    }

    pub(crate) fn get(&self, block: BlockIndex) -> Option<Tag> {
        self.tags[block.at()]
    }

    pub(crate) fn write(&mut self, block: BlockIndex, tag: Tag) {
        let entry = &mut self.tags[block.at()];
        assert!(entry.is_none(), "{block:?} has a tag, and no erase since");
        *entry = Some(tag);
    }

    pub(crate) fn erase(&mut self, block: BlockIndex) {
        self.tags[block.at()] = None;
    }
}

// Host memory of the map and the out-of-band bytes: 8 MB per terabyte in blocks of 2 MiB.
const _: () = assert!(size_of::<Tag>() == 16);
