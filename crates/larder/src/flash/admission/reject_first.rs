//! Admits an item on its second visit.
//!
//! Visits are remembered in two bitmaps with one bit per hash. When the younger one has its maximum number of visits,
//! it becomes the older one, and the older one is dropped: a visit is remembered for one to two generations.

use crate::base::key::KeyHash;

const BITS_PER_VISIT: u64 = 16;
const VISITS_MIN: u64 = 1024;

#[derive(Debug)]
pub(crate) struct RejectFirst {
    young: Vec<u64>,
    old: Vec<u64>,
    visits: u64,
    visits_max: u64,
}

impl RejectFirst {
    /// Remembers visits of `expected_items` items, or as many as fit into `memory_bytes`.
    pub(crate) fn new(expected_items: u64, memory_bytes: u64) -> Self {
        let remembered = memory_bytes / (2 * BITS_PER_VISIT / 8);
        let visits_max = expected_items.min(remembered).max(VISITS_MIN);
        let words = usize::try_from(visits_max * BITS_PER_VISIT / 64).expect("fits memory");
        Self { young: vec![0; words], old: vec![0; words], visits: 0, visits_max }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.young.len() + self.old.len()) as u64 * 8
    }

    /// Whether `hash` was here before; records this visit.
    pub(crate) fn seen_before(&mut self, hash: KeyHash) -> bool {
        let bit = hash.spread_over(self.young.len() as u64 * 64);
        let (word, mask) = (usize::try_from(bit / 64).expect("fits memory"), 1 << (bit % 64));
        let in_young = self.young[word] & mask != 0;
        let seen = in_young || self.old[word] & mask != 0;
        if !in_young {
            self.young[word] |= mask;
            self.visits += 1;
            if self.visits == self.visits_max {
                std::mem::swap(&mut self.young, &mut self.old);
                self.young.fill(0);
                self.visits = 0;
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(i: u64) -> KeyHash {
        KeyHash::of(&i.to_le_bytes())
    }

    #[test]
    fn second_visits_pass_and_first_ones_rarely_do() {
        let mut visits = RejectFirst::new(1024, u64::MAX);
        let early = (0..500).filter(|&i| visits.seen_before(key(i))).count();
        assert!(early < 40, "{early} false passes");
        assert!((0..500).all(|i| visits.seen_before(key(i))));
    }

    #[test]
    fn memory_is_bounded() {
        assert_eq!(RejectFirst::new(1 << 20, u64::MAX).memory_bytes(), 4 << 20);
        assert_eq!(RejectFirst::new(1 << 40, 1 << 20).memory_bytes(), 1 << 20);
    }

    #[test]
    fn visits_are_forgotten_after_two_generations() {
        let mut visits = RejectFirst::new(1024, u64::MAX);
        visits.seen_before(key(0));
        (1..4096).for_each(|i| _ = visits.seen_before(key(i)));
        let remembered = (0..100).filter(|&i| visits.seen_before(key(i))).count();
        assert!(remembered < 30, "{remembered} of 100 old visits remembered");
    }
}
