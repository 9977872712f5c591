//! Counts of writes, by which a head that was asked for before a write is recognised when it arrives after it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A power of two. Two keys that share a count cost each other a head that is asked for again.
const COUNTS: usize = 4096;

/// A count of writes for each key, shared by some.
#[derive(Debug)]
pub(crate) struct Epochs {
    counts: Box<[AtomicU64]>,
    /// Keys that are about to be deleted from the cache, with the number of deletions.
    doubtful: Mutex<HashMap<Vec<u8>, u32>>,
}

/// The counts of all stores of the process: two of one name and cache see each other's writes.
static ALL: LazyLock<Epochs> = LazyLock::new(Epochs::new);

impl Epochs {
    /// Those of the process.
    pub(crate) fn of_process() -> &'static Self {
        &ALL
    }

    fn new() -> Self {
        let counts = (0..COUNTS).map(|_| AtomicU64::new(0)).collect();
        Self { counts, doubtful: Mutex::default() }
    }

    /// The count of a key.
    pub(crate) fn of(&self, key: &[u8]) -> u64 {
        self.count(key).map_or(0, |count| count.load(Ordering::SeqCst))
    }

    /// Notes a write of what the key stands for.
    pub(crate) fn advance(&self, key: &[u8]) {
        if let Some(count) = self.count(key) {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Until `settle`, what the cache has of the key is not believed.
    pub(crate) fn doubt(&self, key: &[u8]) {
        *self.doubtful().entry(key.to_vec()).or_default() += 1;
    }

    pub(crate) fn settle(&self, key: &[u8]) {
        let mut doubtful = self.doubtful();
        if let Some(times) = doubtful.get_mut(key) {
            *times -= 1;
            if *times == 0 {
                doubtful.remove(key);
            }
        }
    }

    pub(crate) fn is_doubtful(&self, key: &[u8]) -> bool {
        self.doubtful().contains_key(key)
    }

    fn doubtful(&self) -> MutexGuard<'_, HashMap<Vec<u8>, u32>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, key: &[u8]) -> Option<&AtomicU64> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let at = hasher.finish() % u64::try_from(COUNTS).unwrap_or(1);
        self.counts.get(usize::try_from(at).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_seen_by_its_key() {
        let epochs = Epochs::new();
        let before = epochs.of(b"a");
        epochs.advance(b"a");
        assert_eq!(epochs.of(b"a"), before + 1);
        let others = (0..100_u32).filter(|key| epochs.of(&key.to_le_bytes()) > 0).count();
        assert!(others < 10, "{others} of 100 keys share a count with one");
    }
}
