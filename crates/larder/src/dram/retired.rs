//! Things that the tier does not need any more, but that lock-free readers may still use.

use super::ghost::Piece;
use super::published::Old;
use super::table::Bucket;

/// Waits for readers to leave: see [`Readers`](super::readers::Readers).
#[derive(Debug)]
pub(crate) enum Retired {
    /// A table that was replaced.
    Buckets(#[expect(dead_code, reason = "it is there to be dropped")] Old<Bucket>),
    /// Pieces of the ghost that were replaced.
    Ghost(#[expect(dead_code, reason = "it is there to be dropped")] Old<Piece>),
    /// A slot whose segment no entry names any more, and the memory of that segment.
    Slot { slot: u32, bytes: usize },
}

impl From<Old<Bucket>> for Retired {
    fn from(buckets: Old<Bucket>) -> Self {
        Self::Buckets(buckets)
    }
}

impl From<Old<Piece>> for Retired {
    fn from(pieces: Old<Piece>) -> Self {
        Self::Ghost(pieces)
    }
}
