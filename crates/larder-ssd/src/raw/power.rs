//! Power loss, and the scan of the media afterwards.

use super::RawSsd;
use super::allocation::Allocation;
use crate::error::{Error, ErrorKind};
use crate::nand::{BlockIndex, Health, Tag};

/// A block that is not erased, as found on the media after a power loss. The host owns it, and erases the blocks that
/// it does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundBlock {
    /// The block.
    pub block: BlockIndex,
    /// The tag of its allocation; `None` if its first program or its erase was interrupted.
    pub tag: Option<Tag>,
    /// Readable pages.
    pub written_pages: u32,
    /// [`Health::Good`]: it can be programmed further. [`Health::Torn`]: it must be erased first. [`Health::ReadOnly`]:
    /// it can only be read.
    pub health: Health,
}

impl RawSsd {
    /// Cuts the power between two operations. Everything is refused until [`Self::power_on`].
    pub fn power_loss(&mut self) {
        self.medium.power().turn_off();
    }

    /// Makes the power fail during the operation after the next `operations`. Programs of a stripe and erases count. If
    /// the power is off, operations are counted from its return.
    pub fn cut_power_after(&mut self, operations: u64) {
        self.medium.power().fail_after(operations);
    }

    /// Restores the power and reads the out-of-band bytes of all blocks. Erased blocks are free again; the others are
    /// returned in the order of blocks. On a drive that has power this is a power cycle.
    pub fn power_on(&mut self) -> Vec<FoundBlock> {
        self.medium.power().turn_on();
        let is_free = |block: BlockIndex| {
            let entry = self.medium.block(block);
            (entry.health == Health::Good && entry.written == 0).then_some(entry.erases)
        };
        self.allocation = Allocation::new(&self.geometry, is_free);
        let mut found = Vec::new();
        for block in (0..self.geometry.blocks()).map(BlockIndex) {
            let entry = self.medium.block(block);
            let erased = entry.written == 0 && entry.health != Health::Torn;
            if erased || entry.health == Health::Bad {
                continue;
            }
            let tag = self.medium.tag(block);
            assert!(tag.is_some() || entry.written == 0, "{block:?} was programmed without a tag");
            self.allocation.found(block);
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

    /// Turns the power off and returns the error for it.
    #[cold]
    pub(super) fn power_failed(&mut self) -> Error {
        self.medium.power().turn_off();
        no_power()
    }
}

fn no_power() -> Error {
    Error::new(ErrorKind::PowerLoss, "the drive has no power: power_on brings it back")
}
