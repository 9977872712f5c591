//! Greedy for few, large units: scans the full units when a victim is needed. A page that dies costs one store; with
//! the lists of [`Greedy`](super::greedy::Greedy) it costs a dozen.
//!
//! It chooses the same unit as the lists: among the units with the fewest live pages, the one that changed last.

use std::cmp::Reverse;

use super::super::units::Units;
use super::members::Members;

#[derive(Debug)]
pub(crate) struct Scan {
    members: Members,
    /// When each unit was filled or last lost a page.
    changed: Vec<u64>,
    /// Changes so far.
    now: u64,
}

impl Scan {
    /// Whether a scan of `units` units is cheaper than keeping them in order. A scan runs once per unit of host writes,
    /// or more often by the factor of the write amplification.
    pub(crate) fn is_cheaper(units: u32, pages_per_unit: u32) -> bool {
        units <= pages_per_unit
    }

    pub(crate) fn new(sets: usize, units: u32) -> Self {
        Self { members: Members::new(sets, units), changed: vec![0; units as usize], now: 0 }
    }

    pub(crate) fn insert(&mut self, unit: u32, set: u32) {
        self.some_died(unit);
        self.members.insert(unit, set);
    }

    pub(crate) fn remove(&mut self, unit: u32, set: u32) {
        self.members.remove(unit, set);
    }

    #[inline]
    pub(crate) fn some_died(&mut self, unit: u32) {
        self.now += 1;
        self.changed[unit as usize] = self.now;
    }

    pub(crate) fn choose(&self, set: u32, units: &Units) -> Option<u32> {
        let members = self.members.of(set).iter().copied();
        members.min_by_key(|&unit| (units.get(unit).live, Reverse(self.changed[unit as usize])))
    }

    pub(crate) fn len(&self) -> u32 {
        self.members.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::greedy::Greedy;
    use super::*;
    use crate::rng::Rng;

    /// A random history of units that fill, lose pages and are reclaimed.
    #[test]
    fn it_chooses_what_the_lists_choose() {
        const UNITS: u32 = 24;
        const PAGES: u32 = 8;
        let mut rng = Rng::new(1);
        let mut units = Units::new(1, UNITS);
        let (mut lists, mut scan) = (Greedy::new(2, UNITS, PAGES), Scan::new(2, UNITS));
        let mut is_full = [false; UNITS as usize];
        for _ in 0..100_000 {
            let unit = rng.below(UNITS);
            let set = unit % 2;
            let live = &mut units.get_mut(unit).live;
            if !is_full[unit as usize] {
                *live = rng.below(PAGES + 1);
                lists.insert(unit, set, *live);
                scan.insert(unit, set);
                is_full[unit as usize] = true;
            } else if *live > 0 && rng.below(8) > 0 {
                let count = 1 + rng.below((*live).min(3));
                *live -= count;
                lists.some_died(unit, set, *live, count);
                scan.some_died(unit);
            } else {
                let victim = lists.choose(set);
                assert_eq!(victim, scan.choose(set, &units));
                let victim = victim.expect("the set has a unit");
                lists.remove(victim, set, units.get(victim).live);
                scan.remove(victim, set);
                is_full[victim as usize] = false;
            }
            assert_eq!(lists.len(), scan.len());
        }
    }
}
