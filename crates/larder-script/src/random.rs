//! The numbers of `math.random`: those of `lrand48`, as Redis has them, so that a seed gives the same everywhere.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// The state of `lrand48`: 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Random(u64);

const BITS: u64 = (1 << 48) - 1;

impl Random {
    /// What follows `srand48(seed)`.
    pub(crate) fn seeded(seed: i32) -> Self {
        Self(u64::from(seed.cast_unsigned()) << 16 | 0x330e)
    }

    /// From 0 to 1, without 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & BITS;
        let number = (self.0 >> 17) % u64::from(i32::MAX.unsigned_abs());
        f64::from(u32::try_from(number).unwrap_or(0)) / f64::from(i32::MAX)
    }
}

/// Each script begins with other numbers, whatever seed the script before it has set.
impl Default for Random {
    fn default() -> Self {
        Self(RandomState::new().build_hasher().finish() & BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_differ_from_script_to_script() {
        assert_ne!(Random::default(), Random::default());
    }

    #[test]
    fn they_are_those_of_redis() {
        let mut random = Random::seeded(1);
        assert!((random.next() - 0.041_630_344_484_761).abs() < 1e-12);
    }
}
