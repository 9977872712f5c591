//! What the tier has no use for any more, but readers without a lock may still look at.

use super::DramTier;
use super::ghost::Piece;
use super::pins::Share;
use super::published::Old;
use super::table::Bucket;

/// Looks at readers in the way before the locks are taken again.
const LOOKS: u32 = 128;

/// It waits for readers to leave: see [`Readers`](super::readers::Readers).
#[derive(Debug)]
pub(crate) enum Retired {
    /// A table that was replaced by another one.
    Buckets(#[expect(dead_code, reason = "it is there to be dropped")] Old<Bucket>),
    /// The ghost's, likewise.
    Ghost(#[expect(dead_code, reason = "it is there to be dropped")] Old<Piece>),
    /// A slot whose segment no entry names any more.
    Slot(u32),
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

impl DramTier {
    /// Gives back a segment that no index entry names any more, as soon as no reader looks at it.
    pub(super) fn free(&self, segment: Share, slot: u32) {
        self.pool.note_retired(segment.capacity());
        drop(segment);
        self.index.readers().retire(Retired::Slot(slot));
        self.reclaim();
    }

    /// Frees what no reader looks at any more. Waits for nobody, unless readers who were interrupted keep
    /// so much that it has to be borne in mind: that is over the budget.
    pub(super) fn reclaim(&self) {
        let readers = self.index.readers();
        self.end(readers.collect());
        while self.pool.has_many_retired() {
            self.end(readers.collect_soon(LOOKS));
        }
    }

    fn end(&self, freed: Vec<Retired>) {
        for retired in freed {
            if let Retired::Slot(slot) = retired
                && let Some(segment) = self.slots.empty(slot)
            {
                self.pool.give_back_retired(segment, self.other_bytes());
            }
        }
    }
}
