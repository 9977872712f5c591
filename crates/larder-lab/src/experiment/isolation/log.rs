//! The log of a tenant on its vSSD: it appends to blocks, and frees the oldest block when there is no room.

use std::collections::VecDeque;

use larder_ssd::timed::Nanoseconds;
use larder_vssd::timed::TimedVssds;
use larder_vssd::{LogicalBlock, MemoryImages, Pages, VssdId};

use super::failed;
use crate::Error;

/// A log on a vSSD.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) vssd: VssdId,
    block_pages: u64,
    /// Largest number of blocks.
    limit: usize,
    /// Full blocks, oldest first.
    full: VecDeque<LogicalBlock>,
    open: Option<(LogicalBlock, u64)>,
}

impl Log {
    /// Makes a log and fills it, in no simulated time.
    pub(super) fn new(timed: &mut TimedVssds<MemoryImages>, vssd: VssdId) -> Result<Self, Error> {
        Self::partly_filled(timed, vssd, (100, 100))
    }

    /// The same, with `filled` percent of the blocks of the vSSD written. It then grows to `most` percent of them.
    pub(super) fn partly_filled(
        timed: &mut TimedVssds<MemoryImages>,
        vssd: VssdId,
        (filled, most): (u32, u32),
    ) -> Result<Self, Error> {
        let info = timed.array().info(vssd).map_err(failed)?;
        let part = |percent: u32| (info.blocks * percent / 100).max(1) as usize;
        let (block_pages, limit) = (info.block_pages, part(most));
        let mut full = VecDeque::new();
        for _ in 0..part(filled) {
            let array = timed.array_mut();
            let block = array.alloc_block(vssd, 0).map_err(failed)?;
            let pages = Pages::Count(u32::try_from(block_pages).unwrap_or(u32::MAX));
            array.append(vssd, block, 0, pages).map_err(failed)?;
            full.push_back(block);
        }
        Ok(Self { vssd, block_pages, limit, full, open: None })
    }

    /// A random aligned range of `pages` pages in a full block.
    pub(super) fn somewhere(&self, rng: &mut fastrand::Rng, pages: u64) -> (LogicalBlock, u64) {
        let block = self.full[rng.usize(..self.full.len())];
        (block, rng.u64(..self.block_pages / pages) * pages)
    }

    /// Full blocks, oldest first.
    pub(super) fn full(&self) -> &VecDeque<LogicalBlock> {
        &self.full
    }

    pub(super) fn block_pages(&self) -> u64 {
        self.block_pages
    }

    /// The place of the `nth` piece of `pages` pages, counted from the oldest and wrapping around.
    pub(super) fn nth(&self, nth: u64, pages: u64) -> (LogicalBlock, u64) {
        let in_block = self.block_pages / pages;
        let block = nth / in_block % self.full.len() as u64;
        (self.full[usize::try_from(block).unwrap_or(0)], nth % in_block * pages)
    }

    /// Appends `pages` pages. `pages` must divide the pages of a block.
    pub(super) fn append(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
        pages: u32,
        token: u64,
    ) -> Result<(), Error> {
        let (block, at) = match self.open.take() {
            Some(open) => open,
            None => (self.fresh(timed, now)?, 0),
        };
        timed.append(now, self.vssd, block, at, Pages::Count(pages), token).map_err(failed)?;
        let at = at + u64::from(pages);
        if at < self.block_pages {
            self.open = Some((block, at));
        } else {
            self.full.push_back(block);
        }
        Ok(())
    }

    fn fresh(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
    ) -> Result<LogicalBlock, Error> {
        if self.full.len() == self.limit
            && let Some(oldest) = self.full.pop_front()
        {
            timed.free(now, self.vssd, oldest).map_err(failed)?;
        }
        timed.array_mut().alloc_block(self.vssd, 0).map_err(failed)
    }
}
