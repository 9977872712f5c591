//! The full units of each set, unordered, for random draws.

use crate::rng::Rng;

#[derive(Debug)]
pub(super) struct Members {
    sets: Vec<Vec<u32>>,
    /// Where each unit is in its set.
    position: Vec<u32>,
}

impl Members {
    pub(super) fn new(sets: usize, units: u32) -> Self {
        Self { sets: vec![Vec::new(); sets], position: vec![0; units as usize] }
    }

    #[allow(clippy::cast_possible_truncation)] // units are numbered in 32 bits
    pub(super) fn insert(&mut self, unit: u32, set: u32) {
        let members = &mut self.sets[set as usize];
        self.position[unit as usize] = members.len() as u32;
        members.push(unit);
    }

    pub(super) fn remove(&mut self, unit: u32, set: u32) {
        let members = &mut self.sets[set as usize];
        let position = self.position[unit as usize];
        debug_assert_eq!(members[position as usize], unit);
        members.swap_remove(position as usize);
        if let Some(&moved) = members.get(position as usize) {
            self.position[moved as usize] = position;
        }
    }

    pub(super) fn of(&self, set: u32) -> &[u32] {
        &self.sets[set as usize]
    }

    /// One unit of `set`, with equal probability.
    #[allow(clippy::cast_possible_truncation)] // units are numbered in 32 bits
    pub(super) fn draw(&self, set: u32, rng: &mut Rng) -> Option<u32> {
        let members = self.of(set);
        (!members.is_empty()).then(|| members[rng.below(members.len() as u32) as usize])
    }

    #[allow(clippy::cast_possible_truncation)] // units are numbered in 32 bits
    pub(super) fn len(&self) -> u32 {
        self.sets.iter().map(Vec::len).sum::<usize>() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_keeps_every_other_member_findable() {
        let mut members = Members::new(1, 10);
        (0..10).for_each(|unit| members.insert(unit, 0));
        for unit in [0, 9, 4, 5] {
            members.remove(unit, 0);
        }
        let mut left = members.of(0).to_vec();
        left.sort_unstable();
        assert_eq!(left, [1, 2, 3, 6, 7, 8]);
        left.iter().for_each(|&unit| members.remove(unit, 0));
        assert_eq!((members.len(), members.draw(0, &mut Rng::new(0))), (0, None));
    }
}
