//! The log of a tenant that also writes to blocks that are lent to it: clean data, which may vanish.

use std::collections::VecDeque;

use larder_ssd::ErrorKind;
use larder_ssd::timed::Nanoseconds;
use larder_vssd::timed::TimedVssds;
use larder_vssd::{LogicalBlock, MemoryImages, Pages, VssdId};

use super::failed;
use super::log::Log;
use crate::Error;

/// Blocks of its vSSD that the log leaves for lent ones, which take their place, in percent.
const OWN_PERCENT: u32 = 75;

/// A log on own blocks and on lent ones, in turns.
#[derive(Debug)]
pub(super) struct HarvestLog {
    own: Log,
    /// Full lent blocks, oldest first.
    lent: VecDeque<LogicalBlock>,
    open: Option<(LogicalBlock, u64)>,
    /// Whether the next append goes to a lent block, if there is one.
    lent_next: bool,
    /// Reads whose block was gone.
    misses: u64,
}

impl HarvestLog {
    pub(super) fn new(timed: &mut TimedVssds<MemoryImages>, vssd: VssdId) -> Result<Self, Error> {
        let own = Log::partly_filled(timed, vssd, (OWN_PERCENT, OWN_PERCENT))?;
        Ok(Self { own, lent: VecDeque::new(), open: None, lent_next: true, misses: 0 })
    }

    pub(super) fn misses(&self) -> u64 {
        self.misses
    }

    /// Reads the `nth` piece of `pages` pages, in turns over all full blocks. A block that is gone is a miss: the piece
    /// is read from an own block.
    pub(super) fn read(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
        (nth, pages): (u64, u64),
        token: u64,
    ) -> Result<(), Error> {
        let in_block = self.own.block_pages() / pages;
        let (own, all) = (self.own.full().len(), self.own.full().len() + self.lent.len());
        let at = usize::try_from(nth / in_block % all as u64).unwrap_or(0);
        let page = nth % in_block * pages;
        if let Some(&block) = at.checked_sub(own).and_then(|at| self.lent.get(at)) {
            match timed.read(now, self.own.vssd, block, page, pages, token) {
                Err(error) if error.kind() == ErrorKind::NotOwned => {
                    self.misses += 1;
                    self.lent.retain(|&lent| lent != block);
                }
                read => return read.map_err(failed),
            }
        }
        let (block, page) = self.own.nth(nth, pages);
        timed.read(now, self.own.vssd, block, page, pages, token).map_err(failed)
    }

    /// Appends `pages` pages. `pages` must divide the pages of a block.
    pub(super) fn append(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
        pages: u32,
        token: u64,
    ) -> Result<(), Error> {
        let turn = self.lent_next;
        self.lent_next = !turn;
        if turn && self.append_lent(timed, now, pages, token)? {
            return Ok(());
        }
        self.own.append(timed, now, pages, token)
    }

    /// Appends to a lent block; `false` if there is none that takes anything now.
    fn append_lent(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
        pages: u32,
        token: u64,
    ) -> Result<bool, Error> {
        let open = match self.open.take() {
            Some(open) => Some(open),
            None => self.fresh(timed, now)?.map(|block| (block, 0)),
        };
        let Some((block, at)) = open else { return Ok(false) };
        match timed.append(now, self.own.vssd, block, at, Pages::Count(pages), token) {
            Ok(()) => {}
            // Its lender works: the rest of the block is for later.
            Err(error) if error.kind() == ErrorKind::InUse => {
                self.open = Some((block, at));
                return Ok(false);
            }
            // It was called back.
            Err(error) if error.kind() == ErrorKind::NotOwned => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        let at = at + u64::from(pages);
        if at < self.own.block_pages() {
            self.open = Some((block, at));
        } else {
            self.lent.push_back(block);
        }
        Ok(true)
    }

    /// A lent block. If all that can be lent is full and still idle, the oldest one goes back for a later one.
    fn fresh(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
    ) -> Result<Option<LogicalBlock>, Error> {
        let lent = timed.alloc_lent(now, self.own.vssd, 0).map_err(failed)?;
        if lent.is_none()
            && let Some(&oldest) = self.lent.front()
            && timed.may_append(now, oldest)
        {
            self.lent.pop_front();
            match timed.free(now, self.own.vssd, oldest) {
                Err(error) if error.kind() != ErrorKind::NotOwned => return Err(failed(error)),
                _ => {}
            }
        }
        Ok(lent)
    }
}
