//! The state that must survive a power loss and is not on flash: the owner of each unit, the existing blocks, the dies
//! that are being swapped. The catalogue and its journal encode it.

use std::collections::{BTreeMap, BTreeSet};

use larder_ssd::nand::{DieIndex, NandGeometry};
use larder_ssd::raw::BlockTag;

use super::kind::{Isolation, Throughputs, VssdId};
use super::levelling::LevellingState;
use super::record::Change;
use super::table::{BlockTable, Slot};

/// A vSSD has at most this number of times the logical dies that it was made with.
pub(super) const GROUPS_MAX: u32 = 16;
/// Number of soft planes per die.
pub(super) const SOFT_PLANES: u32 = 4;

/// The logical die that the tags of lent blocks name. No vSSD has it: after a loss of power these blocks have no owner,
/// and are erased.
pub(super) const LENT_SEAT: u32 = BlockTag::DIES - 1;

/// A vSSD's place on a die: a *logical die*, which is named in the tags of its blocks. It stays the same when its data
/// moves to another die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seat {
    /// The logical die; numbers are not reused.
    pub(super) id: u32,
    pub(super) drive: u32,
    /// The die of its blocks; during a swap, the die before the swap.
    pub(super) die: DieIndex,
    /// Its quarters of the die: 1 or 4.
    pub(super) planes: u32,
}

/// A virtual SSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Vssd {
    /// What its owner is called; empty if it was not said. At most [`NAME_BYTES_MAX`](super::kind::NAME_BYTES_MAX)
    /// bytes.
    pub(super) name: String,
    pub(super) isolation: Isolation,
    /// The request of its creation.
    pub(super) mb_s: u32,
    pub(super) bytes: u64,
    /// Groups of as many logical dies as a block has parts, one group behind the other. A vSSD begins with one group,
    /// and each growth adds some. All parts of a block are in one group, in the order in which stripes go round them.
    pub(super) seats: Vec<Seat>,
    /// Each group has the same number of slots, one group behind the other.
    pub(super) table: BlockTable,
}

impl Vssd {
    fn groups(&self) -> usize {
        self.seats.len() / self.table.width()
    }

    /// The group of a slot.
    fn group_of(&self, slot: Slot) -> usize {
        let slots = self.table.slots() as usize / self.groups();
        slot.at() / slots
    }

    /// The logical dies of the block in `slot`, in the order of its parts.
    fn seats_of(&self, slot: Slot) -> &[Seat] {
        let width = self.table.width();
        &self.seats[self.group_of(slot) * width..][..width]
    }

    /// Position of the logical die of a part of the block in `slot`, among all of this vSSD.
    pub(super) fn seat_at(&self, slot: Slot, member: usize) -> usize {
        self.group_of(slot) * self.table.width() + member
    }

    /// The part that the block in `slot` has on the logical die at position `at`; `None` if the die is of another
    /// group.
    pub(super) fn member_at(&self, slot: Slot, at: usize) -> Option<usize> {
        let width = self.table.width();
        (at / width == self.group_of(slot)).then_some(at % width)
    }

    /// The blocks that have a part on the logical die at position `at`, and which part; none that are lent.
    pub(super) fn kept_on(&self, at: usize) -> impl Iterator<Item = (Slot, usize)> + '_ {
        self.table.kept_slots().filter_map(move |slot| Some((slot, self.member_at(slot, at)?)))
    }

    /// The place of part `member` of the block in `slot`: a logical die of this vSSD, or a die of its lender.
    pub(super) fn seat(&self, slot: Slot, member: usize) -> Seat {
        match self.table.lent_place(slot, member) {
            Some((drive, die)) => Seat { id: LENT_SEAT, drive, die, planes: SOFT_PLANES },
            None => self.seats_of(slot)[member],
        }
    }
}

/// Dies of a drive that swap their data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapState {
    /// The drive.
    pub drive: u32,
    /// The pairs of dies that swap.
    pub pairs: Vec<(DieIndex, DieIndex)>,
    /// Whether the swap was abandoned: moved data goes back.
    pub back: bool,
}

impl SwapState {
    /// The die on which the data of `die` belongs.
    pub(super) fn destination(&self, die: DieIndex) -> DieIndex {
        if self.back { die } else { self.partner(die).unwrap_or(die) }
    }

    /// The die that `die` swaps with.
    pub fn partner(&self, die: DieIndex) -> Option<DieIndex> {
        self.pairs.iter().find_map(|&(a, b)| match die {
            _ if die == a => Some(b),
            _ if die == b => Some(a),
            _ => None,
        })
    }
}

/// The common shape of the drives of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) drives: u32,
    /// Geometry of each drive.
    pub(super) geometry: NandGeometry,
    /// Usable blocks of a die: all but its spare.
    pub(super) capacity_blocks: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) shape: Shape,
    pub(super) throughputs: Throughputs,
    pub(super) next_vssd: u32,
    pub(super) next_seat: u32,
    /// Stamps below this may be on flash.
    pub(super) stamps_end: u64,
    pub(super) swap: Option<SwapState>,
    /// By drive and die: its erases at the last swap of dies of that drive.
    pub(super) erases_at_swap: Vec<Vec<u64>>,
    /// By drive.
    pub(super) levelling: Vec<LevellingState>,
    pub(super) vssds: BTreeMap<u32, Vssd>,
}

impl Shape {
    /// Maximum number of blocks of a seat with this number of soft planes.
    pub(super) fn quota(&self, planes: u32) -> u32 {
        debug_assert!(planes == 1 || planes == SOFT_PLANES, "{planes} planes");
        if planes == SOFT_PLANES {
            self.capacity_blocks
        } else {
            self.capacity_blocks / SOFT_PLANES
        }
    }

    /// Soft planes of all drives.
    pub(super) fn planes(&self) -> u32 {
        self.drives.saturating_mul(self.dies()).saturating_mul(SOFT_PLANES)
    }

    /// Dies of each drive.
    pub(super) fn dies(&self) -> u32 {
        self.geometry.array.dies()
    }
}

impl State {
    /// The state of an empty array.
    pub(super) fn new(shape: Shape, throughputs: Throughputs) -> Self {
        Self {
            shape,
            throughputs,
            next_vssd: 0,
            next_seat: 0,
            stamps_end: 0,
            swap: None,
            erases_at_swap: vec![vec![0; shape.dies() as usize]; shape.drives as usize],
            levelling: {
                let channels = shape.geometry.array.channels;
                vec![LevellingState::new(channels, shape.dies()); shape.drives as usize]
            },
            vssds: BTreeMap::new(),
        }
    }

    /// Pages of a logical block of `vssd`.
    pub(super) fn superblock_pages(&self, vssd: &Vssd) -> u64 {
        u64::from(self.shape.geometry.block_pages()) * vssd.table.width() as u64
    }

    pub(super) fn vssd(&self, id: VssdId) -> Option<&Vssd> {
        self.vssds.get(&id.0)
    }

    /// Applies a record of the journal. Returns `false` and does nothing if the record is impossible in this state.
    pub(super) fn apply(&mut self, change: &Change) -> bool {
        match *change {
            Change::Allocated { block, tag } => self
                .vssds
                .get_mut(&block.vssd().0)
                .is_some_and(|vssd| vssd.table.replay_take(block.block(), tag)),
            Change::Freed { block } => self.vssds.get_mut(&block.vssd().0).is_some_and(|vssd| {
                let slot = vssd.table.find(block.block());
                slot.inspect(|&slot| vssd.table.release(slot)).is_some()
            }),
            Change::StampsReserved { end } => {
                let later = end > self.stamps_end && end < BlockTag::STAMPS;
                if later {
                    self.stamps_end = end;
                }
                later
            }
        }
    }

    /// Checks that the state is possible: a decoded catalogue must pass this.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.next_vssd > VssdId::COUNT || self.next_seat > LENT_SEAT {
            return Err("it has given out more numbers than there are".to_owned());
        }
        if self.stamps_end >= BlockTag::STAMPS {
            return Err(format!("stamps up to {}", self.stamps_end));
        }
        let dies = self.shape.dies();
        let mut planes = vec![0; self.shape.drives as usize * dies as usize];
        let mut seats = BTreeSet::new();
        for (&id, vssd) in &self.vssds {
            if id >= self.next_vssd || vssd.seats.is_empty() {
                return Err(format!("vSSD {id} is not one that was given out"));
            }
            for seat in &vssd.seats {
                let there = seat.die.0 < dies && seat.drive < self.shape.drives;
                let whole = matches!(vssd.isolation, Isolation::Channel | Isolation::Die);
                let fits = seat.planes == if whole { SOFT_PLANES } else { 1 };
                if !there || !fits || seat.id >= self.next_seat || !seats.insert(seat.id) {
                    return Err(format!("vSSD {id} has a place that cannot be: {seat:?}"));
                }
                let taken = &mut planes[(seat.drive * dies + seat.die.0) as usize];
                *taken += seat.planes;
                if *taken > SOFT_PLANES {
                    return Err(format!(
                        "die {} of drive {} is taken twice",
                        seat.die.0, seat.drive
                    ));
                }
            }
        }
        self.swap.as_ref().map_or(Ok(()), |swap| self.check_swap(swap))
    }

    pub(super) fn check_swap(&self, swap: &SwapState) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for die in swap.pairs.iter().flat_map(|&(a, b)| [a, b]) {
            if die.0 >= self.shape.dies() {
                let dies = self.shape.dies();
                return Err(format!("die {} to exchange: each drive has {dies}", die.0));
            }
            if !seen.insert(die) {
                return Err(format!("die {} is exchanged twice", die.0));
            }
        }
        if swap.drive >= self.shape.drives || seen.is_empty() {
            return Err(format!("an exchange of {} dies of drive {}", seen.len(), swap.drive));
        }
        Ok(())
    }
}
