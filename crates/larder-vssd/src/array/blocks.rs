//! Logical blocks, with the operations of their owners (FlashBlox §3.1: AllocBlock, WriteData, ReadData, FreeBlock).
//!
//! A logical block is a superblock: a physical block on each die of its vSSD. Its stripes go round-robin over the dies:
//!
//! ```text
//!              die of part 0   part 1      …     part n-1
//!   row 0      stripe 0        stripe 1    …     stripe n-1
//!   row 1      stripe n        stripe n+1  …     stripe 2n-1
//! ```
//!
//! A physical block is allocated with its first stripe. All parts together hold a prefix of the stripes, so their
//! lengths determine where the next stripe goes. That position is not stored anywhere else.

use larder_ssd::nand::{BlockIndex, DieIndex, Health};
use larder_ssd::raw::RawSsd;
use larder_ssd::{Error, ErrorKind};

use super::loans::LoanEnd;
use super::moves::Part;
use super::{Vssds, erase};
use crate::images::Images;
use crate::kind::{LogicalBlock, VssdId};
use crate::record::Change;
use crate::state::{LENT_SEAT, Vssd};
use crate::table::Slot;

/// The pages to append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages<'a> {
    /// This number of pages.
    Count(u32),
    /// One page per word, and each word is stored with its page; no word is 0. Drives that keep no words drop them.
    Words(&'a [u64]),
}

impl Pages<'_> {
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Count(count) => u64::from(*count),
            Self::Words(words) => words.len() as u64,
        }
    }
}

/// A logical block, as its owner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockState {
    /// The block.
    pub block: LogicalBlock,
    /// The tag of its allocation.
    pub tag: u64,
    /// Readable pages; the next append starts here.
    pub written_pages: u64,
}

impl<I: Images> Vssds<I> {
    /// Allocates a block of `vssd`, with a tag chosen by the owner. The block is durable when this returns; its number
    /// is above all numbers that the vSSD used before.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if there is no such vSSD; [`ErrorKind::NoSpace`] if it has its maximum number of blocks;
    /// [`ErrorKind::NoResources`] if it has used all numbers; [`ErrorKind::ReadOnly`] if one of its dies lost more
    /// blocks than its spare covers; [`ErrorKind::PowerLoss`]: the block may exist then, and if so is in
    /// [`Self::blocks`] after the array was opened.
    pub fn alloc_block(&mut self, vssd: VssdId, tag: u64) -> Result<LogicalBlock, Error> {
        self.ledger.check()?;
        let entry = self.vssd(vssd)?;
        if let Some(seat) = self.read_only_seat(entry) {
            let message = format!(
                "die {} of drive {}, of vSSD {}, is read-only: move what it holds to a new vSSD",
                seat.die.0, seat.drive, vssd.0
            );
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        self.take_block(vssd, tag)
    }

    /// Gives a block of `vssd` its number, in the journal too.
    pub(super) fn take_block(&mut self, vssd: VssdId, tag: u64) -> Result<LogicalBlock, Error> {
        let entry = self.vssd(vssd)?;
        let (slots, live) = (entry.table.slots(), entry.table.live());
        let Some(entry) = self.ledger.state_mut().vssds.get_mut(&vssd.0) else {
            unreachable!("it is there")
        };
        let number = entry.table.take(tag).ok_or_else(|| {
            if live < slots {
                let message = format!("vSSD {} has given out all numbers of blocks", vssd.0);
                return Error::new(ErrorKind::NoResources, message + ": move it to a new one");
            }
            let message = format!("vSSD {} has {slots} blocks, all it can have: free one", vssd.0);
            Error::new(ErrorKind::NoSpace, message)
        })?;
        let block = LogicalBlock::new(vssd, number);
        self.ledger.log(&Change::Allocated { block, tag })?;
        Ok(block)
    }

    /// Appends `pages` to `block` of `vssd`, which must have `at` pages; a multiple of what a die programs at once
    /// ([`NandGeometry::stripe_pages`](larder_ssd::nand::NandGeometry::stripe_pages)). The pages are on flash when this
    /// returns. A physical block that fails during the append is replaced by another of its die.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if the vSSD does not have this block (any more); [`ErrorKind::OutOfRange`] for parts of
    /// a stripe; [`ErrorKind::OutOfOrder`] if the block does not have `at` pages; [`ErrorKind::BlockFull`] if it has no
    /// room for all pages. In these cases nothing is appended. [`ErrorKind::ReadOnly`] if a die has no replacement for
    /// a failed block, and [`ErrorKind::PowerLoss`]: then the first stripes may be present ([`Self::written_pages`]).
    pub fn append(
        &mut self,
        vssd: VssdId,
        block: LogicalBlock,
        at: u64,
        pages: Pages<'_>,
    ) -> Result<(), Error> {
        self.ledger.check()?;
        let slot = self.resolve(vssd, block)?;
        self.check_append(vssd, slot, at, pages.count())?;
        let width = self.vssd(vssd)?.table.width() as u64;
        let stripe_pages = self.ledger.state().shape.geometry.stripe_pages();
        let first = at / u64::from(stripe_pages);
        for stripe in first..first + pages.count() / u64::from(stripe_pages) {
            let member = usize::try_from(stripe % width).unwrap_or(usize::MAX);
            let row = u32::try_from(stripe / width).unwrap_or(u32::MAX);
            let part = Part { vssd: vssd.0, slot, member };
            let pages = match pages {
                Pages::Count(_) => Pages::Count(stripe_pages),
                Pages::Words(words) => {
                    let words = words.chunks(stripe_pages as usize);
                    let index = usize::try_from(stripe - first).unwrap_or(usize::MAX);
                    words.skip(index).map(Pages::Words).next().unwrap_or(Pages::Count(0))
                }
            };
            self.program_part(part, row * stripe_pages, pages)?;
        }
        debug_assert_eq!(
            self.written_pages(vssd, block).ok(),
            Some(at + pages.count()),
            "what is appended can be read"
        );
        Ok(())
    }

    fn check_append(&self, vssd: VssdId, slot: Slot, at: u64, pages: u64) -> Result<(), Error> {
        let fail = |kind, message: String| Err(Error::new(kind, message));
        let entry = self.vssd(vssd)?;
        let stripe = u64::from(self.ledger.state().shape.geometry.stripe_pages());
        let block_pages = self.ledger.state().superblock_pages(entry);
        if !at.is_multiple_of(stripe) || !pages.is_multiple_of(stripe) {
            let message = format!("{pages} pages at {at}: a die programs {stripe} pages at once");
            return fail(ErrorKind::OutOfRange, message);
        }
        let written = self.written_of(entry, slot);
        if at != written && at < block_pages {
            let message = format!("page {at}: page {written} is the next of this block");
            return fail(ErrorKind::OutOfOrder, message);
        }
        if at.checked_add(pages).is_none_or(|end| end > block_pages) {
            let message = format!(
                "{pages} pages at {at}: the block has {block_pages}, of which {written} are written; \
                 allocate another"
            );
            return fail(ErrorKind::BlockFull, message);
        }
        Ok(())
    }

    /// Programs the stripe at page `at` of a part, on a replacement block if the current one accepts no more.
    fn program_part(&mut self, part: Part, at: u32, pages: Pages<'_>) -> Result<(), Error> {
        loop {
            let (drive, block) = self.block_to_program(part)?;
            let programmed = match pages {
                Pages::Count(count) => drive.program(block, at, count),
                Pages::Words(words) => drive.program_words(block, at, words),
            };
            match programmed {
                // The block is read-only now. The next round replaces it, until the die has no block left.
                Err(error) if error.kind() == ErrorKind::BadBlock => {}
                programmed => return programmed,
            }
        }
    }

    /// The physical block of `part`, ready to be programmed.
    fn block_to_program(&mut self, part: Part) -> Result<(&mut RawSsd, BlockIndex), Error> {
        let (seat, member) = self.part(part);
        let at = seat.drive as usize;
        let health = member.and_then(|block| self.drives[at].block(block)).map(|view| view.health);
        let block = match (member, health) {
            (Some(block), Some(Health::Good)) => block,
            (Some(_), _) => match self.replace(part)? {
                Some(block) => block,
                None => self.allocate_part(part)?,
            },
            (None, _) => self.allocate_part(part)?,
        };
        Ok((&mut self.drives[at], block))
    }

    fn allocate_part(&mut self, part: Part) -> Result<BlockIndex, Error> {
        let (seat, _) = self.part(part);
        let block = self.logical(part);
        if seat.id == LENT_SEAT {
            self.check_lent_room(block, &seat)?;
        } else {
            self.make_room(&seat)?;
        }
        let stamp = self.ledger.next_stamp()?;
        let (home, other) = self.dies_of(&seat);
        let drive = &mut self.drives[seat.drive as usize];
        let tag = |erases| Self::tag(stamp, seat.id, block, erases);
        // During a swap each of the two dies may be full of data that has yet to leave it, but not both. Then a block
        // of the spare is used: a tenant that overwrites its data moves it so, and does not undo what has moved.
        let room = drive.free_blocks(other) > 0;
        let physical = if drive.free_blocks(home) > 0 || !room {
            drive.allocate(home, tag(drive.least_erases(home).unwrap_or(0)))?
        } else if takes_one_more(drive, home) {
            drive.allocate_beyond(home, tag)?
        } else {
            drive.allocate(other, tag(drive.least_erases(other).unwrap_or(0)))?
        };
        self.set_part(part, Some(physical));
        Ok(physical)
    }

    /// Reads `pages` pages of `block` from its page `at` on.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if the vSSD does not have this block (any more); [`ErrorKind::NotWritten`] for pages
    /// that are not appended; [`ErrorKind::BadBlock`] if the medium lost them; [`ErrorKind::PowerLoss`].
    pub fn read(
        &mut self,
        vssd: VssdId,
        block: LogicalBlock,
        at: u64,
        pages: u64,
    ) -> Result<(), Error> {
        let slot = self.resolve(vssd, block)?;
        let entry = self.vssd(vssd)?;
        let written = self.written_of(entry, slot);
        let Some(end) = at.checked_add(pages).filter(|&end| end <= written) else {
            let message = format!("{pages} pages at {at}: the block has {written}");
            return Err(Error::new(ErrorKind::NotWritten, message));
        };
        let stripe = u64::from(self.ledger.state().shape.geometry.stripe_pages());
        let mut next = at;
        while next < end {
            let until = (next / stripe + 1).saturating_mul(stripe).min(end);
            let (drive, physical, page) = self.place(vssd, slot, next)?;
            let count = u32::try_from(until - next).unwrap_or(u32::MAX);
            self.drives[drive].read(physical, page, count)?;
            next = until;
        }
        Ok(())
    }

    /// The word of page `page` of `block`; `None` if there is no such page, or no words are kept.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if the vSSD does not have this block (any more).
    pub fn word(&self, vssd: VssdId, block: LogicalBlock, page: u64) -> Result<Option<u64>, Error> {
        let slot = self.resolve(vssd, block)?;
        if page >= self.written_of(self.vssd(vssd)?, slot) {
            return Ok(None);
        }
        let (drive, physical, page) = self.place(vssd, slot, page)?;
        Ok(self.drives[drive].word(physical, page))
    }

    /// Drive, physical block and page of page `page` of the block in `slot`. The page must be written.
    fn place(
        &self,
        vssd: VssdId,
        slot: Slot,
        page: u64,
    ) -> Result<(usize, BlockIndex, u32), Error> {
        let entry = self.vssd(vssd)?;
        let (stripe_pages, width) = (
            u64::from(self.ledger.state().shape.geometry.stripe_pages()),
            entry.table.width() as u64,
        );
        let stripe = page / stripe_pages;
        let member = usize::try_from(stripe % width).unwrap_or(usize::MAX);
        let at = stripe / width * stripe_pages + page % stripe_pages;
        let physical = entry.table.member(slot, member);
        let physical = physical.unwrap_or_else(|| unreachable!("page {page} is written"));
        let drive = entry.seat(slot, member).drive as usize;
        Ok((drive, physical, u32::try_from(at).unwrap_or(u32::MAX)))
    }

    /// Frees `block`. It is gone permanently when this returns, and its data is erased before its flash can hold other
    /// data.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if the vSSD does not have this block (any more); [`ErrorKind::PowerLoss`]: it is gone or
    /// not, as opening the array shows.
    pub fn free_block(&mut self, vssd: VssdId, block: LogicalBlock) -> Result<(), Error> {
        self.ledger.check()?;
        let slot = self.resolve(vssd, block)?;
        if self.vssd(vssd)?.table.is_lent(slot) {
            return self.end_loan(block, LoanEnd::Returned);
        }
        let entry = self.vssd(vssd)?;
        let members = (0..entry.table.width()).filter_map(|member| {
            let drive = entry.seat(slot, member).drive as usize;
            Some((drive, entry.table.member(slot, member)?))
        });
        let members: Vec<_> = members.collect();
        // The record must be durable before the first physical block is erased: a block with missing parts would be
        // torn.
        if let Some(entry) = self.ledger.state_mut().vssds.get_mut(&vssd.0) {
            entry.table.release(slot);
        }
        self.ledger.log(&Change::Freed { block })?;
        members.into_iter().try_for_each(|(drive, block)| erase(&mut self.drives[drive], block))
    }

    /// The block that [`Self::alloc_block`] would return next; `None` if there is no such vSSD, or it can have no more
    /// blocks.
    pub fn next_block(&self, vssd: VssdId) -> Option<LogicalBlock> {
        let number = self.ledger.state().vssd(vssd)?.table.next_number()?;
        Some(LogicalBlock::new(vssd, number))
    }

    /// The blocks of `vssd`, by number, which is the order of their allocation.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if there is no such vSSD.
    pub fn blocks(&self, vssd: VssdId) -> Result<Vec<BlockState>, Error> {
        let entry = self.vssd(vssd)?;
        let state = |slot| BlockState {
            block: LogicalBlock::new(vssd, entry.table.number(slot)),
            tag: entry.table.tag(slot),
            written_pages: self.written_of(entry, slot),
        };
        let mut blocks: Vec<BlockState> = entry.table.live_slots().map(state).collect();
        blocks.sort_unstable_by_key(|state| state.block);
        Ok(blocks)
    }

    /// Readable pages of `block`; the next append starts there.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if the vSSD does not have this block (any more).
    pub fn written_pages(&self, vssd: VssdId, block: LogicalBlock) -> Result<u64, Error> {
        let slot = self.resolve(vssd, block)?;
        Ok(self.written_of(self.vssd(vssd)?, slot))
    }

    /// Pages of the block in `slot` without a gap: up to the first missing stripe.
    pub(super) fn written_of(&self, vssd: &Vssd, slot: Slot) -> u64 {
        let stripe_pages = u64::from(self.ledger.state().shape.geometry.stripe_pages());
        let width = vssd.table.width();
        let missing = (0u64..).zip(0..width).map(|(offset, member)| {
            let rows = u64::from(self.rows(vssd, slot, member));
            rows * width as u64 + offset
        });
        let full = self.ledger.state().superblock_pages(vssd);
        missing.min().map_or(0, |stripe| (stripe * stripe_pages).min(full))
    }

    /// Number of stripes in a part of the block in `slot`.
    pub(super) fn rows(&self, vssd: &Vssd, slot: Slot, member: usize) -> u32 {
        let drive = &self.drives[vssd.seat(slot, member).drive as usize];
        let view = vssd.table.member(slot, member).and_then(|block| drive.block(block));
        view.map_or(0, |view| {
            view.written_pages / self.ledger.state().shape.geometry.stripe_pages()
        })
    }

    /// The slot of `block`, if it belongs to `vssd`.
    fn resolve(&self, vssd: VssdId, block: LogicalBlock) -> Result<Slot, Error> {
        let entry = self.vssd(vssd)?;
        let slot = entry.table.find(block.block()).filter(|_| block.vssd() == vssd);
        slot.ok_or_else(|| {
            let message = format!(
                "block {} of vSSD {} is no block of vSSD {} (any more): blocks says which are",
                block.block(),
                block.vssd().0,
                vssd.0
            );
            Error::new(ErrorKind::NotOwned, message)
        })
    }
}

/// Whether `die` holds what it may at most, and has a spare block for one more.
fn takes_one_more(drive: &RawSsd, die: DieIndex) -> bool {
    let spare =
        drive.die(die).filter(|view| !view.read_only).map_or(0, |view| view.spare_blocks as usize);
    spare > 0 && drive.room_to_move(die) >= spare
}
