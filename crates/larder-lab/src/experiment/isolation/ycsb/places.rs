//! Where the bytes of recorded blocks lie on a vSSD.

use std::collections::{HashMap, HashSet};

use larder_blocks::BlockId;
use larder_ssd::timed::DriveTiming;
use larder_vssd::timed::TimedVssds;
use larder_vssd::{LogicalBlock, MemoryImages, VssdId};

use super::super::failed;
use crate::Error;

const PAGE_BYTES: u64 = 4096;

/// A part of a request: pages of one block of the vSSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) block: LogicalBlock,
    pub(super) page: u64,
    pub(super) pages: u64,
}

/// The places of the blocks of one store on its vSSD. LevelDB appends and reads flash pages; a die programs a stripe at
/// once, so the end of an append is padded to one.
#[derive(Debug)]
pub(super) struct Places {
    vssd: VssdId,
    block_pages: u64,
    stripe_pages: u64,
    blocks: HashMap<BlockId, Placed>,
    /// Freed blocks. What a late writer appends to one is lost, as with a deleted file.
    gone: HashSet<BlockId>,
}

#[derive(Debug, Default)]
struct Placed {
    /// Blocks of the vSSD; only the last one has room.
    own: Vec<LogicalBlock>,
    /// Page of the last block where the next append begins.
    next: u64,
    /// Pages of the recorded block that are on the vSSD, and where they lie.
    runs: Vec<(u64, Part)>,
}

impl Places {
    pub(super) fn new(
        timed: &TimedVssds<MemoryImages>,
        timing: &DriveTiming,
        vssd: VssdId,
    ) -> Result<Self, Error> {
        let block_pages = timed.array().info(vssd).map_err(failed)?.block_pages;
        let stripe_pages = timing.stripe_pages().into();
        Ok(Self { vssd, block_pages, stripe_pages, blocks: HashMap::new(), gone: HashSet::new() })
    }

    pub(super) fn vssd(&self) -> VssdId {
        self.vssd
    }

    /// Gives `bytes` at `at` of `block` a place, and returns what is to be appended: whole stripes.
    pub(super) fn append(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        (block, at, bytes): (BlockId, u64, u64),
    ) -> Result<Vec<Part>, Error> {
        if self.gone.contains(&block) {
            return Ok(Vec::new());
        }
        let (mut from, mut left) = (at / PAGE_BYTES, bytes.div_ceil(PAGE_BYTES));
        let (block_pages, stripe) = (self.block_pages, self.stripe_pages);
        let placed = self.blocks.entry(block).or_default();
        let mut parts = Vec::new();
        while left > 0 {
            if placed.own.is_empty() || placed.next == block_pages {
                placed.own.push(timed.array_mut().alloc_block(self.vssd, 0).map_err(failed)?);
                placed.next = 0;
            }
            let block = *placed.own.last().expect("one was just added");
            let pages = left.min(block_pages - placed.next);
            let padded = pages.next_multiple_of(stripe);
            placed.runs.push((from, Part { block, page: placed.next, pages }));
            parts.push(Part { block, page: placed.next, pages: padded });
            placed.next += padded;
            (from, left) = (from + pages, left - pages);
        }
        Ok(parts)
    }

    /// Where `bytes` at `at` of `block` lie. What is not on the vSSD yet is in memory, and has no place.
    pub(super) fn read(&self, (block, at, bytes): (BlockId, u64, u64)) -> Vec<Part> {
        let (from, end) = (at / PAGE_BYTES, (at + bytes).div_ceil(PAGE_BYTES));
        let runs = self.blocks.get(&block).map_or(&[][..], |placed| &placed.runs);
        let part = |&(first, run): &(u64, Part)| {
            let (begin, end) = (from.max(first), end.min(first + run.pages));
            let page = run.page + begin.saturating_sub(first);
            (begin < end).then(|| Part { page, pages: end - begin, ..run })
        };
        runs.iter().filter_map(part).collect()
    }

    /// Forgets `block`. Returns its blocks on the vSSD, to be freed.
    pub(super) fn free(&mut self, block: BlockId) -> Vec<LogicalBlock> {
        self.gone.insert(block);
        self.blocks.remove(&block).map(|placed| placed.own).unwrap_or_default()
    }
}
