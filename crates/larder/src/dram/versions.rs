//! Version numbers for the values of a key; they only grow.

use crate::base::sync::atomic::{AtomicU64, Ordering};

/// Number of counters that keys share, so that threads do not contend for one cache line.
const COUNTERS: usize = if cfg!(shuttle) { 2 } else { 16 };
/// Given versions from here on do not raise the counters, which could overflow otherwise.
const RAISED_END: u64 = 1 << 63;

/// The counters of a cache, or of all caches of a set: the versions of a key also grow when it moves from one shard
/// to another.
#[derive(Debug)]
pub(crate) struct Versions {
    counters: Box<[Counter]>,
    /// Extracts the user's key from a key with a prefix.
    key_of: fn(&[u8]) -> &[u8],
}

#[repr(align(64))]
#[derive(Debug)]
struct Counter(AtomicU64);

impl Versions {
    /// Versions after `first`.
    pub(crate) fn after(first: u64) -> Self {
        let counters = (0..COUNTERS).map(|_| Counter(AtomicU64::new(first))).collect();
        Self { counters, key_of: |key| key }
    }

    /// For caches in which a key has several names.
    pub(crate) fn of_names(key_of: fn(&[u8]) -> &[u8]) -> Self {
        Self { key_of, ..Self::after(0) }
    }

    /// No later version is smaller than `first`.
    pub(crate) fn raise_to(&self, first: u64) {
        self.counters.iter().for_each(|it| _ = it.0.fetch_max(first, Ordering::Relaxed));
    }

    /// A version that is larger than all earlier ones of this key, except those given from 2^63 on; never 0.
    pub(crate) fn next(&self, key: &[u8]) -> u64 {
        self.of(key).fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1)
    }

    /// Records that a caller gave `key` this version: later ones must be larger.
    pub(crate) fn note_given(&self, key: &[u8], version: u64) {
        if version < RAISED_END {
            self.of(key).fetch_max(version, Ordering::Relaxed);
        }
    }

    /// Clients see versions, and can conclude which keys share a counter. So the choice must not depend on the hash
    /// of keys.
    fn of(&self, name: &[u8]) -> &AtomicU64 {
        let key = (self.key_of)(name);
        let tail = key.last_chunk::<8>().map_or_else(
            || key.iter().fold(0, |tail, byte| tail << 8 | u64::from(*byte)),
            |tail| u64::from_le_bytes(*tail),
        );
        let spread = tail.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.counters[usize::try_from(spread).unwrap_or(0) % COUNTERS].0
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_key_grow_beyond_those_that_were_given() {
        let versions = Versions::after(7);
        let next = || versions.next(b"bread");
        assert_eq!([next(), next()], [8, 9]);
        versions.note_given(b"bread", 1 << 60);
        versions.note_given(b"bread", 5);
        assert_eq!([next(), next()], [(1 << 60) + 1, (1 << 60) + 2]);
        versions.note_given(b"bread", u64::MAX);
        assert_eq!(next(), (1 << 60) + 3);
    }

    #[test]
    fn no_version_is_zero() {
        assert_eq!(Versions::after(u64::MAX).next(b"bread"), 1);
    }

    #[test]
    fn versions_of_a_key_grow_whatever_it_is_called() {
        let versions = Versions::of_names(|name| name.strip_prefix(b"at 2: ").unwrap_or(name));
        versions.raise_to(7);
        let names: [&[u8]; 4] = [b"rye", b"at 2: rye", b"rye", b"at 2: rye"];
        assert_eq!(names.map(|name| versions.next(name)), [8, 9, 10, 11]);
        versions.raise_to(5);
        assert_eq!(versions.next(b"rye"), 12);
    }

    #[test]
    fn keys_are_spread_over_the_counters() {
        let versions = Versions::after(0);
        for key in 0..16_000_u64 {
            versions.next(&key.to_le_bytes());
            versions.next(format!("user:{key}").as_bytes());
        }
        assert!(versions.counters.iter().all(|counter| counter.0.load(Ordering::Relaxed) > 1000));
    }
}
