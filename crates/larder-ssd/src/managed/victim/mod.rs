//! Which full unit to reclaim. One file per policy; each states its rule first.
//!
//! The full units are kept in *sets*: one per reclaim group, or one per owner in each group if each handle collects
//! among its own units. A unit is in one set while it is full, and in none otherwise. Greedy collection, the default,
//! keeps its order up to date as pages die. Greedy for few large units and the other policies search when a victim is
//! needed.

mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod members;
mod order;
mod random;
mod scan;
mod windowed;

use super::config::ManagedConfig;
use super::options::VictimPolicy;
use super::units::Units;
use cost_benefit::CostBenefit;
use d_choices::DChoices;
use fifo::Fifo;
use greedy::Greedy;
use random::Random;
use scan::Scan;
use windowed::Windowed;

/// All full units, in the structure that the policy of the drive needs.
#[derive(Debug)]
pub(crate) enum Victims {
    Greedy(Greedy),
    /// Greedy too, for drives with few and large units.
    Scan(Scan),
    Fifo(Fifo),
    CostBenefit(CostBenefit),
    DChoices(DChoices),
    Random(Random),
    Windowed(Windowed),
}

impl Victims {
    pub(crate) fn new(config: &ManagedConfig, sets: usize) -> Self {
        let units = config.geometry.units;
        let pages_per_unit = config.geometry.pages_per_unit;
        match config.victim_policy {
            VictimPolicy::Greedy if Scan::is_cheaper(units, pages_per_unit) => {
                Self::Scan(Scan::new(sets, units))
            }
            VictimPolicy::Greedy => Self::Greedy(Greedy::new(sets, units, pages_per_unit)),
            VictimPolicy::Fifo => Self::Fifo(Fifo::new(sets, units)),
            VictimPolicy::CostBenefit => {
                Self::CostBenefit(CostBenefit::new(sets, units, pages_per_unit))
            }
            VictimPolicy::DChoices(d) => Self::DChoices(DChoices::new(sets, units, d, config.seed)),
            VictimPolicy::Random => Self::Random(Random::new(sets, units, config.seed)),
            VictimPolicy::Windowed(window) => Self::Windowed(Windowed::new(sets, units, window)),
        }
    }

    /// Adds a unit that has become full.
    pub(crate) fn insert(&mut self, unit: u32, set: u32, live: u32) {
        match self {
            Self::Greedy(policy) => policy.insert(unit, set, live),
            Self::Scan(policy) => policy.insert(unit, set),
            Self::Fifo(policy) => policy.insert(unit, set),
            Self::CostBenefit(policy) => policy.insert(unit, set),
            Self::DChoices(policy) => policy.insert(unit, set),
            Self::Random(policy) => policy.insert(unit, set),
            Self::Windowed(policy) => policy.insert(unit, set),
        }
    }

    /// Removes a unit that is about to be erased.
    pub(crate) fn remove(&mut self, unit: u32, set: u32, live: u32) {
        match self {
            Self::Greedy(policy) => policy.remove(unit, set, live),
            Self::Scan(policy) => policy.remove(unit, set),
            Self::Fifo(policy) => policy.remove(unit, set),
            Self::CostBenefit(policy) => policy.remove(unit, set),
            Self::DChoices(policy) => policy.remove(unit, set),
            Self::Random(policy) => policy.remove(unit, set),
            Self::Windowed(policy) => policy.remove(unit, set),
        }
    }

    /// `count` pages of `unit` died; it now holds `live` live pages.
    #[inline]
    pub(crate) fn some_died(&mut self, unit: u32, set: u32, live: u32, count: u32) {
        match self {
            Self::Greedy(policy) => policy.some_died(unit, set, live, count),
            Self::Scan(policy) => policy.some_died(unit),
            Self::CostBenefit(policy) => policy.some_died(unit, count),
            _ => {}
        }
    }

    /// The unit of `set` that the policy would reclaim next.
    pub(crate) fn choose(&mut self, set: u32, units: &Units) -> Option<u32> {
        match self {
            Self::Greedy(policy) => policy.choose(set),
            Self::Scan(policy) => policy.choose(set, units),
            Self::Fifo(policy) => policy.choose(set),
            Self::CostBenefit(policy) => policy.choose(set, units),
            Self::DChoices(policy) => policy.choose(set, units),
            Self::Random(policy) => policy.choose(set),
            Self::Windowed(policy) => policy.choose(set, units),
        }
    }

    /// Number of full units in all sets.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Self::Greedy(policy) => policy.len(),
            Self::Scan(policy) => policy.len(),
            Self::Fifo(policy) => policy.len(),
            Self::CostBenefit(policy) => policy.len(),
            Self::DChoices(policy) => policy.len(),
            Self::Random(policy) => policy.len(),
            Self::Windowed(policy) => policy.len(),
        }
    }
}
