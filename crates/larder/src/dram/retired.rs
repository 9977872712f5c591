//! What the tier has no use for any more, but readers without a lock may still look at.

use super::DramTier;
use super::ghost::Piece;
use super::pins::Share;
use super::pool::Gone;
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

impl DramTier {
    /// Gives back a segment that no index entry names any more. It is used again when nobody pins it.
    pub(super) fn free(&self, segment: Share) {
        self.pool.give_back(segment, self.other_bytes());
        self.reclaim();
    }

    /// Frees what no reader looks at any more. Waits for nobody, unless readers who were interrupted keep
    /// so many long items that they have to be borne in mind: those are over the budget.
    pub(super) fn reclaim(&self) {
        let readers = self.index.readers();
        for Gone { segment, bytes } in self.pool.take_gone() {
            match segment.slot() {
                0 => self.pool.note_freed(bytes), // nobody could find it
                slot => readers.retire(Retired::Slot { slot, bytes }),
            }
        }
        self.end(readers.collect());
        while self.pool.has_many_retired() {
            self.end(readers.collect_soon(LOOKS));
        }
    }

    fn end(&self, freed: Vec<Retired>) {
        for retired in freed {
            if let Retired::Slot { slot, bytes } = retired {
                drop(self.slots.empty(slot));
                self.pool.note_freed(bytes);
            }
        }
    }
}
