//! Random: reclaim any full unit, with equal probability. Under uniform writes a page of the victim is live with
//! probability 1/α, so write amplification is α / (α - 1), the worst of all policies and the easiest to check.

use super::members::Members;
use crate::rng::Rng;

#[derive(Debug)]
pub(crate) struct Random {
    members: Members,
    rng: Rng,
}

impl Random {
    pub(crate) fn new(sets: usize, units: u32, seed: u64) -> Self {
        Self { members: Members::new(sets, units), rng: Rng::new(seed) }
    }

    pub(crate) fn insert(&mut self, unit: u32, set: u32) {
        self.members.insert(unit, set);
    }

    pub(crate) fn remove(&mut self, unit: u32, set: u32) {
        self.members.remove(unit, set);
    }

    pub(crate) fn choose(&mut self, set: u32) -> Option<u32> {
        self.members.draw(set, &mut self.rng)
    }

    pub(crate) fn len(&self) -> u32 {
        self.members.len()
    }
}
