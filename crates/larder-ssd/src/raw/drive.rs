//! The drive: what it keeps, what it hands out, and what it says of itself.

use std::collections::BTreeMap;

use super::changes::BlockChange;
use super::config::RawConfig;
use super::die::{DieCounters, DieState, DieView};
use super::free::{FreeBlocks, Wanted};
use crate::error::{Error, ErrorKind};
use crate::nand::{
    BlockIndex, ChannelIndex, DieIndex, Endurance, Health, Medium, NandGeometry, PageIndex,
    PhysicalOp, ProgramFailures, Tag,
};

/// An open-channel drive. It takes no time at all.
///
/// Invariants: a block is free or allocated or failed, never two of them; a free block is erased; of
/// a die that is not read-only, hosts find free what its capacity has beyond what they allocated.
#[derive(Debug)]
pub struct RawSsd {
    pub(super) geometry: NandGeometry,
    pub(super) medium: Medium,
    pub(super) program_failures: ProgramFailures,
    pub(super) free: FreeBlocks,
    pub(super) dies: Vec<DieState>,
    /// On all dies; what their counters add up to.
    pub(super) programmed_pages: u64,
    /// Blocks of each die that take the place of those that fail.
    pub(super) spare: u32,
    pub(super) level_threshold: u32,
    /// Erases that a block is rated for.
    rated_erases: Option<u32>,
    /// By block: whether it is in the hands of the host.
    pub(super) allocated: Vec<bool>,
    /// Of allocated blocks without a page: the tag that the first program writes.
    pub(super) tags: BTreeMap<BlockIndex, Tag>,
    /// What was done to the media, if somebody asks.
    ops: Option<Vec<PhysicalOp>>,
    /// What became of blocks, if somebody asks.
    pub(super) changes: Option<Vec<BlockChange>>,
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

    /// What the drive is made of.
    pub fn geometry(&self) -> &NandGeometry {
        &self.geometry
    }

    /// Blocks of `die` that can be allocated, without its spare; 0 if there is no such die or it is
    /// read-only.
    pub fn free_blocks(&self, die: DieIndex) -> usize {
        self.die(die).map_or(0, |view| view.free_blocks as usize)
    }

    /// Blocks that a die serves with while its spare lasts.
    pub fn capacity_blocks(&self) -> u32 {
        self.geometry.blocks_per_die - self.spare
    }

    /// What `die` is; `None` if the drive has no such die.
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

    /// What was done to all dies of `channel`, which must be one of the drive's.
    pub fn channel_counters(&self, channel: ChannelIndex) -> DieCounters {
        let dies = self.geometry.array.dies_of(channel);
        dies.fold(DieCounters::default(), |sum, die| sum.plus(self.dies[die.at()].counters))
    }

    /// Good blocks of `die` that are not allocated, the spare among them: where blocks can be moved
    /// to. 0 if the drive has no such die or it is read-only.
    pub fn room_to_move(&self, die: DieIndex) -> usize {
        let takes = self.die(die).is_some_and(|view| !view.read_only);
        if takes { self.free.count(die) } else { 0 }
    }

    /// Whether a word is kept beside each page ([`RawConfig::page_words`]).
    pub fn keeps_words(&self) -> bool {
        self.medium.out_of_band_bytes() > 0
    }

    /// Erases that each block is rated for; `None` if the endurance does not say.
    pub fn rated_erases(&self) -> Option<u32> {
        self.rated_erases
    }

    /// Pages that were programmed since the drive was made, by hosts and by moves.
    #[inline]
    pub fn programmed_pages(&self) -> u64 {
        self.programmed_pages
    }

    /// The word beside page `page` of `block`; `None` if there is no such page, nothing was
    /// programmed there, or the drive keeps no words.
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

    pub(super) fn record(&mut self, op: PhysicalOp) {
        if let Some(recorded) = &mut self.ops {
            recorded.push(op);
        }
    }

    /// Gives the host the least worn free block of `die`. `tag` goes to flash with its first
    /// program; until then a power loss frees the block.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`] for a die that the drive does not have, [`ErrorKind::NoSpace`] if
    /// all blocks of its capacity are allocated, [`ErrorKind::ReadOnly`] if more of its blocks failed
    /// than its spare replaces, [`ErrorKind::PowerLoss`].
    pub fn allocate(&mut self, die: DieIndex, tag: Tag) -> Result<BlockIndex, Error> {
        self.check_takes_blocks(die)?;
        if self.free_blocks(die) == 0 {
            return Err(self.no_space(die));
        }
        let block = self.take(die, Wanted::LeastWorn)?;
        self.tags.insert(block, tag);
        Ok(block)
    }

    /// Erases of the block that [`Self::allocate`] would give next; `None` if there is none.
    pub fn least_erases(&self, die: DieIndex) -> Option<u32> {
        (self.free_blocks(die) > 0).then(|| self.free.least_worn(die)).flatten()
    }

    /// Refuses unless there is power and `die` is one that takes blocks.
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

    /// Takes a free block of `die`, of its spare too.
    pub(super) fn take(&mut self, die: DieIndex, wanted: Wanted) -> Result<BlockIndex, Error> {
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

    /// What `block` is; `None` if the drive has no such block.
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
