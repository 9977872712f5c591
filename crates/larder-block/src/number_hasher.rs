//! A hash of a few instructions, for tables of numbers that nobody can choose so that they collide, or that are so
//! small that it would not matter.

use std::hash::{BuildHasherDefault, Hasher};

/// For `HashMap`.
pub(crate) type BuildNumberHasher = BuildHasherDefault<NumberHasher>;

/// 2^64 by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl NumberHasher {
    #[allow(clippy::cast_possible_truncation)] // both halves are folded into the lower one
    fn add(&mut self, number: u64) {
        let product = u128::from(self.0.rotate_left(21) ^ number) * u128::from(FACTOR);
        self.0 = (product ^ (product >> 64)) as u64;
    }
}

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    fn write_u16(&mut self, number: u16) {
        self.add(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_isize(&mut self, number: isize) {
        self.add(number.cast_unsigned() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    /// Of as many buckets as numbers, about 1 - 1/e are hit by numbers at random.
    #[test]
    fn numbers_in_order_and_in_strides_are_spread() {
        let hasher = BuildNumberHasher::default();
        for stride in [1, 8, 128, 4096, 1 << 20, 1 << 40] {
            let hashes = (0..1024_u64).map(|number| hasher.hash_one((3_u16, number * stride)));
            let (low, high): (HashSet<u64>, HashSet<u64>) =
                hashes.map(|hash| (hash % 1024, hash >> 57)).unzip();
            assert!(low.len() > 300, "{stride}: {} buckets of 1024", low.len());
            assert!(high.len() > 64, "{stride}: {} tags of 128", high.len());
        }
    }
}
