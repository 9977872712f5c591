//! d-choices: draw `d` full units at random, with replacement, and reclaim the one with the fewest live pages; on a tie
//! the one drawn first (Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based
//! solid state drives", SIGMETRICS'13). Two choices already gain most of what greedy gains over one, and ten come
//! within a few per cent of greedy.

use super::super::units::Units;
use super::members::Members;
use crate::rng::Rng;

#[derive(Debug)]
pub(crate) struct DChoices {
    members: Members,
    d: u32,
    rng: Rng,
}

impl DChoices {
    pub(crate) fn new(sets: usize, units: u32, d: u32, seed: u64) -> Self {
        Self { members: Members::new(sets, units), d, rng: Rng::new(seed) }
    }

    pub(crate) fn insert(&mut self, unit: u32, set: u32) {
        self.members.insert(unit, set);
    }

    pub(crate) fn remove(&mut self, unit: u32, set: u32) {
        self.members.remove(unit, set);
    }

    pub(crate) fn choose(&mut self, set: u32, units: &Units) -> Option<u32> {
        let drawn = (0..self.d).map_while(|_| self.members.draw(set, &mut self.rng));
        drawn.min_by_key(|&unit| units.get(unit).live)
    }

    pub(crate) fn len(&self) -> u32 {
        self.members.len()
    }
}
