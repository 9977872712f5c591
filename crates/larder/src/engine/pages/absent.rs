//! Keys that a look-up did not find although a fingerprint was theirs.
//!
//! A client that does not find a key usually sets it next. Without this, the set would forget the object that has the
//! same fingerprint: it cannot tell them apart without a read, and the look-up has just done that.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::key::KeyHash;

/// Keys that are remembered. A later one may take the place of an earlier one.
const KEYS: usize = 4096;

/// Hashes of keys of which nothing is stored. A set's lock guards those of its keys.
#[derive(Debug)]
pub(super) struct AbsentKeys(Box<[AtomicU64]>);

impl AbsentKeys {
    pub(super) fn none() -> Self {
        Self((0..KEYS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Nothing of this hash is stored. The caller has checked that under the lock of its set.
    pub(super) fn remember(&self, hash: KeyHash) {
        self.place(hash).store(hash.0, Ordering::Relaxed);
    }

    /// Something of this hash is about to be stored. The caller holds the lock of its set.
    pub(super) fn forget(&self, hash: KeyHash) {
        if self.is_absent(hash) {
            self.place(hash).store(0, Ordering::Relaxed);
        }
    }

    /// Whether it is known that nothing of this hash is stored. The caller holds the lock of its set.
    pub(super) fn is_absent(&self, hash: KeyHash) -> bool {
        hash.0 != 0 && self.place(hash).load(Ordering::Relaxed) == hash.0
    }

    fn place(&self, hash: KeyHash) -> &AtomicU64 {
        &self.0[usize::from(hash.tag()) % KEYS]
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_absent_until_it_is_stored_or_another_takes_its_place() {
        let absent = AbsentKeys::none();
        let [one, other] = [KeyHash(7 << 32 | 5), KeyHash(8 << 32 | 5)];
        assert!(!absent.is_absent(one) && !absent.is_absent(KeyHash(0)));
        absent.remember(one);
        absent.forget(other);
        assert!(absent.is_absent(one) && !absent.is_absent(other));
        absent.remember(other);
        assert!(!absent.is_absent(one));
        absent.forget(other);
        assert!(!absent.is_absent(other));
    }
}
