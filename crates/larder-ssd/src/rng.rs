//! Chance for victim policies and failures: `SplitMix64` (Steele, Lea, Flood:
//! "Fast splittable pseudorandom number generators", OOPSLA'14). Ten lines, so that the crate needs
//! no dependency and a seed means the same run for ever.

/// A stream of pseudo-random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`. The bias of the multiplication is below 2^-32 for 32-bit bounds.
    #[allow(clippy::cast_possible_truncation)] // the product is below bound * 2^64
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_streams_within_bounds() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            let n = a.below(10);
            assert_eq!(n, b.below(10));
            seen[n as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }
}
