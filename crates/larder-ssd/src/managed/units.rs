//! Reclaim units: what state they are in, whose data they hold, how worn they are.
//!
//! ```text
//!            open                    last page written
//!   Erased ────────► Open(frontier) ───────────────────► Full
//!      ▲                                                   │
//!      └────────────────────── erase ──────────────────────┘
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Whose data a unit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Nobody's: the unit is erased.
    Nobody,
    /// One handle's.
    Handle(u16),
    /// Data of several handles, mixed by garbage collection.
    Mixed,
}

/// What a unit is good for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitState {
    /// Erased and ready.
    Erased,
    /// Being filled.
    Open,
    /// Filled; waits to be reclaimed.
    Full,
}

/// One reclaim unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unit {
    pub(crate) state: UnitState,
    pub(crate) owner: Owner,
    pub(crate) live: u32,
    /// Pages written since the last erase, padding included.
    pub(crate) written: u32,
    pub(crate) erases: u32,
}

/// All units, and the erased ones by wear.
#[derive(Debug)]
pub(crate) struct Units {
    all: Vec<Unit>,
    /// Least worn first, so that dynamic wear levelling comes for free; ties by number, for
    /// determinism.
    erased: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Units {
    pub(crate) fn new(count: u32) -> Self {
        let fresh =
            Unit { state: UnitState::Erased, owner: Owner::Nobody, live: 0, written: 0, erases: 0 };
        Self {
            all: vec![fresh; count as usize],
            erased: (0..count).map(|unit| Reverse((0, unit))).collect(),
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Unit> {
        self.all.iter()
    }

    /// Number of erased units.
    pub(crate) fn erased(&self) -> usize {
        self.erased.len()
    }

    /// Opens the least worn erased unit for `owner`.
    pub(crate) fn open(&mut self, owner: Owner) -> Option<u32> {
        let Reverse((_, unit)) = self.erased.pop()?;
        let entry = self.get_mut(unit);
        debug_assert_eq!(entry.state, UnitState::Erased);
        entry.state = UnitState::Open;
        entry.owner = owner;
        Some(unit)
    }

    /// Erases a full unit without live pages.
    pub(crate) fn erase(&mut self, unit: u32) {
        let entry = self.get_mut(unit);
        assert_eq!(entry.state, UnitState::Full, "only full units are erased");
        assert_eq!(entry.live, 0, "live pages are moved before the erase");
        entry.state = UnitState::Erased;
        entry.owner = Owner::Nobody;
        entry.written = 0;
        entry.erases += 1;
        let erases = entry.erases;
        self.erased.push(Reverse((erases, unit)));
    }
}
