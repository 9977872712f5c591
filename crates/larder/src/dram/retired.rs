//! What the tier has no use for any more, but readers without a lock may still look at.

use super::ghost::Piece;
use super::published::Old;
use super::table::Bucket;

/// It waits for readers to leave: see [`Readers`](super::readers::Readers).
#[derive(Debug)]
pub(crate) enum Retired {
    /// A table that was replaced by another one.
    Buckets(#[expect(dead_code, reason = "it is there to be dropped")] Old<Bucket>),
    /// The ghost's, likewise.
    Ghost(#[expect(dead_code, reason = "it is there to be dropped")] Old<Piece>),
    /// A slot whose segment no entry names any more, and the memory that goes with it.
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
