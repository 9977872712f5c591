//! Remembers the hashes of evicted items, for about as long as the queue that they left is long. It has no keys, no
//! lists and no lock: it is a table of fingerprints with the time of eviction, and any hash with the same place
//! overwrites the mark. Its memory is allocated on first use, piece by piece. When the budget changes, the table is
//! created anew, and forgets.

use std::sync::OnceLock;

use super::published::{PublishedSlice, ReplacedSlice};
use super::readers::{LockProofAlone, ReadProof, Readers};
use crate::base::key::KeyHash;
use crate::base::prefetch::prefetch;
use crate::base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A mark is a fingerprint above the time of eviction.
const TIME_BITS: u32 = 12;
const TIME_MASK: u32 = (1 << TIME_BITS) - 1;
/// Ticks of the clock while the table fills once. A window is at most half of the range of the time field.
const TICKS: u32 = 1 << 8;
/// Maximum number of marks of a piece.
const PIECE_MARKS: usize = 64 << 10;
const _: () =
    assert!(TICKS <= TIME_MASK / 2, "a window is shorter than what the time can tell apart");

#[derive(Debug)]
pub(crate) struct Ghost {
    pieces: PublishedSlice<Piece>,
    bytes: AtomicUsize,
    demotions: AtomicU32,
}

/// A part of the table; all are equally long.
#[derive(Debug)]
pub(crate) struct Piece {
    len: usize,
    marks: OnceLock<Box<[AtomicU32]>>,
}

/// Creates a table that takes at most about this much memory.
fn pieces_of(bytes: usize) -> Box<[Piece]> {
    let marks = (bytes / size_of::<AtomicU32>()).max(1);
    let count = marks.div_ceil(PIECE_MARKS);
    (0..count).map(|_| Piece { len: marks / count, marks: OnceLock::new() }).collect()
}

fn bytes_of(pieces: &[Piece]) -> usize {
    pieces.iter().map(|piece| piece.len * size_of::<AtomicU32>()).sum()
}

impl Ghost {
    /// Creates a ghost that takes at most this much memory, and at least a little.
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        let pieces = pieces_of(bytes);
        Self {
            bytes: AtomicUsize::new(bytes_of(&pieces)),
            pieces: PublishedSlice::new(pieces),
            demotions: AtomicU32::new(0),
        }
    }

    /// Restarts with a table of `bytes` bytes. The caller must be the only one.
    pub(crate) fn resize<R: From<ReplacedSlice<Piece>>>(
        &self,
        bytes: usize,
        readers: &Readers<R>,
        alone: &mut LockProofAlone,
    ) {
        let pieces = pieces_of(bytes);
        debug_assert!(
            bytes_of(&pieces) <= bytes.max(size_of::<AtomicU32>()),
            "it keeps its part of the budget"
        );
        self.bytes.store(bytes_of(&pieces), Ordering::Relaxed);
        self.pieces.replace(pieces, readers, alone);
    }

    /// Memory when all pieces are allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Prefetches the mark of a hash that will be looked up or stored soon.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash, held: &ReadProof) {
        if let Some(mark) = self.mark(hash, held) {
            prefetch(mark);
        }
    }

    pub(crate) fn remember(&self, hash: KeyHash, held: &ReadProof) {
        let demotions = self.demotions.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mark = fingerprint(hash) | self.tick(demotions, held);
        debug_assert!(
            mark & !TIME_MASK == fingerprint(hash),
            "a time has its bits, and a fingerprint the others"
        );
        let (piece, at) = self.place(hash, held);
        let make = || (0..piece.len).map(|_| AtomicU32::new(0)).collect();
        piece.marks.get_or_init(make)[at].store(mark, Ordering::Relaxed);
    }

    /// Whether `hash` was evicted within about the last `window` demotions. It stays remembered: a caller that finds no
    /// room may come again.
    pub(crate) fn recalls(&self, hash: KeyHash, window: usize, held: &ReadProof) -> bool {
        let Some(mark) = self.mark(hash, held) else { return false };
        let found = mark.load(Ordering::Relaxed);
        if found & !TIME_MASK != fingerprint(hash) {
            return false;
        }
        let now = self.tick(self.demotions.load(Ordering::Relaxed), held);
        let age = now.wrapping_sub(found) & TIME_MASK;
        let window = window.div_ceil(self.demotions_a_tick(held) as usize);
        age as usize <= window.min(TIME_MASK as usize / 2)
    }

    /// Removes the mark of `hash`, which is there again.
    pub(crate) fn forget(&self, hash: KeyHash, held: &ReadProof) {
        let Some(mark) = self.mark(hash, held) else { return };
        if mark.load(Ordering::Relaxed) & !TIME_MASK == fingerprint(hash) {
            mark.store(0, Ordering::Relaxed);
        }
    }

    fn tick(&self, demotions: u32, held: &ReadProof) -> u32 {
        (demotions / self.demotions_a_tick(held)) & TIME_MASK
    }

    fn demotions_a_tick(&self, held: &ReadProof) -> u32 {
        u32::try_from(self.marks(held)).unwrap_or(u32::MAX).div_ceil(TICKS)
    }

    fn marks(&self, held: &ReadProof) -> usize {
        let pieces = self.pieces.get(held);
        pieces.len() * pieces[0].len
    }

    fn mark<'a>(&'a self, hash: KeyHash, held: &'a ReadProof) -> Option<&'a AtomicU32> {
        let (piece, at) = self.place(hash, held);
        Some(&piece.marks.get()?[at])
    }

    #[inline]
    fn place<'a>(&'a self, hash: KeyHash, held: &'a ReadProof) -> (&'a Piece, usize) {
        let pieces = self.pieces.get(held);
        let spread = |hash: KeyHash, count: usize| {
            let place = hash.spread_over(count as u64);
            usize::try_from(place).expect("below a table length")
        };
        debug_assert!(
            pieces.iter().all(|piece| piece.len == pieces[0].len),
            "pieces are equally long"
        );
        let piece = &pieces[spread(hash, pieces.len())];
        // Use the lower part of the hash, because its upper bits have selected the piece.
        let rest = KeyHash(hash.0.wrapping_mul(pieces.len() as u64));
        (piece, spread(rest, piece.len))
    }
}

/// Never 0, which marks an empty place.
fn fingerprint(hash: KeyHash) -> u32 {
    #[allow(clippy::cast_possible_truncation)] // only the lower bits are wanted
    let low = hash.0 as u32;
    (low | 1) << TIME_BITS
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::super::readers::LockProof;
    use super::*;

    fn key(number: u64) -> KeyHash {
        KeyHash::of(&number.to_le_bytes())
    }

    #[test]
    fn recalls_within_the_window_only() {
        for bytes in [4 << 10, 4 << 20] {
            let (ghost, held) = (Ghost::of_bytes(bytes), &LockProof::new());
            ghost.remember(key(0), held);
            assert!(!ghost.recalls(key(1), 10, held));
            let many = bytes as u64 / 40;
            (many..2 * many).for_each(|i| ghost.remember(key(i), held));
            let window = |part: u64| usize::try_from(many * part / 10).unwrap();
            assert!(!ghost.recalls(key(0), window(4), held));
            assert!(ghost.recalls(key(0), window(11), held));
            assert!(ghost.recalls(key(0), window(11), held), "a caller without room comes again");
            ghost.forget(key(1), held);
            assert!(ghost.recalls(key(0), window(11), held));
            ghost.forget(key(0), held);
            assert!(!ghost.recalls(key(0), window(11), held));
            assert!(!ghost.recalls(KeyHash(0), 5, held), "an empty place recalls nothing");
        }
    }

    #[test]
    fn what_left_ages_ago_is_not_recalled() {
        let (ghost, held) = (Ghost::of_bytes(4), &LockProof::new());
        ghost.remember(key(0), held);
        ghost.demotions.fetch_add(3000, Ordering::Relaxed);
        assert!(!ghost.recalls(key(0), 100, held));
    }

    #[test]
    fn one_of_another_size_begins_anew() {
        let (ghost, readers) =
            (Ghost::of_bytes(1 << 20), Readers::<ReplacedSlice<Piece>>::default());
        for bytes in [4 << 10, 40 << 20, 4] {
            ghost.resize(bytes, &readers, &mut LockProofAlone::new());
            let held = &LockProof::new();
            assert!(ghost.memory_bytes() <= bytes);
            assert!(!ghost.recalls(key(0), 1, held));
            ghost.remember(key(0), held);
            assert!(ghost.recalls(key(0), 1, held));
            ghost.remember(key(0), held);
        }
        assert_eq!(readers.collect().len(), 3);
    }
}
