//! Cost-benefit: reclaim the full unit with the largest (1 - u) · age / u, where `u` is its live share and `age` the
//! time since one of its pages last died (Kawaguchi, Nishioka, Motoda: "A flash-memory based file system", USENIX'95;
//! after Rosenblum and Ousterhout's log-structured file system). A unit that still loses pages is left alone, because
//! it becomes cheaper to reclaim.
//!
//! The paper divides by 2u, for one read and one write of each live page. The factor does not change the order, so it
//! is left out. Time is counted in pages that died, so the choice depends on the history alone. The choice scans all
//! members of the set, and stops at a unit without live pages.

use super::super::units::Units;
use super::members::Members;

#[derive(Debug)]
pub(crate) struct CostBenefit {
    members: Members,
    /// When each unit was filled or last lost a page.
    touched: Vec<u64>,
    now: u64,
    pages_per_unit: u32,
}

impl CostBenefit {
    pub(crate) fn new(sets: usize, units: u32, pages_per_unit: u32) -> Self {
        Self {
            members: Members::new(sets, units),
            touched: vec![0; units as usize],
            now: 0,
            pages_per_unit,
        }
    }

    pub(crate) fn insert(&mut self, unit: u32, set: u32) {
        self.touched[unit as usize] = self.now;
        self.members.insert(unit, set);
    }

    pub(crate) fn remove(&mut self, unit: u32, set: u32) {
        self.members.remove(unit, set);
    }

    #[inline]
    pub(crate) fn some_died(&mut self, unit: u32, count: u32) {
        self.now += u64::from(count);
        self.touched[unit as usize] = self.now;
    }

    pub(crate) fn choose(&self, set: u32, units: &Units) -> Option<u32> {
        let mut best: Option<(u32, Score)> = None;
        for &unit in self.members.of(set) {
            let live = units.get(unit).live;
            if live == 0 {
                return Some(unit);
            }
            let score = Score {
                benefit: u128::from(self.pages_per_unit - live)
                    * u128::from(self.now - self.touched[unit as usize] + 1),
                cost: u128::from(live),
            };
            if best.as_ref().is_none_or(|(_, other)| score.beats(other)) {
                best = Some((unit, score));
            }
        }
        best.map(|(unit, _)| unit)
    }

    pub(crate) fn len(&self) -> u32 {
        self.members.len()
    }
}

/// A quotient, only for comparison. Pages and ages are small enough for the cross product not to overflow.
struct Score {
    benefit: u128,
    cost: u128,
}

impl Score {
    fn beats(&self, other: &Self) -> bool {
        self.benefit * other.cost > other.benefit * self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_equal_cost_the_unit_that_rested_longest_goes() {
        let mut units = Units::new(1, 3);
        (0..3).for_each(|unit| units.get_mut(unit).live = 4);
        let mut policy = CostBenefit::new(1, 3, 8);
        (0..3).for_each(|unit| policy.insert(unit, 0));
        [2, 0, 1].into_iter().for_each(|unit| policy.some_died(unit, 1));
        assert_eq!(policy.choose(0, &units), Some(2));
        // Age counts only up to a point: an almost empty unit goes first, however recently it lost pages.
        units.get_mut(1).live = 1;
        assert_eq!(policy.choose(0, &units), Some(1));
        units.get_mut(0).live = 0;
        assert_eq!(policy.choose(0, &units), Some(0));
    }
}
