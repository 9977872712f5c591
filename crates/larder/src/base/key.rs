//! Keys: their length limits, and their hash, from which everything else derives.
//!
//! The hash determines places: in the index, buckets, locks, and what a policy remembers. A client that could make
//! keys with equal hashes could fill one place and leave the others empty. So each cache has its own secret seed:
//! keys whose XXH3 hashes are equal under one seed differ under any other. XXH3 is no cryptographic hash: a client
//! that learns the seed, or the hashes of keys that it chose, can make colliding keys again. So neither may reach
//! clients.

use std::hash::{BuildHasher, Hasher, RandomState};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::base::error::{Error, ErrorKind};

/// Longest key, in bytes: lengths are stored in 16 bits.
pub(crate) const KEY_BYTES_MAX: usize = 65_535;

/// Longest value, in bytes: a power of two that fits the 28 bits for the length in a record on flash.
pub const VALUE_BYTES_MAX: usize = 128 << 20;

/// Difference between the seeds of the two hashes of a key; any odd number would do.
const MARK_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of a key (XXH3, 64 bits, with the seed of its cache). It picks bucket, filter bits and stripe. It never
/// replaces the comparison of the key itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyHash(pub(crate) u64);

/// The seeded key hash of a cache. The seed never changes while the cache has content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyHasher {
    seed: u64,
}

impl KeyHasher {
    /// For tests of single structures.
    #[cfg(test)]
    pub(crate) const UNSEEDED: Self = Self::from_seed(0);

    /// A hasher with a stored or given seed. Caches made before there were seeds have seed 0.
    pub(crate) const fn from_seed(seed: u64) -> Self {
        Self { seed }
    }

    /// A hasher with an unpredictable seed from the operating system.
    pub(crate) fn draw() -> Self {
        // `RandomState` takes its keys from the operating system; its hash of no input does not reveal them.
        Self::from_seed(RandomState::new().build_hasher().finish())
    }

    /// A hasher with the given seed, or with a random one.
    pub(crate) fn seeded_or_drawn(seed: Option<u64>) -> Self {
        seed.map_or_else(Self::draw, Self::from_seed)
    }

    pub(crate) fn seed(self) -> u64 {
        self.seed
    }

    #[inline]
    pub(crate) fn hash(self, key: &[u8]) -> KeyHash {
        KeyHash(xxh3_64_with_seed(key, self.seed))
    }

    /// The hash of a key and a second hash of it, which tells keys with equal hashes apart where whole keys would
    /// take too much memory. Keys made to collide in the first hash do not collide in the second: its seed is far
    /// from the first and equally secret.
    pub(crate) fn marked(self, hash: KeyHash, key: &[u8]) -> (u64, u64) {
        (hash.0, xxh3_64_with_seed(key, mixed(self.seed.wrapping_add(MARK_SEED))))
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: OOPSLA'14): neighbouring inputs give unrelated outputs. A counter
/// that grows by 2^64 over the golden ratio gives the SplitMix64 sequence.
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl KeyHash {
    /// The hash without a seed, for tests of single structures.
    #[cfg(test)]
    pub(crate) fn of(key: &[u8]) -> Self {
        KeyHasher::UNSEEDED.hash(key)
    }

    /// A number below `count`, from the upper bits.
    pub(crate) fn spread_over(self, count: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(count);
        u64::try_from(product >> 64).expect("the upper half of a 64 x 64 bit product")
    }

    /// A short tag for stored entries, from the lower bits: independent of [`KeyHash::spread_over`] for any real
    /// count.
    pub(crate) fn tag(self) -> u16 {
        #[allow(clippy::cast_possible_truncation)] // only the lower bits are wanted
        let tag = self.0 as u16;
        tag
    }
}

pub(crate) fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.len() > KEY_BYTES_MAX {
        let message = format!("key of {} bytes: must be at most {KEY_BYTES_MAX}", key.len());
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

pub(crate) fn check_value(value: &[u8]) -> Result<(), Error> {
    check_length(value.len())
}

pub(crate) fn check_length(value_bytes: usize) -> Result<(), Error> {
    if value_bytes > VALUE_BYTES_MAX {
        let message = format!("value of {value_bytes} bytes: must be at most {VALUE_BYTES_MAX}");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of XXH3's secret that these tests need.
    const SECRET: [u64; 7] = [
        0xbe4b_a423_396c_feb8,
        0x1cad_21f7_2c81_017c,
        0xdb97_9083_e96d_d4de,
        0x1f67_b3b7_a4a4_4072,
        0x78e5_c0cc_4ee6_79cb,
        0x2172_ffcc_7dd0_5a82,
        0x8e24_43f7_7446_08b8,
    ];

    /// Keys of 32 to 240 bytes with equal hashes under `seed`: the factor of their second word is 0.
    fn cancelled(bytes: usize, seed: u64, which: u64) -> Vec<u8> {
        let mut key = SECRET[0].wrapping_add(seed).to_le_bytes().to_vec();
        key.extend_from_slice(&which.to_le_bytes());
        key.resize(bytes, b'.');
        key
    }

    /// Two keys of 16 bytes with equal hashes without a seed: one factor is 0, and the other is added to the same
    /// sum.
    fn swapped(which: u64) -> [Vec<u8>; 2] {
        let flips = [SECRET[3] ^ SECRET[4], SECRET[5] ^ SECRET[6]];
        [[which, 0], [0, which.swap_bytes()]].map(|words| {
            let words = [words[0] ^ flips[0], words[1] ^ flips[1]];
            words.map(u64::to_le_bytes).concat()
        })
    }

    /// Keys of more than 240 bytes with equal hashes without a seed: in two stripes, a factor of one lane is 0, and
    /// what one stripe adds to the sum of the other lane, the other stripe subtracts.
    fn balanced(bytes: usize, which: u32) -> Vec<u8> {
        let lane = |secret: u64, upper: u32| (secret & 0xffff_ffff) | u64::from(upper) << 32;
        let mut key = vec![b'.'; bytes];
        key[..8].copy_from_slice(&lane(SECRET[0], which).to_le_bytes());
        key[64..72].copy_from_slice(&lane(SECRET[1], which.wrapping_neg()).to_le_bytes());
        key
    }

    /// Groups of keys with equal hashes without a seed.
    fn made_alike() -> Vec<Vec<Vec<u8>>> {
        let mut groups: Vec<Vec<Vec<u8>>> = (1..40).map(|which| swapped(which).to_vec()).collect();
        for bytes in [32, 48, 64, 100, 128, 129, 200, 240] {
            groups.push((0..64).map(|which| cancelled(bytes, 0, which)).collect());
        }
        for bytes in [241, 300, 4096] {
            groups.push((0..64).map(|which| balanced(bytes, which)).collect());
        }
        groups
    }

    #[test]
    fn keys_made_for_one_hash_have_many_under_a_seed() {
        let hashes = |group: &[Vec<u8>], hasher: KeyHasher| {
            let mut hashes: Vec<u64> = group.iter().map(|key| hasher.hash(key).0).collect();
            hashes.sort_unstable();
            hashes.dedup();
            hashes.len()
        };
        for group in made_alike() {
            assert_eq!(hashes(&group, KeyHasher::UNSEEDED), 1, "{:x?}", group[0]);
        }
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let hasher = KeyHasher::from_seed(rng.u64(..));
            for group in made_alike() {
                assert_eq!(hashes(&group, hasher), group.len(), "{hasher:?}, {:x?}", group[0]);
            }
        }
    }

    #[test]
    fn keys_made_for_one_hash_spread_over_buckets_and_tags_under_a_seed() {
        let mut rng = fastrand::Rng::with_seed(2);
        for _ in 0..20 {
            let hasher = KeyHasher::from_seed(rng.u64(..));
            let (mut buckets, mut tags) = ([0_u32; 64], [0_u32; 64]);
            for which in 0..6400 {
                let hash = hasher.hash(&cancelled(32, 0, which));
                buckets[usize::try_from(hash.spread_over(64)).unwrap()] += 1;
                tags[usize::from(hash.tag() % 64)] += 1;
            }
            // 100 on average; 6 standard deviations.
            assert!(buckets.iter().chain(&tags).all(|keys| (40..160).contains(keys)), "{hasher:?}");
        }
    }

    /// Even with a known seed.
    #[test]
    fn keys_of_one_hash_are_told_apart() {
        for seed in [0, 1, 0x1122_3344_5566_7788, !MARK_SEED] {
            let hasher = KeyHasher::from_seed(seed);
            let [one, other] = [1, 2].map(|which| cancelled(32, seed, which));
            let hash = hasher.hash(&one);
            assert_eq!(hash, hasher.hash(&other));
            assert_ne!(hasher.marked(hash, &one), hasher.marked(hash, &other));
            assert_eq!(hasher.marked(hash, &one).0, hash.0);
        }
    }

    #[test]
    fn a_seed_is_drawn_unless_it_is_given() {
        assert_eq!(KeyHasher::seeded_or_drawn(Some(7)), KeyHasher::from_seed(7));
        assert_ne!(KeyHasher::seeded_or_drawn(None), KeyHasher::seeded_or_drawn(None));
    }

    #[test]
    fn spreading_covers_the_range() {
        assert_eq!(KeyHash(0).spread_over(10), 0);
        assert_eq!(KeyHash(u64::MAX).spread_over(10), 9);
        assert_eq!(KeyHash(u64::MAX / 2).spread_over(10), 4);
    }
}
