//! Host commands on blocks: program, read, erase.

use super::RawSsd;
use crate::error::{Error, ErrorKind};
use crate::nand::{BlockIndex, Health, PhysicalOp};

/// The counter to which a program is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The host sent the data.
    Append,
    /// The data was copied from elsewhere on the medium.
    Migration,
}

impl RawSsd {
    /// Programs `pages` pages of `block` from its page `at` on; both must be multiples of a stripe
    /// ([`NandGeometry::stripe_pages`](crate::nand::NandGeometry::stripe_pages)).
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for pages that the block does not have or parts of a stripe; [`ErrorKind::NotWritten`]
    /// for a block that is not allocated; [`ErrorKind::NotErased`] for pages that were programmed before, or a torn
    /// block; [`ErrorKind::OutOfOrder`] for pages beyond the next; [`ErrorKind::BadBlock`] for a block that failed.
    /// Nothing was programmed. [`ErrorKind::BadBlock`] and [`ErrorKind::PowerLoss`] may also occur half-way: then the
    /// first stripes are programmed ([`Self::block`] says how many pages), and the block accepts no more.
    pub fn program(&mut self, block: BlockIndex, at: u32, pages: u32) -> Result<(), Error> {
        self.check_program(block, at, pages)?;
        let stripe = self.geometry.stripe_pages();
        for at in (at..at + pages).step_by(stripe as usize) {
            self.program_stripe(block, at, Cause::Append)?;
        }
        Ok(())
    }

    /// Programs `words.len()` pages like [`Self::program`], with a word for each page, which [`Self::word`] returns; no
    /// word may be 0. A drive that keeps no words drops them.
    ///
    /// # Errors
    /// As [`Self::program`].
    pub fn program_words(
        &mut self,
        block: BlockIndex,
        at: u32,
        words: &[u64],
    ) -> Result<(), Error> {
        let pages = u32::try_from(words.len()).unwrap_or(u32::MAX);
        self.check_program(block, at, pages)?;
        let stripe = self.geometry.stripe_pages();
        for (at, words) in (at..).step_by(stripe as usize).zip(words.chunks(stripe as usize)) {
            for (page, &word) in (at..).zip(words) {
                self.medium.write_word(self.page_of(block, page), word);
            }
            self.program_stripe(block, at, Cause::Append)?;
        }
        Ok(())
    }

    /// Programs the stripe at page `at`, which must be the next of a good block.
    pub(super) fn program_stripe(
        &mut self,
        block: BlockIndex,
        at: u32,
        cause: Cause,
    ) -> Result<(), Error> {
        let (stripe, die) = (self.geometry.stripe_pages(), self.geometry.die_of(block));
        if self.medium.power().admit(1) == 0 {
            self.medium.tear_program(block);
            self.note(block, 0..0);
            return Err(self.power_failed());
        }
        let bytes = u64::from(stripe) * u64::from(self.geometry.mapping_bytes);
        self.record.op(PhysicalOp::Program { die, bytes, urgent: false });
        if self.program_failures.strikes(block, at, stripe) {
            self.medium.fail_program(block);
            self.dies[die.at()].failed += 1;
            self.allocation.take_tag(block);
            self.note(block, 0..0);
            return Err(self.failed(block, "its program failed"));
        }
        if at == 0
            && let Some(tag) = self.allocation.take_tag(block)
        {
            self.medium.write_tag(block, tag);
        }
        let written = self.medium.program(block, stripe);
        assert_eq!(written, at + stripe, "pages are programmed in order");
        self.programmed_pages += u64::from(stripe);
        let counters = &mut self.dies[die.at()].counters;
        match cause {
            Cause::Append => counters.appended_pages += u64::from(stripe),
            Cause::Migration => counters.migrated_pages += u64::from(stripe),
        }
        self.note(block, at..at + stripe);
        Ok(())
    }

    /// Reads `pages` pages of `block` from its page `at` on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for pages that the block does not have; [`ErrorKind::NotWritten`] for pages that are
    /// not programmed; [`ErrorKind::BadBlock`] for a block that is bad and so not readable; [`ErrorKind::PowerLoss`].
    pub fn read(&mut self, block: BlockIndex, at: u32, pages: u32) -> Result<(), Error> {
        self.check_power()?;
        let end = self.check_range(block, at, pages)?;
        let entry = self.medium.block(block);
        if entry.health == Health::Bad {
            return Err(self.failed(block, "it is bad"));
        }
        if end > entry.readable() {
            let message = format!(
                "pages {at} + {pages} of block {}: {} are programmed",
                block.0,
                entry.readable()
            );
            return Err(Error::new(ErrorKind::NotWritten, message));
        }
        let die = self.geometry.die_of(block);
        self.rows(at, end).for_each(|bytes| self.record.op(PhysicalOp::HostRead { die, bytes }));
        Ok(())
    }

    /// Erases `block` and frees it. A block without programmed pages is freed without wear.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a block that the drive does not have; [`ErrorKind::NotWritten`] for one that is
    /// not allocated; [`ErrorKind::BadBlock`] if it failed before, or fails now: then its content is lost, and it is
    /// not freed; [`ErrorKind::PowerLoss`].
    pub fn erase(&mut self, block: BlockIndex) -> Result<(), Error> {
        self.check_power()?;
        self.check_range(block, 0, 0)?;
        let entry = *self.medium.block(block);
        if entry.is_retired() {
            return Err(self.failed(block, "it is out of use"));
        }
        self.check_allocated(block)?;
        if entry.written > 0 || entry.health == Health::Torn {
            if self.medium.power().admit(1) == 0 {
                self.medium.tear_erase(block);
                self.note(block, 0..0);
                return Err(self.power_failed());
            }
            let die = self.geometry.die_of(block);
            self.record.op(PhysicalOp::Erase { die, blocks: 1, between_programs: false });
            if self.medium.erase(block).is_err() {
                self.allocation.drop_failed(block);
                self.dies[die.at()].failed += 1;
                self.note(block, 0..0);
                return Err(self.failed(block, "its erase failed"));
            }
            self.dies[die.at()].counters.erases += 1;
            self.note(block, 0..0);
        }
        let erased = self.medium.block(block);
        assert!(erased.written == 0 && erased.health == Health::Good, "free blocks are erased");
        self.allocation.give_back(self.geometry.die_of(block), block, erased.erases);
        Ok(())
    }

    /// Bytes of each row that is sensed for pages `at..end`. A row is sensed once, however much of it is read.
    pub(super) fn rows(&self, at: u32, end: u32) -> impl Iterator<Item = u64> + use<> {
        let (row, page_bytes) = (self.geometry.row_pages(), self.geometry.mapping_bytes);
        let mut next = at;
        std::iter::from_fn(move || {
            let from = next;
            next = (from / row + 1).saturating_mul(row).min(end);
            (from < end).then(|| u64::from(next - from) * u64::from(page_bytes))
        })
    }

    fn check_program(&self, block: BlockIndex, at: u32, pages: u32) -> Result<(), Error> {
        self.check_power()?;
        self.check_range(block, at, pages)?;
        let stripe = self.geometry.stripe_pages();
        if !at.is_multiple_of(stripe) || !pages.is_multiple_of(stripe) {
            let message = format!("pages {at} + {pages}: a die programs {stripe} pages at once");
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        let entry = self.medium.block(block);
        if entry.is_retired() {
            return Err(self.failed(block, "it is out of use"));
        }
        self.check_allocated(block)?;
        if entry.health == Health::Torn || at < entry.written {
            let message = format!(
                "page {at} of block {}: {} pages are programmed ({:?}), and it was not erased since",
                block.0, entry.written, entry.health
            );
            return Err(Error::new(ErrorKind::NotErased, message));
        }
        if at > entry.written {
            let message = format!(
                "page {at} of block {}: page {} is the next to program",
                block.0, entry.written
            );
            return Err(Error::new(ErrorKind::OutOfOrder, message));
        }
        Ok(())
    }

    /// The end of `pages` pages from `at` on, if `block` has them.
    pub(super) fn check_range(&self, block: BlockIndex, at: u32, pages: u32) -> Result<u32, Error> {
        let (blocks, block_pages) = (self.geometry.blocks(), self.geometry.block_pages());
        let end = at.checked_add(pages).filter(|&end| end <= block_pages && block.0 < blocks);
        end.ok_or_else(|| {
            let message = format!(
                "pages {at} + {pages} of block {}: the drive has {blocks} blocks of {block_pages} \
                 pages",
                block.0
            );
            Error::new(ErrorKind::OutOfRange, message)
        })
    }

    pub(super) fn check_allocated(&self, block: BlockIndex) -> Result<(), Error> {
        if !self.allocation.has(block) {
            let message = format!("block {} is not allocated", block.0);
            return Err(Error::new(ErrorKind::NotWritten, message));
        }
        Ok(())
    }

    #[cold]
    pub(super) fn failed(&self, block: BlockIndex, how: &str) -> Error {
        let message = format!(
            "block {} on die {}: {how}; use another block",
            block.0,
            self.geometry.die_of(block).0
        );
        Error::new(ErrorKind::BadBlock, message)
    }
}
