//! Things that the tier does not need any more, but that lock-free readers may still use.

use super::ghost::Piece;
use super::published::ReplacedSlice;
use super::table::Bucket;

/// Waits for readers to leave: see [`Readers`](super::readers::Readers).
#[derive(Debug)]
pub(crate) enum RetiredMemory {
    /// A table that was replaced.
    Buckets(#[expect(dead_code, reason = "it is there to be dropped")] ReplacedSlice<Bucket>),
    /// Pieces of the ghost that were replaced.
    Ghost(#[expect(dead_code, reason = "it is there to be dropped")] ReplacedSlice<Piece>),
    /// A slot whose segment no entry names any more, and the memory of that segment.
    Slot { slot: u32, bytes: usize },
}

impl From<ReplacedSlice<Bucket>> for RetiredMemory {
    fn from(buckets: ReplacedSlice<Bucket>) -> Self {
        Self::Buckets(buckets)
    }
}

impl From<ReplacedSlice<Piece>> for RetiredMemory {
    fn from(pieces: ReplacedSlice<Piece>) -> Self {
        Self::Ghost(pieces)
    }
}
