//! Remembers hashes that left, for about as long as the queue that they left is long. No keys, no
//! lists, no lock: a table of marks with the time when each was left, overwritten by whoever
//! hashes to the same place.

use super::prefetch::prefetch;
use crate::key::KeyHash;
use crate::sync::atomic::{AtomicU32, Ordering};

/// A mark is a fingerprint above the time of leaving.
const TIME_BITS: u32 = 12;
const TIME_MASK: u32 = (1 << TIME_BITS) - 1;
/// So many times the clock ticks while the table fills once. A window is at most half of what the
/// time can tell apart.
const TICKS: u32 = 1 << 8;

#[derive(Debug)]
pub(crate) struct Ghost {
    marks: Box<[AtomicU32]>,
    departures: AtomicU32,
}

impl Ghost {
    /// A ghost that takes at most this much memory, and at least a little.
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        let marks = (bytes / size_of::<AtomicU32>()).max(1);
        Self {
            marks: (0..marks).map(|_| AtomicU32::new(0)).collect(),
            departures: AtomicU32::new(0),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.marks)
    }

    /// Asks memory for the mark of a hash, which will be looked at or left soon.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        prefetch(self.mark(hash));
    }

    pub(crate) fn remember(&self, hash: KeyHash) {
        let departures = self.departures.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mark = fingerprint(hash) | self.tick(departures);
        self.mark(hash).store(mark, Ordering::Relaxed);
    }

    /// Whether `hash` left within about the last `window` departures. A recall is taken once.
    pub(crate) fn recalls(&self, hash: KeyHash, window: usize) -> bool {
        let mark = self.mark(hash);
        let found = mark.load(Ordering::Relaxed);
        if found & !TIME_MASK != fingerprint(hash) {
            return false;
        }
        let now = self.tick(self.departures.load(Ordering::Relaxed));
        let age = now.wrapping_sub(found) & TIME_MASK;
        let window = window.div_ceil(self.departures_a_tick() as usize);
        let recalled = age as usize <= window.min(TIME_MASK as usize / 2);
        if recalled {
            mark.store(0, Ordering::Relaxed);
        }
        recalled
    }

    fn tick(&self, departures: u32) -> u32 {
        (departures / self.departures_a_tick()) & TIME_MASK
    }

    fn departures_a_tick(&self) -> u32 {
        u32::try_from(self.marks.len()).unwrap_or(u32::MAX).div_ceil(TICKS)
    }

    fn mark(&self, hash: KeyHash) -> &AtomicU32 {
        let mark = hash.spread_over(self.marks.len() as u64);
        &self.marks[usize::try_from(mark).expect("below a table length")]
    }
}

/// Never 0, which marks an empty place.
fn fingerprint(hash: KeyHash) -> u32 {
    #[allow(clippy::cast_possible_truncation)] // the lower bits are what is wanted
    let low = hash.0 as u32;
    (low | 1) << TIME_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recalls_within_the_window_only() {
        let ghost = Ghost::of_bytes(4 << 10);
        let key = |i: u64| KeyHash::of(&i.to_le_bytes());
        ghost.remember(key(0));
        assert!(!ghost.recalls(key(1), 10));
        (100..200).for_each(|i| ghost.remember(key(i)));
        assert!(!ghost.recalls(key(0), 40));
        assert!(ghost.recalls(key(0), 110));
        assert!(!ghost.recalls(key(0), 110), "a recall is taken once");
        assert!(!ghost.recalls(KeyHash(0), 5), "an empty place recalls nothing");
    }

    #[test]
    fn what_left_ages_ago_is_not_recalled() {
        let ghost = Ghost::of_bytes(4);
        let key = |i: u64| KeyHash::of(&i.to_le_bytes());
        ghost.remember(key(0));
        ghost.departures.fetch_add(3000, Ordering::Relaxed);
        assert!(!ghost.recalls(key(0), 100));
    }
}
