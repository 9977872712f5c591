//! Remembers hashes that left, for about as long as the queue that they left is long. No keys, no
//! lists: a table of marks with the time when each was left, overwritten by whoever hashes to the
//! same place.

use crate::key::KeyHash;

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    fingerprint: u32,
    time: u32,
}

#[derive(Debug)]
pub(crate) struct Ghost {
    marks: Vec<Mark>,
    /// Counts departures; wraps around.
    time: u32,
}

impl Ghost {
    /// A ghost that takes at most this much memory, and at least a little.
    pub(crate) fn of_bytes(bytes: u64) -> Self {
        let marks = usize::try_from(bytes).unwrap_or(usize::MAX) / size_of::<Mark>();
        Self { marks: vec![Mark::default(); marks.max(1)], time: 0 }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.marks.len() * size_of::<Mark>()) as u64
    }

    pub(crate) fn remember(&mut self, hash: KeyHash) {
        self.time = self.time.wrapping_add(1);
        let slot = self.slot(hash);
        self.marks[slot] = Mark { fingerprint: fingerprint(hash), time: self.time };
    }

    /// Whether `hash` left within the last `window` departures.
    pub(crate) fn recalls(&mut self, hash: KeyHash, window: u32) -> bool {
        let slot = self.slot(hash);
        let mark = std::mem::take(&mut self.marks[slot]);
        let recalled =
            mark.fingerprint == fingerprint(hash) && self.time.wrapping_sub(mark.time) <= window;
        if !recalled {
            self.marks[slot] = mark;
        }
        recalled
    }

    fn slot(&self, hash: KeyHash) -> usize {
        usize::try_from(hash.spread_over(self.marks.len() as u64)).expect("below a table length")
    }
}

/// Never 0, which marks an empty place.
fn fingerprint(hash: KeyHash) -> u32 {
    #[allow(clippy::cast_possible_truncation)] // the lower bits are what is wanted
    let low = hash.0 as u32;
    low | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recalls_within_the_window_only() {
        let mut ghost = Ghost::of_bytes(8 << 10);
        let key = |i: u64| KeyHash::of(&i.to_le_bytes());
        ghost.remember(key(0));
        assert!(!ghost.recalls(key(1), 10));
        (100..105).for_each(|i| ghost.remember(key(i)));
        assert!(!ghost.recalls(key(0), 4));
        assert!(ghost.recalls(key(0), 5));
        assert!(!ghost.recalls(key(0), 5), "a recall is taken once");
        assert!(!ghost.recalls(KeyHash(0), 5), "an empty place recalls nothing");
    }
}
