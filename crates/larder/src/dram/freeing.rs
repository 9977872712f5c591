//! Frees memory: at once if no reader can see it, else when its last reader has left.

use super::DramTier;
use super::pool::FreedSegment;
use super::retired::RetiredMemory;
use super::segment::Share;

/// Number of checks for readers before the locks are taken again.
const LOOKS: u32 = 128;

impl DramTier {
    /// Gives back a segment that no index entry names any more. It is reused when it has no pins.
    pub(super) fn free(&self, segment: Share) {
        self.pool.give_back(segment, self.other_bytes());
        self.reclaim();
    }

    /// Frees retired memory without readers. It does not wait for readers, unless preempted readers hold too much
    /// memory of long items: that memory is over the budget.
    pub(super) fn reclaim(&self) {
        self.retire_gone();
        self.end(self.index.readers().collect());
        while self.pool.has_many_retired() {
            // Other threads may have given up more segments since, and not retired them yet.
            self.retire_gone();
            self.end(self.index.readers().collect_soon(LOOKS));
        }
    }

    fn retire_gone(&self) {
        for FreedSegment { segment, bytes } in self.pool.take_gone() {
            match segment.slot() {
                0 => self.pool.note_freed(bytes), // no reader could find it
                slot => self.index.readers().retire(RetiredMemory::Slot { slot, bytes }),
            }
        }
    }

    fn end(&self, freed: Vec<RetiredMemory>) {
        for retired in freed {
            if let RetiredMemory::Slot { slot, bytes } = retired {
                let segment = self.slots.empty(slot);
                debug_assert!(segment.is_some(), "a slot is retired once");
                drop(segment);
                self.pool.note_freed(bytes);
            }
        }
    }
}
