//! Reclaim units: their state and the owner of their data. The medium knows how far they are written and their wear: a
//! unit is a block of the medium.
//!
//! ```text
//!            open                    last page written
//!   Erased ────────► Open(frontier) ───────────────────► Full
//!      ▲                                                   │ erase
//!      └───────────────────────────────────────────────────┤
//!                                     Retired ◄────────────┘ it failed
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::nand::{BlockIndex, Medium};

/// The owner of the data of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// No owner: the unit is erased or retired.
    Unowned,
    /// One handle's.
    Handle(u16),
    /// Sequential streams that a drive without FDP detected.
    Sequential,
    /// Data of several handles, mixed by garbage collection.
    Mixed,
}

/// The state of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitState {
    /// Erased and ready.
    Erased,
    /// Being filled.
    Open,
    /// Filled; may be reclaimed.
    Full,
    /// Its erase failed; never used again.
    Retired,
}

/// The kind of data that fills an open unit, with the number of its frontier. It is stored on the media with the unit,
/// so that the frontiers can be found again after a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Host writes.
    Host(u32),
    /// Pages that garbage collection moves.
    Collection(u32),
    /// The pages of one cold unit; no frontier continues it.
    Levelling,
}

/// One reclaim unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    pub(crate) live: u32,
    pub(crate) state: UnitState,
    pub(crate) owner: Owner,
    /// The victim set that it belongs to while it is full.
    pub(crate) set: u32,
}

/// All units, and the erased ones of each group by wear.
#[derive(Debug)]
pub(crate) struct Units {
    all: Vec<Unit>,
    /// The role of each open unit; kept separately so that `Unit` stays small.
    roles: Vec<Role>,
    /// Least worn first, which implements dynamic wear levelling; ties by number, for determinism.
    erased: Vec<BinaryHeap<Reverse<(u32, u32)>>>,
    /// Units of each group that are not retired.
    good: Vec<u32>,
    units_per_group: u32,
}

impl Units {
    pub(crate) fn new(groups: u16, units_per_group: u32) -> Self {
        let count = u32::from(groups) * units_per_group;
        let fresh = Unit { live: 0, state: UnitState::Erased, owner: Owner::Unowned, set: 0 };
        let mut units = Self {
            all: vec![fresh; count as usize],
            roles: vec![Role::Levelling; count as usize],
            erased: vec![BinaryHeap::new(); usize::from(groups)],
            good: vec![units_per_group; usize::from(groups)],
            units_per_group,
        };
        // On a new medium no unit is worn.
        units.find_erased_by(|_| 0);
        units
    }

    /// Rebuilds the heaps from the states, with the wear from `medium`.
    pub(crate) fn find_erased(&mut self, medium: &Medium) {
        self.find_erased_by(|unit| medium.block(unit).erases);
    }

    fn find_erased_by(&mut self, erases: impl Fn(BlockIndex) -> u32) {
        self.erased.iter_mut().for_each(BinaryHeap::clear);
        for (number, unit) in (0..).zip(&self.all) {
            if unit.state == UnitState::Erased {
                let group = (number / self.units_per_group) as usize;
                self.erased[group].push(Reverse((erases(BlockIndex(number)), number)));
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, unit: u32) -> &Unit {
        &self.all[unit as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, unit: u32) -> &mut Unit {
        &mut self.all[unit as usize]
    }

    /// The role for which `unit` was opened last.
    pub(crate) fn role(&self, unit: u32) -> Role {
        self.roles[unit as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Unit> {
        self.all.iter()
    }

    /// The group that `unit` belongs to.
    pub(crate) fn group_of(&self, unit: u32) -> usize {
        (unit / self.units_per_group) as usize
    }

    /// The numbers of the units of `group`.
    #[allow(clippy::cast_possible_truncation)] // there are at most 2^16 groups
    pub(crate) fn of_group(&self, group: usize) -> std::ops::Range<u32> {
        let first = group as u32 * self.units_per_group;
        first..first + self.units_per_group
    }

    /// Number of erased units of `group`.
    #[inline]
    pub(crate) fn erased(&self, group: usize) -> usize {
        self.erased[group].len()
    }

    /// Number of units of `group` that are not retired.
    pub(crate) fn good(&self, group: usize) -> u32 {
        self.good[group]
    }

    /// Number of units that are not retired.
    pub(crate) fn good_of_all(&self) -> u64 {
        self.good.iter().copied().map(u64::from).sum()
    }

    /// Opens the least worn erased unit of `group`.
    pub(crate) fn open(&mut self, group: usize, owner: Owner, role: Role) -> Option<u32> {
        let Reverse((_, unit)) = self.erased[group].pop()?;
        self.opened(unit, owner, role);
        Some(unit)
    }

    /// The most worn erased unit of `group`, with its erases.
    pub(crate) fn most_worn_erased(&self, group: usize) -> Option<(u32, u32)> {
        let worst = self.erased[group].iter().map(|Reverse((erases, unit))| (*erases, *unit)).max();
        worst.map(|(erases, unit)| (unit, erases))
    }

    /// Opens a given erased unit. This searches the heap, which is acceptable because wear levelling is rare.
    pub(crate) fn open_this(&mut self, unit: u32, owner: Owner, role: Role) {
        let group = self.group_of(unit);
        self.erased[group].retain(|Reverse((_, other))| *other != unit);
        self.opened(unit, owner, role);
    }

    fn opened(&mut self, unit: u32, owner: Owner, role: Role) {
        let entry = self.get_mut(unit);
        debug_assert_eq!(entry.state, UnitState::Erased);
        entry.state = UnitState::Open;
        entry.owner = owner;
        self.roles[unit as usize] = role;
    }

    /// Records that a full unit without live pages was erased, for the `erases`th time.
    pub(crate) fn erased_again(&mut self, unit: u32, erases: u32) {
        let entry = self.get_mut(unit);
        assert_eq!(entry.state, UnitState::Full, "only full units are erased");
        assert_eq!(entry.live, 0, "live pages are moved before the erase");
        entry.state = UnitState::Erased;
        entry.owner = Owner::Unowned;
        let group = self.group_of(unit);
        self.erased[group].push(Reverse((erases, unit)));
    }

    /// Retires a full unit without live pages.
    pub(crate) fn retire(&mut self, unit: u32) {
        let entry = self.get_mut(unit);
        assert_eq!(entry.state, UnitState::Full, "only an erase can fail");
        assert_eq!(entry.live, 0, "live pages are moved before the erase");
        entry.state = UnitState::Retired;
        entry.owner = Owner::Unowned;
        let group = self.group_of(unit);
        self.good[group] -= 1;
    }
}
