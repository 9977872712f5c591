//! Numbers that tell the versions of a key's value apart.

use crate::key::KeyHash;
use crate::sync::atomic::{AtomicU32, Ordering};

/// Keys share so many counters, for threads not to wait for one cache line.
const COUNTERS: usize = if cfg!(shuttle) { 2 } else { 16 };

#[derive(Debug)]
pub(crate) struct Versions(Box<[Counter]>);

#[repr(align(64))]
#[derive(Debug)]
struct Counter(AtomicU32);

impl Versions {
    /// Those after `first`.
    pub(crate) fn after(first: u32) -> Self {
        Self((0..COUNTERS).map(|_| Counter(AtomicU32::new(first))).collect())
    }

    /// A version that no value of this hash had before, as long as 2^32 are enough; never 0.
    pub(crate) fn next(&self, hash: KeyHash) -> u32 {
        let counter = &self.0[usize::from(hash.tag()) % COUNTERS].0;
        match counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1) {
            0 => counter.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            version => version,
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn no_version_is_zero_or_comes_twice_in_a_row() {
        let versions = Versions::after(u32::MAX - 2);
        let next = || versions.next(KeyHash(7));
        assert_eq!([next(), next(), next(), next()], [u32::MAX - 1, u32::MAX, 1, 2]);
    }
}
