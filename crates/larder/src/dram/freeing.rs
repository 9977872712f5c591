//! Memory that is given back: at once where nobody can look at it, else when no reader does any more.

use super::DramTier;
use super::pins::Share;
use super::pool::Gone;
use super::retired::Retired;

/// Looks at readers in the way before the locks are taken again.
const LOOKS: u32 = 128;

impl DramTier {
    /// Gives back a segment that no index entry names any more. It is used again when nobody pins it.
    pub(super) fn free(&self, segment: Share) {
        self.pool.give_back(segment, self.other_bytes());
        self.reclaim();
    }

    /// Frees what no reader looks at any more. Waits for nobody, unless readers who were interrupted keep
    /// so many long items that they have to be borne in mind: those are over the budget.
    pub(super) fn reclaim(&self) {
        self.retire_gone();
        self.end(self.index.readers().collect());
        while self.pool.has_many_retired() {
            // Others may have given more up since, and have left before they retired it.
            self.retire_gone();
            self.end(self.index.readers().collect_soon(LOOKS));
        }
    }

    fn retire_gone(&self) {
        for Gone { segment, bytes } in self.pool.take_gone() {
            match segment.slot() {
                0 => self.pool.note_freed(bytes), // nobody could find it
                slot => self.index.readers().retire(Retired::Slot { slot, bytes }),
            }
        }
    }

    fn end(&self, freed: Vec<Retired>) {
        for retired in freed {
            if let Retired::Slot { slot, bytes } = retired {
                let segment = self.slots.empty(slot);
                debug_assert!(segment.is_some(), "a slot is retired once");
                drop(segment);
                self.pool.note_freed(bytes);
            }
        }
    }
}
