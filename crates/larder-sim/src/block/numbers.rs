//! Numbers of a core that comes and goes: none is given twice, until all that was cached is forgotten.

use std::collections::BTreeSet;

use fastrand::Rng;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Those below may have been taken away.
    next: u64,
    /// All that there ever were.
    given: BTreeSet<u64>,
}

impl Numbers {
    /// Which number a core is told to have, if any: one that it may have, or one that it may not.
    pub(super) fn drawn(&self, rng: &mut Rng, stay: u64) -> Option<u64> {
        let highest = self.given.last().copied().unwrap_or(stay);
        (rng.u32(0..4) == 0).then(|| rng.u64(stay..=highest + 3).min(Self::HIGHEST))
    }

    /// Numbers of cores end there.
    const HIGHEST: u64 = 4_095;

    /// Whether a core that comes may have it, behind those that stay.
    pub(super) fn may_be(&self, number: u64) -> bool {
        number >= self.next
    }

    /// What a core has that is told none.
    pub(super) fn lowest(&self, stay: u64) -> u64 {
        self.next.max(stay)
    }

    /// One came. Whether one of that number was there before.
    pub(super) fn came(&mut self, number: u64) -> bool {
        !self.given.insert(number)
    }

    /// It was taken away.
    pub(super) fn went(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }

    /// Nothing is cached any more of any.
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
