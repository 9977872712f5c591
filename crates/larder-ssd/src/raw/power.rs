//! Power loss, and what a scan of the media finds afterwards.

use super::drive::RawSsd;
use super::free::FreeBlocks;
use crate::error::{Error, ErrorKind};
use crate::nand::{BlockIndex, Health, Tag};

/// A block that is not erased, as the media tell after a power loss. It is in the hands of the
/// host, who erases what it does not want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundBlock {
    /// The block.
    pub block: BlockIndex,
    /// What it was allocated with; `None` if its first program or its erase was interrupted.
    pub tag: Option<Tag>,
    /// Pages that can be read.
    pub written_pages: u32,
    /// [`Health::Good`]: it can be programmed on. [`Health::Torn`]: it must be erased first.
    /// [`Health::ReadOnly`]: it can only be read.
    pub health: Health,
}

impl RawSsd {
    /// Cuts the power between two operations. Everything is refused until [`Self::power_on`].
    pub fn power_loss(&mut self) {
        self.medium.power().turn_off();
    }

    /// Lets the power fail during the operation that comes after `operations` more: programs of a
    /// stripe and erases count. Without power, those that come when it is back.
    pub fn cut_power_after(&mut self, operations: u64) {
        self.medium.power().fail_after(operations);
    }

    /// Gives the power back and reads the out-of-band bytes of all blocks. What is erased is free
    /// again, what is not is said, in the order of blocks. On a drive that has power it is a power
    /// cycle.
    pub fn power_on(&mut self) -> Vec<FoundBlock> {
        self.medium.power().turn_on();
        let is_free = |block: BlockIndex| {
            let entry = self.medium.block(block);
            (entry.health == Health::Good && entry.written == 0).then_some(entry.erases)
        };
        self.free = FreeBlocks::find(&self.geometry, is_free);
        self.allocated.fill(false);
        self.tags.clear();
        let mut found = Vec::new();
        for block in (0..self.geometry.blocks()).map(BlockIndex) {
            let entry = self.medium.block(block);
            let erased = entry.written == 0 && entry.health != Health::Torn;
            if erased || entry.health == Health::Bad {
                continue;
            }
            let tag = self.medium.tag(block);
            assert!(tag.is_some() || entry.written == 0, "{block:?} was programmed without a tag");
            self.allocated[block.at()] = true;
            found.push(FoundBlock {
                block,
                tag,
                written_pages: entry.readable(),
                health: entry.health,
            });
        }
        found
    }

    pub(super) fn check_power(&self) -> Result<(), Error> {
        if self.medium.has_power() { Ok(()) } else { Err(no_power()) }
    }

    /// Says that the power is gone, and makes it so.
    #[cold]
    pub(super) fn power_failed(&mut self) -> Error {
        self.medium.power().turn_off();
        no_power()
    }
}

fn no_power() -> Error {
    Error::new(ErrorKind::PowerLoss, "the drive has no power: power_on brings it back")
}
