//! Wear: how the firmware handles failed erases, and how it moves cold data to worn units.
//!
//! *Dynamic* levelling opens the least worn erased unit first, but it does not reach units whose data never dies.
//! *Static* levelling does: when the gap between the most and the least worn unit grows too large, the least worn full
//! unit, which holds the coldest data, is copied to the most worn erased unit and returns to the pool. The copy keeps
//! its owner, so isolation holds. Dead pages of the old unit become padding in the new one, so no space is gained or
//! lost.

use super::ManagedSsd;
use super::events::Event;
use super::frontier::{Frontier, Role};
use super::units::UnitState;
use crate::error::{Error, ErrorKind};
use crate::nand::BlockIndex;

/// Wear of the drive. Retired units are not included in the erase counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wear {
    /// Erases of the least worn unit.
    pub min_erases: u32,
    /// Mean erases per unit.
    pub mean_erases: f64,
    /// Erases of the most worn unit.
    pub max_erases: u32,
    /// Retired units.
    pub retired_units: u64,
    /// Units that may still be retired before the drive becomes read-only. If there are several groups, one group may
    /// reach its limit earlier.
    pub spare_units: u64,
    /// Whether the drive is at the end of its life.
    pub read_only: bool,
}

impl ManagedSsd {
    /// The current wear of the drive.
    pub fn wear(&self) -> Wear {
        let counts = self.medium.wear();
        Wear {
            min_erases: counts.min(),
            mean_erases: counts.mean(),
            max_erases: counts.max(),
            retired_units: self.stats.retired_units,
            spare_units: self.units.good_of_all().saturating_sub(self.config.units_required()),
            read_only: self.read_only,
        }
    }

    /// Erases `unit`, whose live pages were all moved, or retires it if the erase fails.
    pub(super) fn erase(&mut self, unit: u32) {
        if let Some(beside) = &mut self.out_of_band {
            beside.before_erase(&self.map);
        }
        let outcome = self.medium.erase(BlockIndex(unit));
        let erases = self.erases_of(unit);
        if outcome.is_err() {
            self.units.retire(unit);
            self.stats.retired_units += 1;
            self.events.record(Event::UnitRetired { unit, erases });
            self.read_only |= self.spare_is_used_up(self.units.group_of(unit));
        } else {
            self.units.erased_again(unit, erases);
            self.journal_erase(unit);
            self.stats.erased_units += 1;
        }
    }

    fn erases_of(&self, unit: u32) -> u32 {
        self.medium.block(BlockIndex(unit)).erases
    }

    fn spare_is_used_up(&self, group: usize) -> bool {
        self.units.good_of_all() < self.config.units_required()
            || u64::from(self.units.good(group)) <= self.config.group_overhead_units()
    }

    /// Static wear levelling: moves at most one unit each time the host opens one.
    pub(super) fn level_wear(&mut self, group: usize) -> Result<(), Error> {
        let Some(gap) = self.config.wear_levelling_gap else { return Ok(()) };
        let counts = self.medium.wear();
        let max = counts.max();
        if max - counts.min() <= gap {
            return Ok(());
        }
        let full = self
            .units
            .of_group(group)
            .filter(|&unit| self.units.get(unit).state == UnitState::Full);
        let Some(coldest) = full.min_by_key(|&unit| self.erases_of(unit)) else {
            return Ok(());
        };
        let erases = self.erases_of(coldest);
        match self.units.most_worn_erased(group) {
            Some((worn, worn_erases)) if worn_erases > erases && max - erases > gap => {
                self.relocate(coldest, worn, group)
            }
            _ => Ok(()),
        }
    }

    /// Copies the live pages of `from` to `to`, which is erased, and erases `from`.
    fn relocate(&mut self, from: u32, to: u32, group: usize) -> Result<(), Error> {
        let source = *self.units.get(from);
        if source.live == 0 {
            return self.reclaim(from, group).map(|_| ());
        }
        self.victims.remove(from, source.set, source.live);
        self.units.open_this(to, source.owner, Role::Levelling);
        let pages_per_unit = self.config.geometry.pages_per_unit;
        let next = to * pages_per_unit;
        let mut frontier = Frontier { next, end: next + pages_per_unit };
        self.move_live_pages(from, group, source.owner, Role::Levelling, &mut frontier)?;
        self.stats.wear_levelled_pages += u64::from(source.live);
        self.pad(frontier);
        self.finish_unit(from, source.live);
        Ok(())
    }

    /// Fails once failed erases have used up the spare units.
    #[inline]
    pub(super) fn check_not_worn_out(&self) -> Result<(), Error> {
        if self.read_only { Err(self.worn_out()) } else { Ok(()) }
    }

    #[cold]
    pub(super) fn worn_out(&self) -> Error {
        Error::new(
            ErrorKind::ReadOnly,
            format!(
                "the drive is read-only: {} of its {} reclaim units are retired and {} are needed; \
                 what it holds can be read",
                self.stats.retired_units,
                self.config.geometry.units,
                self.config.units_required(),
            ),
        )
    }
}
