//! The firmware of an open-channel drive: the host sees dies and blocks, and maps by itself.
//!
//! The host allocates a block on a die, with a [`Tag`] of out-of-band bytes that say what it is for;
//! programs its pages in order, a stripe at a time; reads what is programmed; erases it when nothing
//! of it is needed any more. The drive keeps what the host cannot: which block of a die is worn
//! least, which ones failed, and, over a power loss, what the media tell.
//!
//! ```text
//!            allocate          program, in order          last stripe
//!   free ──────────────► open ───────────────────► open ──────────────► full
//!     ▲                    │                         │                    │
//!     └────────────────────┴───────── erase ─────────┴────────────────────┘
//! ```
//!
//! What a power loss leaves: every program and erase that was answered. Of the operation that it
//! interrupts, the block is torn: its pages of before are there, it takes no more, and it must be
//! erased. A tag is on flash from the first program of its block on; a block that was allocated and
//! not programmed is free again.
//!
//! The drive holds no payload, and takes no time: [`RawSsd::take_ops`] says what it did, if
//! that is recorded, for [`Media`](crate::timed::Media) to book.
//!
//! ```
//! use larder_ssd::nand::DieIndex;
//! use larder_ssd::raw::{RawConfig, RawSsd};
//! use larder_ssd::timed::small;
//!
//! # fn main() -> Result<(), larder_ssd::Error> {
//! let mut ssd = RawSsd::new(RawConfig::new(small().geometry(16)?))?;
//! let block = ssd.allocate(DieIndex(3), *b"segment 17      ")?;
//! ssd.program(block, 0, ssd.geometry().stripe_pages())?;
//! ssd.power_loss();
//! let found = ssd.power_on();
//! assert_eq!(found[0].tag, Some(*b"segment 17      "));
//! # Ok(())
//! # }
//! ```

mod config;
mod free;
mod power;

pub use config::RawConfig;
pub use power::FoundBlock;

use crate::error::{Error, ErrorKind};
use crate::nand::{
    BlockIndex, DieIndex, Health, Medium, NandGeometry, PhysicalOp, ProgramFailures, Tag,
};
use free::FreeBlocks;

/// An open-channel drive. It takes no time at all.
#[derive(Debug)]
pub struct RawSsd {
    geometry: NandGeometry,
    medium: Medium,
    program_failures: ProgramFailures,
    free: FreeBlocks,
    /// By block: the tag that it was allocated with, while it is.
    allocated: Vec<Option<Allocation>>,
    /// What was done to the media, if somebody asks.
    ops: Option<Vec<PhysicalOp>>,
}

/// A block in the hands of the host.
#[derive(Debug, Clone, Copy)]
struct Allocation {
    /// What its first program writes beside it; `None` if that is on flash, or lost with the erase
    /// that the power interrupted.
    tag: Option<Tag>,
}

/// One block, for those who look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockView {
    /// The die that it is on.
    pub die: DieIndex,
    /// What it is good for.
    pub health: Health,
    /// Whether it is in the hands of the host.
    pub allocated: bool,
    /// Pages that can be read; the next program goes here.
    pub written_pages: u32,
    /// Times that it was erased.
    pub erases: u32,
}

impl RawSsd {
    /// A fresh drive: everything erased but what is bad from the factory.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if no such drive could work.
    pub fn new(config: RawConfig) -> Result<Self, Error> {
        config.check()?;
        let geometry = config.geometry;
        let mut medium = config.medium();
        config.bad_blocks.iter().for_each(|&block| medium.mark_bad(block));
        Ok(Self {
            free: FreeBlocks::find(&geometry, |block| {
                let entry = medium.block(block);
                (entry.health == Health::Good).then_some(entry.erases)
            }),
            program_failures: ProgramFailures::new(&config.program_failures),
            allocated: vec![None; geometry.blocks() as usize],
            ops: None,
            geometry,
            medium,
        })
    }

    /// What the drive is made of.
    pub fn geometry(&self) -> &NandGeometry {
        &self.geometry
    }

    /// Blocks of `die` that can be allocated; 0 if there is no such die.
    pub fn free_blocks(&self, die: DieIndex) -> usize {
        if die.0 < self.geometry.array.dies() { self.free.count(die) } else { 0 }
    }

    /// All blocks, die after die.
    pub fn blocks(&self) -> impl Iterator<Item = BlockView> + '_ {
        (0..self.geometry.blocks()).map(|block| self.view(BlockIndex(block)))
    }

    /// Starts or stops recording what is done to the media.
    pub fn record_ops(&mut self, record: bool) {
        self.ops = record.then(Vec::new);
    }

    /// Moves what was recorded since the last call to `ops`, in order. What a power loss interrupts
    /// is not in it.
    pub fn take_ops(&mut self, ops: &mut Vec<PhysicalOp>) {
        if let Some(recorded) = &mut self.ops {
            ops.append(recorded);
        }
    }

    fn record(&mut self, op: PhysicalOp) {
        if let Some(recorded) = &mut self.ops {
            recorded.push(op);
        }
    }

    /// Gives the host the least worn free block of `die`. `tag` goes to flash with its first
    /// program; until then a power loss frees the block.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a die that the drive does not have, [`ErrorKind::NoSpace`] if
    /// all good blocks of the die are allocated, [`ErrorKind::PowerLoss`].
    pub fn allocate(&mut self, die: DieIndex, tag: Tag) -> Result<BlockIndex, Error> {
        self.check_power()?;
        if die.0 >= self.geometry.array.dies() {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                format!("die {}: the drive has {}", die.0, self.geometry.array.dies()),
            ));
        }
        let block = self.free.take(die).ok_or_else(|| {
            let message = format!(
                "die {} has no free block: erase one of its {}, or allocate on another die",
                die.0, self.geometry.blocks_per_die
            );
            Error::new(ErrorKind::NoSpace, message)
        })?;
        let slot = &mut self.allocated[block.at()];
        assert!(slot.is_none(), "{block:?} was free and allocated");
        *slot = Some(Allocation { tag: Some(tag) });
        debug_assert_eq!(self.medium.block(block).written, 0, "free blocks are erased");
        Ok(block)
    }

    /// Programs `pages` pages of `block` from its page `at` on; both must be multiples of a stripe
    /// ([`NandGeometry::stripe_pages`]).
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for pages that the block does not have or parts of a stripe;
    /// [`ErrorKind::NotWritten`] for a block that is not allocated; [`ErrorKind::NotErased`] for
    /// pages that were programmed before, or a torn block; [`ErrorKind::OutOfOrder`] for pages
    /// beyond the next; [`ErrorKind::BadBlock`] for a block that failed. Nothing was programmed.
    /// [`ErrorKind::BadBlock`] and [`ErrorKind::PowerLoss`] may also come half-way: the first
    /// stripes are programmed then ([`Self::block`] says how many pages), the block takes no more.
    pub fn program(&mut self, block: BlockIndex, at: u32, pages: u32) -> Result<(), Error> {
        self.check_program(block, at, pages)?;
        let stripe = self.geometry.stripe_pages();
        let die = self.geometry.die_of(block);
        for at in (at..at + pages).step_by(stripe as usize) {
            if self.medium.power().admit(1) == 0 {
                self.medium.tear_program(block);
                return Err(self.power_failed());
            }
            let bytes = u64::from(stripe) * u64::from(self.geometry.mapping_bytes);
            self.record(PhysicalOp::Program { die, bytes, urgent: false });
            if self.program_failures.strikes(block, at, stripe) {
                self.medium.fail_program(block);
                return Err(self.failed(block, "its program failed"));
            }
            let slot = self.allocated[block.at()].as_mut();
            if let Some(tag) = slot.and_then(|allocation| allocation.tag.take()) {
                self.medium.write_tag(block, tag);
            }
            let written = self.medium.program(block, stripe);
            assert_eq!(written, at + stripe, "pages are programmed in order");
        }
        Ok(())
    }

    /// Reads `pages` pages of `block` from its page `at` on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for pages that the block does not have; [`ErrorKind::NotWritten`]
    /// for pages that are not programmed; [`ErrorKind::BadBlock`] for a block that holds nothing any
    /// more; [`ErrorKind::PowerLoss`].
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
        let row = self.geometry.row_pages();
        let mut next = at;
        while next < end {
            // A row is sensed once, whatever is read of it.
            let until = (next / row + 1).saturating_mul(row).min(end);
            let bytes = u64::from(until - next) * u64::from(self.geometry.mapping_bytes);
            self.record(PhysicalOp::HostRead { die, bytes });
            next = until;
        }
        Ok(())
    }

    /// Erases `block` and frees it. One that nothing was programmed to is freed without wear.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a block that the drive does not have; [`ErrorKind::NotWritten`]
    /// for one that is not allocated; [`ErrorKind::BadBlock`] if it failed before, or fails now: it
    /// holds nothing any more then, and is not freed; [`ErrorKind::PowerLoss`].
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
                return Err(self.power_failed());
            }
            let die = self.geometry.die_of(block);
            self.record(PhysicalOp::Erase { die, blocks: 1, between_programs: false });
            if self.medium.erase(block).is_err() {
                self.allocated[block.at()] = None;
                return Err(self.failed(block, "its erase failed"));
            }
        }
        self.allocated[block.at()] = None;
        let erased = self.medium.block(block);
        assert!(erased.written == 0 && erased.health == Health::Good, "free blocks are erased");
        self.free.give(self.geometry.die_of(block), block, erased.erases);
        Ok(())
    }

    /// What `block` is; `None` if the drive has no such block.
    pub fn block(&self, block: BlockIndex) -> Option<BlockView> {
        (block.0 < self.geometry.blocks()).then(|| self.view(block))
    }

    fn view(&self, block: BlockIndex) -> BlockView {
        let entry = self.medium.block(block);
        BlockView {
            die: self.geometry.die_of(block),
            health: entry.health,
            allocated: self.allocated[block.at()].is_some(),
            written_pages: entry.readable(),
            erases: entry.erases,
        }
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
    fn check_range(&self, block: BlockIndex, at: u32, pages: u32) -> Result<u32, Error> {
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

    fn check_allocated(&self, block: BlockIndex) -> Result<(), Error> {
        if self.allocated[block.at()].is_none() {
            let message = format!("block {} is not allocated", block.0);
            return Err(Error::new(ErrorKind::NotWritten, message));
        }
        Ok(())
    }

    #[cold]
    fn failed(&self, block: BlockIndex, how: &str) -> Error {
        let message = format!(
            "block {} on die {}: {how}; use another block",
            block.0,
            self.geometry.die_of(block).0
        );
        Error::new(ErrorKind::BadBlock, message)
    }
}
