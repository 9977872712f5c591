//! Bloom filters in DRAM, one per bucket: a miss that the filter can answer costs no flash read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one filter. With 17 objects per bucket, 128 bits and 4 probes let about 3 % of misses through.
pub(crate) const FILTER_BYTES: usize = 16;
const PROBES: u32 = 4;
/// A probe takes 7 of the 28 bits that a tag is spread over, and selects one of 128 bits.
const _: () = assert!(PROBES * 7 == 28 && FILTER_BYTES * 8 == 1 << 7);

/// The filter of an unknown bucket: it may hold anything.
pub(super) const UNKNOWN_FILTER: [u64; 2] = [u64::MAX; 2];

/// The filters of all buckets. A filter is written under its bucket's lock; reading needs no lock.
#[derive(Debug)]
pub(crate) struct Filters {
    words: Vec<[AtomicU64; 2]>,
}

impl Filters {
    pub(crate) fn new(buckets: u64) -> Self {
        let count = usize::try_from(buckets).expect("filters fit memory");
        Self { words: (0..count).map(|_| [const { AtomicU64::new(0) }; 2]).collect() }
    }

    pub(crate) fn may_hold(&self, bucket: u64, tag: u16) -> bool {
        let wanted = bits(tag);
        let [low, high] = self.get(bucket);
        low & wanted[0] == wanted[0] && high & wanted[1] == wanted[1]
    }

    /// Whether the bucket is known to be empty.
    pub(crate) fn is_empty(&self, bucket: u64) -> bool {
        self.get(bucket) == [0, 0]
    }

    /// Sets the filter of `bucket` to exactly these tags.
    pub(crate) fn rebuild(&self, bucket: u64, tags: impl Iterator<Item = u16>) {
        self.set(bucket, sum(tags));
    }

    /// Adds `filter` to the filter of `bucket`.
    pub(crate) fn add(&self, bucket: u64, filter: [u64; 2]) {
        let [low, high] = self.get(bucket);
        self.set(bucket, [low | filter[0], high | filter[1]]);
        debug_assert!(self.covers(bucket, filter), "nothing that a bucket may hold is denied");
    }

    /// Whether the filter of `bucket` contains all bits of `filter`.
    pub(crate) fn covers(&self, bucket: u64, filter: [u64; 2]) -> bool {
        let [low, high] = self.get(bucket);
        low & filter[0] == filter[0] && high & filter[1] == filter[1]
    }

    /// Estimates how many tags all filters hold together, from a sample of at least `least` filters (or all, if there
    /// are fewer). A filter with b of n bits set most likely holds n / k ln(n / (n - b)) tags of k probes. Unknown
    /// filters are assumed to hold as many as the others.
    pub(crate) fn estimated_len(&self, least: usize) -> u64 {
        const BITS: f64 = FILTER_BYTES as f64 * 8.0;
        let step = (self.words.len() / least.max(1)).max(1);
        let (mut tags, mut known) = (0.0, 0_u32);
        for words in self.words.iter().step_by(step) {
            let ones: u32 = words.iter().map(|it| it.load(Ordering::Relaxed).count_ones()).sum();
            if f64::from(ones) < BITS {
                tags += BITS / f64::from(PROBES) * (BITS / (BITS - f64::from(ones))).ln();
                known += 1;
            }
        }
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )] // an estimate
        let all = (tags / f64::from(known.max(1)) * self.words.len() as f64).round() as u64;
        all
    }

    pub(crate) fn clear(&self, bucket: u64) {
        self.set(bucket, [0, 0]);
    }

    pub(crate) fn get(&self, bucket: u64) -> [u64; 2] {
        let words = &self.words[usize::try_from(bucket).expect("a bucket number")];
        [words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed)]
    }

    pub(crate) fn set(&self, bucket: u64, value: [u64; 2]) {
        let words = &self.words[usize::try_from(bucket).expect("a bucket number")];
        words[0].store(value[0], Ordering::Relaxed);
        words[1].store(value[1], Ordering::Relaxed);
    }
}

/// A filter with these tags.
pub(crate) fn sum(tags: impl Iterator<Item = u16>) -> [u64; 2] {
    tags.map(bits).fold([0, 0], |sum, bits| [sum[0] | bits[0], sum[1] | bits[1]])
}

/// The bits of a tag, four of 128: a tag is a piece of a good hash, multiplied once more to spread it over 28 bits.
fn bits(tag: u16) -> [u64; 2] {
    let mut spread = (u64::from(tag) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36;
    let mut bits = [0; 2];
    for _ in 0..PROBES {
        bits[usize::from(spread & 64 != 0)] |= 1 << (spread & 63);
        spread >>= 7;
    }
    debug_assert_ne!(bits, [0, 0], "an empty filter holds no tag");
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::KeyHash;

    #[test]
    fn every_tag_has_bits_of_its_own() {
        let ones = |tag: u16| bits(tag).iter().map(|word| word.count_ones()).sum::<u32>();
        assert!((0..=u16::MAX).all(|tag| (2..=PROBES).contains(&ones(tag))));
    }

    #[test]
    fn holds_what_was_put_in_and_little_else() {
        let filters = Filters::new(3);
        assert!(filters.is_empty(1));
        let tags = 0..17_u16;
        filters.rebuild(1, tags.clone().map(|t| KeyHash::of(&t.to_le_bytes()).tag()));
        assert!(tags.clone().all(|t| filters.may_hold(1, KeyHash::of(&t.to_le_bytes()).tag())));
        let others = 1000..11_000_u32;
        let wrong =
            others.filter(|o| filters.may_hold(1, KeyHash::of(&o.to_le_bytes()).tag())).count();
        assert!(wrong < 600, "{wrong} of 10,000 false positives");
        assert!(filters.is_empty(0) && filters.is_empty(2));
        filters.clear(1);
        assert!(filters.is_empty(1));
    }

    #[test]
    fn says_about_how_many_tags_there_are() {
        let filters = Filters::new(1000);
        assert_eq!(filters.estimated_len(10), 0);
        let tags =
            |bucket: u64| (0..20).map(move |t| KeyHash::of(&(bucket * 20 + t).to_le_bytes()).tag());
        (0..1000).for_each(|bucket| filters.rebuild(bucket, tags(bucket)));
        for least in [100, 1000, 5000] {
            let about = filters.estimated_len(least);
            assert!((19_000..21_000).contains(&about), "{about} of 20,000 from {least}");
        }
        (0..500).for_each(|bucket| filters.set(bucket, UNKNOWN_FILTER));
        let about = filters.estimated_len(1000);
        assert!((19_000..21_000).contains(&about), "{about} of 20,000, half of them unknown");
    }
}
