//! The segments of the tier: memory from the pool, numbered so that readers find it, and freed when no reader can: at
//! once if none ever could, else when its last reader has left.

use super::index::Location;
use super::pool::{FreedSegment, Pool};
use super::readers::{ReadProof, Readers};
use super::retired::RetiredMemory;
use super::segment::{Share, Writer};
use super::slots::{SlotSegment, Slots};

/// Number of checks for readers before the locks are taken again.
const LOOKS: u32 = 128;

/// The memory of all segments. A segment that has a number stays in its slot until no reader can find it any more; only
/// then its memory counts as freed.
#[derive(Debug)]
pub(super) struct TierSegments {
    pool: Pool,
    slots: Slots,
}

impl TierSegments {
    pub(super) fn new(budget_bytes: usize, segment_bytes: usize) -> Self {
        Self { pool: Pool::new(budget_bytes, segment_bytes), slots: Slots::new() }
    }

    /// The budget.
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Memory of the segments besides that for records.
    pub(super) fn overhead_bytes(&self) -> usize {
        self.slots.memory_bytes()
    }

    /// The segment that an index entry names, while the entry's shard is held.
    #[inline]
    pub(super) fn get<'a>(&'a self, location: Location, held: &'a ReadProof) -> SlotSegment<'a> {
        self.slots.get(location, held)
    }

    /// Gives the segment of a writer a number. `None` if there is none left; then the segment is given back, and
    /// `other_bytes` of the budget are used otherwise.
    pub(super) fn number(&self, writer: &Writer, other_bytes: usize) -> Option<u32> {
        let segment = writer.segment();
        let slot = self.slots.fill(segment);
        if slot.is_none() {
            self.pool.give_back(segment.clone(), other_bytes);
        }
        slot
    }

    /// Gives back a segment that no index entry names any more. It is reused when it has no pins.
    pub(super) fn free(
        &self,
        segment: Share,
        other_bytes: usize,
        readers: &Readers<RetiredMemory>,
    ) {
        self.pool.give_back(segment, other_bytes);
        self.reclaim(readers);
    }

    /// Frees retired memory without readers. It does not wait for readers, unless preempted readers hold too much
    /// memory of long items: that memory is over the budget.
    pub(super) fn reclaim(&self, readers: &Readers<RetiredMemory>) {
        self.retire_gone(readers);
        self.end(readers.collect());
        while self.pool.has_many_retired() {
            // Other threads may have given up more segments since, and not retired them yet.
            self.retire_gone(readers);
            self.end(readers.collect_soon(LOOKS));
        }
    }

    fn retire_gone(&self, readers: &Readers<RetiredMemory>) {
        for FreedSegment { segment, bytes } in self.pool.take_gone() {
            match segment.slot() {
                0 => self.pool.note_freed(bytes), // no reader could find it
                slot => readers.retire(RetiredMemory::Slot { slot, bytes }),
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
