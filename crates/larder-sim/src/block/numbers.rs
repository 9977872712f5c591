//! Numbers of the visitor. No number is used twice, until all cached data was dropped.

use std::collections::BTreeSet;

use fastrand::Rng;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Numbers below this may have been removed.
    next: u64,
    /// All numbers ever used.
    given: BTreeSet<u64>,
}

impl Numbers {
    /// The number to request for a core, if any: an allowed one, or one that is not allowed.
    pub(super) fn drawn(&self, rng: &mut Rng, stay: u64) -> Option<u64> {
        let highest = self.given.last().copied().unwrap_or(stay);
        (rng.u32(0..4) == 0).then(|| rng.u64(stay..=highest + 3).min(Self::HIGHEST))
    }

    /// Highest number of a core.
    const HIGHEST: u64 = 4_095;

    /// Whether a new core may have this number, which must be above those of the permanent cores.
    pub(super) fn may_be(&self, number: u64) -> bool {
        number >= self.next
    }

    /// The number that a core gets if none is requested.
    pub(super) fn lowest(&self, stay: u64) -> u64 {
        self.next.max(stay)
    }

    /// Records an added core. Returns whether its number was used before.
    pub(super) fn came(&mut self, number: u64) -> bool {
        !self.given.insert(number)
    }

    /// Records a removed core.
    pub(super) fn went(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }

    /// Records that nothing is cached any more of any core.
    pub(super) fn forgotten(&mut self) {
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_given_again_before_all_is_forgotten() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.lowest(2), 2);
        assert!(!numbers.came(5));
        numbers.went(5);
        assert!(!numbers.may_be(5) && numbers.may_be(6));
        assert_eq!(numbers.lowest(2), 6);
        numbers.forgotten();
        assert!(numbers.may_be(2) && numbers.lowest(2) == 2 && numbers.came(5));
        let mut rng = Rng::with_seed(1);
        let drawn: Vec<u64> = (0..1000).filter_map(|_| numbers.drawn(&mut rng, 2)).collect();
        assert!(drawn.iter().all(|number| (2..=8).contains(number)), "{drawn:?}");
        assert!((2..=8).all(|number| drawn.contains(&number)) && drawn.len() < 500, "{drawn:?}");
    }
}
