//! The drive: its state, allocation, and views of it.

use std::collections::BTreeMap;

use super::config::RawConfig;
use super::die::{DieCounters, DieState, DieView};
use super::free::{BlockChoice, FreeBlocks};
use super::image::BlockChange;
use crate::error::{Error, ErrorKind};
use crate::nand::{
    BlockIndex, ChannelIndex, DieIndex, Endurance, Health, Medium, NandGeometry, PageIndex,
    PhysicalOp, ProgramFailures, Tag,
};

/// An open-channel drive. It has no clock: operations take no time.
///
/// Invariants: a block is either free or allocated or failed; a free block is erased; on a die that is not read-only,
/// the host can allocate its capacity minus what it has allocated.
#[derive(Debug)]
pub struct RawSsd {
    pub(super) geometry: NandGeometry,
    pub(super) medium: Medium,
    pub(super) program_failures: ProgramFailures,
    pub(super) free: FreeBlocks,
    pub(super) dies: Vec<DieState>,
    /// On all dies: the sum of their counters.
    pub(super) programmed_pages: u64,
    /// Spare blocks of each die.
    pub(super) spare: u32,
    pub(super) level_threshold: u32,
    /// Rated erases of a block.
    rated_erases: Option<u32>,
    /// By block: whether the host has allocated it.
    pub(super) allocated: Vec<bool>,
    /// For allocated blocks without a programmed page: the tag that the first program writes.
    pub(super) tags: BTreeMap<BlockIndex, Tag>,
    /// Operations on the media, while they are recorded.
    ops: Option<Vec<PhysicalOp>>,
    /// State changes of blocks, while they are recorded.
    pub(super) changes: Option<Vec<BlockChange>>,
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
            free: FreeBlocks::find(&geometry, |block| {
                let entry = medium.block(block);
                (entry.health == Health::Good).then_some(entry.erases)
            }),
            program_failures: ProgramFailures::new(&config.program_failures),
            allocated: vec![false; geometry.blocks() as usize],
            tags: BTreeMap::new(),
            ops: None,
            changes: None,
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
        let free = self.free.count(die) as u32;
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
        if takes { self.free.count(die) } else { 0 }
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
    pub(super) fn page_of(&self, block: BlockIndex, page: u32) -> PageIndex {
        PageIndex(block.0 * self.geometry.block_pages() + page)
    }

    /// All blocks, die after die.
    pub fn blocks(&self) -> impl Iterator<Item = BlockView> + '_ {
        (0..self.geometry.blocks()).map(|block| self.view(BlockIndex(block)))
    }

    /// Starts or stops recording the operations on the media.
    pub fn record_ops(&mut self, record: bool) {
        self.ops = record.then(Vec::new);
    }

    /// Appends the operations recorded since the last call to `ops`, in order. An operation interrupted by a power loss
    /// is not included.
    pub fn take_ops(&mut self, ops: &mut Vec<PhysicalOp>) {
        if let Some(recorded) = &mut self.ops {
            ops.append(recorded);
        }
    }

    pub(super) fn record(&mut self, op: PhysicalOp) {
        if let Some(recorded) = &mut self.ops {
            recorded.push(op);
        }
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
        self.tags.insert(block, tag);
        Ok(block)
    }

    /// Erases of the block that [`Self::allocate`] would return next; `None` if there is none.
    pub fn least_erases(&self, die: DieIndex) -> Option<u32> {
        (self.free_blocks(die) > 0).then(|| self.free.least_worn(die)).flatten()
    }

    /// Refuses unless there is power and `die` accepts blocks.
    pub(super) fn check_takes_blocks(&self, die: DieIndex) -> Result<(), Error> {
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
    pub(super) fn take(&mut self, die: DieIndex, wanted: BlockChoice) -> Result<BlockIndex, Error> {
        let block = self.free.take(die, wanted).ok_or_else(|| self.no_space(die))?;
        let slot = &mut self.allocated[block.at()];
        assert!(!*slot, "{block:?} was free and allocated");
        *slot = true;
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
            allocated: self.allocated[block.at()],
            written_pages: entry.readable(),
            erases: entry.erases,
        }
    }
}
