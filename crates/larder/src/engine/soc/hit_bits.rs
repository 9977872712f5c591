//! Which objects of each bucket were read from flash since the bucket was last written: one bit for each object.
//!
//! A look-up sets the bit of the object's position in its bucket. The next write of the bucket turns the bits into
//! predictions on flash and clears them. A look-up does not hold the bucket's lock, so the bit of one that is overtaken
//! by a write may be lost or name another object of the bucket: what is evicted next may change, no answer does.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of memory per bucket.
pub(super) const BUCKET_BYTES: usize = size_of::<AtomicU32>();

/// The bits of one bucket. Objects whose positions differ by a multiple of 32 share a bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hits(u32);

impl Hits {
    /// Whether the object at this position was hit, or one that shares its bit.
    pub(super) fn has(self, position: usize) -> bool {
        self.0 & bit(position) != 0
    }

    /// The same with a hit of the object at this position.
    #[cfg(test)]
    pub(super) fn with(self, position: usize) -> Self {
        Self(self.0 | bit(position))
    }
}

/// The bits of all buckets.
#[derive(Debug)]
pub(super) struct HitBits {
    words: Vec<AtomicU32>,
}

impl HitBits {
    /// The bits of `buckets` buckets, without a hit.
    pub(super) fn new(buckets: u64) -> Self {
        Self { words: (0..buckets).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Notes that the object at this position of bucket `number` was hit.
    pub(super) fn note(&self, number: u64, position: usize) {
        let word = self.word(number);
        // A read first: most hits find their bit set, and need no exclusive cache line.
        if word.load(Ordering::Relaxed) & bit(position) == 0 {
            word.fetch_or(bit(position), Ordering::Relaxed);
        }
    }

    /// The hits since the last write of the bucket.
    pub(super) fn of(&self, number: u64) -> Hits {
        Hits(self.word(number).load(Ordering::Relaxed))
    }

    /// The bucket is written: positions change.
    pub(super) fn clear(&self, number: u64) {
        self.word(number).store(0, Ordering::Relaxed);
    }

    fn word(&self, number: u64) -> &AtomicU32 {
        &self.words[usize::try_from(number).expect("a bucket number")]
    }
}

fn bit(position: usize) -> u32 {
    1 << (position % u32::BITS as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_of_one_position_and_one_bucket_until_it_is_cleared() {
        let bits = HitBits::new(3);
        bits.note(1, 4);
        bits.note(1, 31);
        bits.note(1, 4);
        let marked: Vec<usize> = (0..32).filter(|&position| bits.of(1).has(position)).collect();
        assert_eq!(marked, [4, 31]);
        assert!(bits.of(1).has(36), "positions 4 and 36 share a bit");
        assert_eq!((bits.of(0), bits.of(2)), (Hits::default(), Hits::default()));
        bits.clear(1);
        assert_eq!(bits.of(1), Hits::default());
    }
}
