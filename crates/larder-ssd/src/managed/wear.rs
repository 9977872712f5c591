//! Wear: how often units were erased, when an erase fails, and moving cold data to worn units.
//!
//! *Dynamic* levelling opens the least worn erased unit first; it cannot reach units whose data
//! never dies. *Static* levelling can: when the gap between the most and the least worn unit grows
//! too large, the least worn full unit, which holds the coldest data, is copied to the most worn
//! erased unit and returns to the pool. The copy keeps its owner, so isolation holds; what was dead
//! in the old unit is padding in the new one, so no space is gained or lost.

use std::collections::BTreeMap;

use super::ManagedSsd;
use super::events::Event;
use super::frontier::{Frontier, Role};
use super::options::Endurance;
use super::rng::Rng;
use super::units::UnitState;
use crate::error::{Error, ErrorKind};

/// How worn the drive is. Retired units are left out of the erase counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wear {
    /// Erases of the least worn unit.
    pub min_erases: u32,
    /// Erases of a unit on average.
    pub mean_erases: f64,
    /// Erases of the most worn unit.
    pub max_erases: u32,
    /// Units taken out of use.
    pub retired_units: u64,
    /// Units that may still be retired before the drive becomes read-only (in one group, if there
    /// are several, it may be fewer).
    pub spare_units: u64,
    /// Whether the drive has reached the end of its life.
    pub read_only: bool,
}

/// Units by erase count.
#[derive(Debug)]
pub(crate) struct WearCounts {
    units: Vec<u32>,
    min: usize,
    max: usize,
    erases: u64,
    good: u32,
}

impl WearCounts {
    pub(crate) fn new(units: u32) -> Self {
        Self { units: vec![units], min: 0, max: 0, erases: 0, good: units }
    }

    /// A unit was erased for the `erases`th time.
    pub(crate) fn erased(&mut self, erases: u32) {
        let erases = erases as usize;
        self.units[erases - 1] -= 1;
        if self.units.len() == erases {
            self.units.push(0);
        }
        self.units[erases] += 1;
        self.erases += 1;
        self.max = self.max.max(erases);
        self.settle();
    }

    /// A unit that was erased `erases` times is gone.
    pub(crate) fn retired(&mut self, erases: u32) {
        self.units[erases as usize] -= 1;
        self.erases -= u64::from(erases);
        self.good -= 1;
        self.settle();
    }

    fn settle(&mut self) {
        while self.min < self.max && self.units[self.min] == 0 {
            self.min += 1;
        }
        while self.max > self.min && self.units[self.max] == 0 {
            self.max -= 1;
        }
    }

    #[allow(clippy::cast_possible_truncation)] // erases are counted in 32 bits
    fn min(&self) -> u32 {
        self.min as u32
    }

    #[allow(clippy::cast_possible_truncation)] // erases are counted in 32 bits
    fn max(&self) -> u32 {
        self.max as u32
    }

    #[allow(clippy::cast_precision_loss)]
    fn mean(&self) -> f64 {
        self.erases as f64 / f64::from(self.good.max(1))
    }
}

/// Decides which erases fail.
#[derive(Debug)]
pub(crate) enum Failures {
    Never,
    Rated { rated: u32, certain: u32, rng: Rng },
    Planned(BTreeMap<u32, u32>),
}

impl Failures {
    pub(crate) fn new(endurance: &Endurance, seed: u64) -> Self {
        match endurance {
            Endurance::Unlimited => Self::Never,
            // Another stream than the victim policy's, which starts from the seed itself.
            Endurance::Rated { rated, certain } => {
                Self::Rated { rated: *rated, certain: *certain, rng: Rng::new(!seed) }
            }
            Endurance::Planned(plan) => Self::Planned(plan.iter().copied().collect()),
        }
    }

    fn strikes(&mut self, unit: u32, erase: u32) -> bool {
        match self {
            Self::Never => false,
            Self::Rated { rated, certain, rng } => {
                erase > *rated && rng.below(*certain - *rated) < erase - *rated
            }
            Self::Planned(plan) => plan.get(&unit) == Some(&erase),
        }
    }
}

impl ManagedSsd {
    /// How worn the drive is.
    pub fn wear(&self) -> Wear {
        let counts = self.units.wear();
        Wear {
            min_erases: counts.min(),
            mean_erases: counts.mean(),
            max_erases: counts.max(),
            retired_units: self.stats.retired_units,
            spare_units: self.units.good_of_all().saturating_sub(self.config.units_required()),
            read_only: self.read_only,
        }
    }

    /// Erases `unit`, from which everything live was moved, or retires it if that fails.
    pub(super) fn erase(&mut self, unit: u32) {
        if let Some(media) = &mut self.out_of_band {
            media.before_erase(&self.map);
        }
        let erases = self.units.get(unit).erases;
        if self.failures.strikes(unit, erases + 1) {
            self.units.retire(unit);
            self.stats.retired_units += 1;
            self.events.record(Event::UnitRetired { unit, erases });
            self.read_only |= self.spare_is_used_up(self.units.group_of(unit));
        } else {
            self.units.erase(unit);
            self.journal_erase(unit);
            self.stats.erased_units += 1;
        }
    }

    fn spare_is_used_up(&self, group: usize) -> bool {
        self.units.good_of_all() < self.config.units_required()
            || u64::from(self.units.good(group)) <= self.config.group_overhead_units()
    }

    /// Static wear levelling: at most one unit is moved each time that the host opens one.
    pub(super) fn level_wear(&mut self, group: usize) -> Result<(), Error> {
        let Some(gap) = self.config.wear_levelling_gap else { return Ok(()) };
        let counts = self.units.wear();
        let max = counts.max();
        if max - counts.min() <= gap {
            return Ok(());
        }
        let full = self
            .units
            .of_group(group)
            .filter(|&unit| self.units.get(unit).state == UnitState::Full);
        let Some(coldest) = full.min_by_key(|&unit| self.units.get(unit).erases) else {
            return Ok(());
        };
        let erases = self.units.get(coldest).erases;
        match self.units.most_worn_erased(group) {
            Some((worn, worn_erases)) if worn_erases > erases && max - erases > gap => {
                self.relocate(coldest, worn, group)
            }
            _ => Ok(()),
        }
    }

    /// Copies what lives in `from` to `to`, which is erased, and erases `from`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_erases_and_retirements() {
        let mut counts = WearCounts::new(3);
        counts.erased(1);
        counts.erased(2);
        assert_eq!((counts.min(), counts.max()), (0, 2));
        counts.erased(1);
        counts.erased(1);
        assert_eq!((counts.min(), counts.max()), (1, 2));
        counts.retired(2);
        assert_eq!((counts.min(), counts.max()), (1, 1));
        assert!((counts.mean() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn rated_erases_hold_and_certain_ones_fail() {
        let endurance = Endurance::Rated { rated: 10, certain: 20 };
        let mut failures = Failures::new(&endurance, 1);
        assert!((1..=10).all(|erase| !failures.strikes(0, erase)));
        assert!((0..100).all(|unit| failures.strikes(unit, 20)));
        let halfway = (0..1000).filter(|&unit| failures.strikes(unit, 15)).count();
        assert!((400..600).contains(&halfway), "{halfway}");
    }
}
