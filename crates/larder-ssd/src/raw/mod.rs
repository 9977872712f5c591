//! The firmware of an open-channel drive: the host sees dies and blocks, and does its own mapping.
//!
//! The host allocates a block on a die, with a [`Tag`](crate::nand::Tag) of out-of-band bytes that identifies its data
//! ([`BlockTag`] is the format that FlashBlox publishes). It programs the pages of the block in order, a stripe at a
//! time, reads programmed pages, and erases the block when none of its data is needed any more. The drive tracks what
//! the host cannot: which block of a die is least worn, which blocks failed, and, after a power loss, the state of the
//! media.
//!
//! ```text
//!            allocate          program, in order          last stripe
//!   free ──────────────► open ───────────────────► open ──────────────► full
//!     ▲                    │                         │                    │
//!     └────────────────────┴───────── erase ─────────┴────────────────────┘
//! ```
//!
//! Each die keeps a spare (1 %, at least a block) for failed blocks. When more have failed, the die accepts no more
//! blocks ([`DieView::read_only`]). Blocks that hosts move ([`RawSsd::copy_to`], [`RawSsd::level_step`]) may
//! temporarily use the spare.
//!
//! After a power loss, every acknowledged program and erase is present. The block of an interrupted operation is torn:
//! it keeps the pages programmed before (none after an erase), accepts no more, and must be erased. A tag is on flash
//! from the first program of its block on; a block that was allocated but not programmed is free again.
//!
//! The drive stores no payload, and operations take no time: if recording is on, [`RawSsd::take_ops`] returns what it
//! did, for [`Media`](crate::timed::Media) to charge. An optional word per page records what the host put there.
//!
//! | file | content |
//! |---|---|
//! | `config` | configuration of the drive and of its failures |
//! | `allocation`, `free` | which blocks the host has; the free ones of each die, least worn first |
//! | `commands` | host commands on blocks: program, read, erase |
//! | `die` | failed blocks and counters of each die |
//! | `moves` | copies to other dies, levelling within one |
//! | `block_tag` | the published out-of-band bytes of a block |
//! | `power` | power loss, and the scan afterwards |
//! | `changes`, `image`, `restore` | records for callers, the state of a block, and a drive made from such states |
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

mod allocation;
mod block_tag;
mod changes;
mod commands;
mod config;
mod die;
mod free;
mod image;
mod moves;
mod power;
mod restore;

pub use block_tag::BlockTag;
pub use config::RawConfig;
pub use die::{DieCounters, DieView};
pub use image::{BlockChange, BlockImage};
pub use moves::Levelled;
pub use power::FoundBlock;

use std::ops::Range;

use crate::error::{Error, ErrorKind};
use crate::nand::{
    BlockIndex, ChannelIndex, DieIndex, Endurance, Health, Medium, NandGeometry, PageIndex,
    PhysicalOp, ProgramFailures, Tag,
};
use allocation::Allocation;
use changes::MediaRecord;
use die::DieState;
use free::BlockChoice;

/// An open-channel drive. It has no clock: operations take no time.
///
/// Invariants: a block is either free or allocated or failed; a free block is erased; on a die that is not read-only,
/// the host can allocate its capacity minus what it has allocated.
#[derive(Debug)]
pub struct RawSsd {
    geometry: NandGeometry,
    medium: Medium,
    program_failures: ProgramFailures,
    allocation: Allocation,
    dies: Vec<DieState>,
    /// On all dies: the sum of their counters.
    programmed_pages: u64,
    /// Spare blocks of each die.
    spare: u32,
    level_threshold: u32,
    /// Rated erases of a block.
    rated_erases: Option<u32>,
    record: MediaRecord,
}

/// A read-only view of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockView {
    /// The die that it is on.
    pub die: DieIndex,
    /// Health of the block.
    pub health: Health,
    /// Whether the host has allocated it.
    pub allocated: bool,
    /// Readable pages; the next program starts here.
    pub written_pages: u32,
    /// Erases of the block.
    pub erases: u32,
}

impl RawSsd {
    /// A new drive: all blocks are erased, except those that are bad from the factory.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if no such drive could work.
    pub fn new(config: RawConfig) -> Result<Self, Error> {
        config.check()?;
        let geometry = config.geometry;
        let mut medium = config.medium();
        let mut dies = vec![DieState::default(); geometry.array.dies() as usize];
        for &block in &config.bad_blocks {
            medium.mark_bad(block);
            dies[geometry.die_of(block).at()].failed += 1;
        }
        Ok(Self {
            dies,
            programmed_pages: 0,
            spare: config.spare_blocks(),
            level_threshold: config.level_threshold,
            rated_erases: match config.endurance {
                Endurance::Rated { rated, .. } => Some(rated),
                Endurance::Unlimited | Endurance::Planned(_) => None,
            },
            allocation: Allocation::new(&geometry, |block| {
                let entry = medium.block(block);
                (entry.health == Health::Good).then_some(entry.erases)
            }),
            program_failures: ProgramFailures::new(&config.program_failures),
            record: MediaRecord::default(),
            geometry,
            medium,
        })
    }

    /// The geometry of the drive.
    pub fn geometry(&self) -> &NandGeometry {
        &self.geometry
    }

    /// Blocks of `die` that can be allocated, without its spare; 0 if there is no such die or it is
    /// read-only.
    pub fn free_blocks(&self, die: DieIndex) -> usize {
        self.die(die).map_or(0, |view| view.free_blocks as usize)
    }

    /// Usable blocks of a die while its spare lasts.
    pub fn capacity_blocks(&self) -> u32 {
        self.geometry.blocks_per_die - self.spare
    }

    /// The state of `die`; `None` if the drive has no such die.
    #[allow(clippy::cast_possible_truncation)] // blocks are numbered in 32 bits
    pub fn die(&self, die: DieIndex) -> Option<DieView> {
        let state = self.dies.get(die.at())?;
        let (spare_blocks, read_only) = (state.spare_left(self.spare), state.read_only(self.spare));
        let free = self.allocation.free().count(die) as u32;
        Some(DieView {
            capacity_blocks: self.capacity_blocks(),
            free_blocks: if read_only { 0 } else { free.saturating_sub(spare_blocks) },
            spare_blocks,
            failed_blocks: state.failed,
            read_only,
            counters: state.counters,
        })
    }

    /// Counters of all dies of `channel`, which must exist.
    pub fn channel_counters(&self, channel: ChannelIndex) -> DieCounters {
        let dies = self.geometry.array.dies_of(channel);
        dies.fold(DieCounters::default(), |sum, die| sum.plus(self.dies[die.at()].counters))
    }

    /// Good blocks of `die` that are not allocated, including the spare: blocks can be moved there. 0 if the drive has
    /// no such die or it is read-only.
    pub fn room_to_move(&self, die: DieIndex) -> usize {
        let takes = self.die(die).is_some_and(|view| !view.read_only);
        if takes { self.allocation.free().count(die) } else { 0 }
    }

    /// Whether a word is kept for each page ([`RawConfig::page_words`]).
    pub fn keeps_words(&self) -> bool {
        self.medium.out_of_band_bytes() > 0
    }

    /// Rated erases of each block; `None` if the endurance does not say.
    pub fn rated_erases(&self) -> Option<u32> {
        self.rated_erases
    }

    /// Pages programmed since the drive was created, by hosts and by moves.
    #[inline]
    pub fn programmed_pages(&self) -> u64 {
        self.programmed_pages
    }

    /// The word of page `page` of `block`; `None` if there is no such page, it is not programmed, or the drive keeps no
    /// words.
    pub fn word(&self, block: BlockIndex, page: u32) -> Option<u64> {
        let written = self.block(block)?.written_pages;
        (page < written).then(|| self.medium.word(self.page_of(block, page))).flatten()
    }

    /// The number of page `page` of `block` on the medium.
    fn page_of(&self, block: BlockIndex, page: u32) -> PageIndex {
        PageIndex(block.0 * self.geometry.block_pages() + page)
    }

    /// All blocks, die after die.
    pub fn blocks(&self) -> impl Iterator<Item = BlockView> + '_ {
        (0..self.geometry.blocks()).map(|block| self.view(BlockIndex(block)))
    }

    /// Starts or stops recording the operations on the media.
    pub fn record_ops(&mut self, record: bool) {
        self.record.keep_ops(record);
    }

    /// Appends the operations recorded since the last call to `ops`, in order. An operation interrupted by a power loss
    /// is not included.
    pub fn take_ops(&mut self, ops: &mut Vec<PhysicalOp>) {
        self.record.take_ops(ops);
    }

    /// Starts or stops recording state changes of blocks. A caller that writes the changes down in order has at any
    /// time the state that a power loss at that time would have left.
    pub fn record_changes(&mut self, record: bool) {
        self.record.keep_changes(record);
    }

    /// Takes the changes recorded since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<BlockChange> {
        self.record.take_changes()
    }

    /// The state of `block`; `None` if the drive has no such block.
    pub fn block_image(&self, block: BlockIndex) -> Option<BlockImage> {
        (block.0 < self.geometry.blocks()).then(|| self.image(block))
    }

    fn image(&self, block: BlockIndex) -> BlockImage {
        let entry = self.medium.block(block);
        let counters = self.dies[self.geometry.die_of(block).at()].counters;
        BlockImage {
            erases: entry.erases,
            written_pages: entry.written,
            health: entry.health,
            tag: self.medium.tag(block),
            die_appended_pages: counters.appended_pages,
            die_migrated_pages: counters.migrated_pages,
        }
    }

    /// Records a change of `block`: the pages `programmed` were programmed; empty if none.
    fn note(&mut self, block: BlockIndex, programmed: Range<u32>) {
        if !self.record.keeps_changes() {
            return;
        }
        let word = |page| self.medium.word(self.page_of(block, page)).unwrap_or(0);
        let change =
            BlockChange { block, image: self.image(block), words: programmed.map(word).collect() };
        self.record.change(change);
    }

    /// Allocates the least worn free block of `die`. `tag` is written to flash with its first program; until then a
    /// power loss frees the block.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a die that the drive does not have, [`ErrorKind::NoSpace`] if all blocks of its
    /// capacity are allocated, [`ErrorKind::ReadOnly`] if more of its blocks failed than its spare can replace,
    /// [`ErrorKind::PowerLoss`].
    pub fn allocate(&mut self, die: DieIndex, tag: Tag) -> Result<BlockIndex, Error> {
        self.check_takes_blocks(die)?;
        if self.free_blocks(die) == 0 {
            return Err(self.no_space(die));
        }
        let block = self.take(die, BlockChoice::LeastWorn)?;
        self.allocation.set_tag(block, tag);
        Ok(block)
    }

    /// Allocates like [`Self::allocate`], but also from the spare: for a die that gives as many blocks back later, as
    /// while dies exchange their data. `tag` builds the tag from the erases of the block.
    ///
    /// # Errors
    /// As [`Self::allocate`]; [`ErrorKind::NoSpace`] only if the spare is used up, too.
    pub fn allocate_beyond(
        &mut self,
        die: DieIndex,
        tag: impl FnOnce(u32) -> Tag,
    ) -> Result<BlockIndex, Error> {
        self.check_takes_blocks(die)?;
        let block = self.take(die, BlockChoice::LeastWorn)?;
        self.allocation.set_tag(block, tag(self.medium.block(block).erases));
        Ok(block)
    }

    /// Erases of the block that [`Self::allocate`] would return next; `None` if there is none.
    pub fn least_erases(&self, die: DieIndex) -> Option<u32> {
        (self.free_blocks(die) > 0).then(|| self.allocation.free().least_worn(die)).flatten()
    }

    /// Refuses unless there is power and `die` accepts blocks.
    fn check_takes_blocks(&self, die: DieIndex) -> Result<(), Error> {
        self.check_power()?;
        let Some(state) = self.dies.get(die.at()) else {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                format!("die {}: the drive has {}", die.0, self.dies.len()),
            ));
        };
        state.check_takes_blocks(die, self.spare)
    }

    /// Takes a free block of `die`, also from its spare.
    fn take(&mut self, die: DieIndex, wanted: BlockChoice) -> Result<BlockIndex, Error> {
        let block = self.allocation.take(die, wanted).ok_or_else(|| self.no_space(die))?;
        debug_assert_eq!(self.medium.block(block).written, 0, "free blocks are erased");
        Ok(block)
    }

    #[cold]
    fn no_space(&self, die: DieIndex) -> Error {
        let message = format!(
            "die {} has no free block: erase one of its {}, or allocate on another die",
            die.0,
            self.capacity_blocks()
        );
        Error::new(ErrorKind::NoSpace, message)
    }

    /// The state of `block`; `None` if the drive has no such block.
    pub fn block(&self, block: BlockIndex) -> Option<BlockView> {
        (block.0 < self.geometry.blocks()).then(|| self.view(block))
    }

    fn view(&self, block: BlockIndex) -> BlockView {
        let entry = self.medium.block(block);
        BlockView {
            die: self.geometry.die_of(block),
            health: entry.health,
            allocated: self.allocation.has(block),
            written_pages: entry.readable(),
            erases: entry.erases,
        }
    }
}
