//! Moves of data from block to block: for hosts that swap dies, and to level wear within a die.
//!
//! Each move is a copy. The host gives the copy a newer tag, uses it in place of the old block from then on, and erases
//! the old one. After a power loss in between it finds both, and the copy is valid if it has as many pages.

use super::RawSsd;
use super::commands::Cause;
use super::free::BlockChoice;
use crate::error::{Error, ErrorKind};
use crate::nand::{BlockIndex, DieIndex, Health, PhysicalOp, Tag};

/// A block whose data [`RawSsd::level_step`] copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levelled {
    /// The old block. The host erases it after it has recorded the move.
    pub from: BlockIndex,
    /// The new block.
    pub to: BlockIndex,
}

impl RawSsd {
    /// Copies the first `pages` pages of `from`, a multiple of a stripe and at least one, to the least worn free block
    /// of `die`, which may be one of its spare. `tag` builds the tag of the copy from the erases of the new block.
    /// Counted as migrated.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a die or pages that the drive does not have; [`ErrorKind::NotWritten`] for a block
    /// that is not allocated or pages that are not programmed; [`ErrorKind::ReadOnly`] and [`ErrorKind::NoSpace`] if
    /// `die` has no block for it; [`ErrorKind::BadBlock`] if `from` is bad and so not readable, or the program of the
    /// copy failed: another try gets another block. [`ErrorKind::PowerLoss`]. `from` is unchanged in all cases.
    pub fn copy_to(
        &mut self,
        from: BlockIndex,
        pages: u32,
        die: DieIndex,
        tag: impl FnOnce(u32) -> Tag,
    ) -> Result<BlockIndex, Error> {
        self.copy(from, pages, die, BlockChoice::LeastWorn, tag)
    }

    /// One step of static wear levelling in `die` (FlashBlox §3.4.2). If the erases of the good blocks of the die
    /// differ by more than the threshold, copies the least worn written block, whose data is rarely erased, to the most
    /// worn free block. `tag` builds the tag of the copy from the old tag and the erases of the new block. The host
    /// then erases [`Levelled::from`], which new data will wear. `None`: the die is level, or a move would not level
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a die that the drive does not have, [`ErrorKind::ReadOnly`] for one that accepts
    /// no more blocks, [`ErrorKind::BadBlock`] if the program of the copy failed, [`ErrorKind::PowerLoss`].
    pub fn level_step(
        &mut self,
        die: DieIndex,
        tag: impl FnOnce(Tag, u32) -> Tag,
    ) -> Result<Option<Levelled>, Error> {
        self.check_takes_blocks(die)?;
        let Some(from) = self.coldest_to_move(die) else { return Ok(None) };
        let old = self.medium.tag(from);
        let old = old.unwrap_or_else(|| unreachable!("{from:?} is written without a tag"));
        let pages = self.medium.block(from).written;
        let to = self.copy(from, pages, die, BlockChoice::MostWorn, |erases| tag(old, erases))?;
        debug_assert!(self.medium.block(to).erases > self.medium.block(from).erases);
        Ok(Some(Levelled { from, to }))
    }

    /// The least worn written block of `die`, if the wear of the die is uneven and moving the block would level it.
    fn coldest_to_move(&self, die: DieIndex) -> Option<BlockIndex> {
        let good = || {
            let blocks = self.geometry.blocks_of(die);
            blocks.filter(|&block| self.medium.block(block).health == Health::Good)
        };
        let erases = |block: &BlockIndex| (self.medium.block(*block).erases, *block);
        let written = |block: &BlockIndex| {
            self.allocation.has(*block) && self.medium.block(*block).written > 0
        };
        let (max, _) = good().map(|block| erases(&block)).max()?;
        let (min, from) = good().filter(written).map(|block| erases(&block)).min()?;
        let worn_more = self.allocation.free().most_worn(die).is_some_and(|most| most > min);
        (max - min > self.level_threshold && worn_more).then_some(from)
    }

    fn copy(
        &mut self,
        from: BlockIndex,
        pages: u32,
        die: DieIndex,
        wanted: BlockChoice,
        tag: impl FnOnce(u32) -> Tag,
    ) -> Result<BlockIndex, Error> {
        self.check_takes_blocks(die)?;
        let end = self.check_range(from, 0, pages)?;
        let (entry, stripe) = (*self.medium.block(from), self.geometry.stripe_pages());
        if entry.health == Health::Bad {
            return Err(self.failed(from, "it is bad"));
        }
        self.check_allocated(from)?;
        if end > entry.written || end == 0 || !end.is_multiple_of(stripe) {
            let message = format!(
                "{end} pages of block {}: copies are of stripes of {stripe} pages, and {} are \
                 programmed",
                from.0, entry.written
            );
            return Err(Error::new(ErrorKind::NotWritten, message));
        }
        let to = self.take(die, wanted)?;
        self.allocation.set_tag(to, tag(self.medium.block(to).erases));
        let from_die = self.geometry.die_of(from);
        for at in (0..end).step_by(stripe as usize) {
            self.rows(at, at + stripe).for_each(|bytes| {
                self.record.op(PhysicalOp::FirmwareRead { die: from_die, bytes })
            });
            for page in at..at + stripe {
                self.medium.copy_word(self.page_of(from, page), self.page_of(to, page));
            }
            self.program_stripe(to, at, Cause::Migration)?;
        }
        assert_eq!(self.medium.block(to).written, end, "the copy is whole");
        Ok(to)
    }
}
