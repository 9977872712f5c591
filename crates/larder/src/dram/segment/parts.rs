//! Places in a segment from which its records can be followed.
//!
//! The length of a record is in the record. So a thread that reads all records of a segment that is cold in the caches
//! would wait for memory once a record, one wait after the other. A segment is divided into parts of equal length, and
//! the first record of each is known: a thread that follows all parts in turn has their next records fetched at the
//! same time.

use crate::base::sync::atomic::{AtomicU32, Ordering};

/// One part for this number of bytes of a segment, at most [`PARTS_MAX`]. Under shuttle segments are short.
const PART_BYTES: usize = if cfg!(shuttle) { 64 } else { 16 << 10 };
/// Most parts, and so most runs: about as many memory accesses as a core has in flight.
pub(in crate::dram) const PARTS_MAX: usize = 16;

/// The first record of each part that a record has reached.
#[derive(Debug)]
pub(super) struct Parts {
    /// The offset of the first record that begins in the part or after it. A power of two of them.
    begins: Box<[AtomicU32]>,
    /// Number of parts whose first record is known.
    begun: AtomicU32,
}

/// Records from an offset to the next part's first record, or to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dram) struct Run {
    pub(in crate::dram) at: usize,
    pub(in crate::dram) end: usize,
}

impl Parts {
    pub(super) fn of_segment(bytes: usize) -> Self {
        let count = 1 << (bytes / PART_BYTES).clamp(1, PARTS_MAX).ilog2();
        let begins = (0..count).map(|_| AtomicU32::new(0)).collect();
        Self { begins, begun: AtomicU32::new(0) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.begins)
    }

    /// The segment of `capacity` bytes is filled from its start again.
    pub(super) fn restart(&self) {
        self.begun.store(0, Ordering::Relaxed);
    }

    /// The segment's writer is about to publish a record at this offset.
    #[inline]
    pub(super) fn note(&self, at: usize, capacity: usize) {
        let begun = self.begun.load(Ordering::Relaxed) as usize;
        let shift = self.begins.len().trailing_zeros();
        if begun < self.begins.len() && at >= (begun * capacity) >> shift {
            self.begin(begun, at, capacity);
        }
    }

    #[cold]
    fn begin(&self, begun: usize, at: usize, capacity: usize) {
        let offset = u32::try_from(at).expect("a record that follows others begins below 4 GiB");
        let parts = self.begins.len();
        let reached = |part: &usize| at >= part * capacity / parts;
        let new = (begun..parts).take_while(reached);
        let count = new.map(|part| self.begins[part].store(offset, Ordering::Relaxed)).count();
        let begun = u32::try_from(begun + count).expect("there are few parts");
        self.begun.store(begun, Ordering::Relaxed);
    }

    /// The records up to `end`, which was loaded before with `Acquire`: every record is in one run.
    pub(super) fn runs(&self, end: usize) -> Vec<Run> {
        let begun = self.begun.load(Ordering::Relaxed) as usize;
        let begins: Vec<usize> =
            self.begins[..begun].iter().map(|at| at.load(Ordering::Relaxed) as usize).collect();
        let ends = begins.iter().skip(1).copied().chain([end]);
        let runs = begins.iter().zip(ends).map(|(&at, next)| Run { at, end: next.min(end) });
        runs.filter(|run| run.at < run.end).collect()
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    const CAPACITY: usize = 4 * PART_BYTES;

    fn runs(records: &[usize], end: usize) -> Vec<(usize, usize)> {
        let parts = Parts::of_segment(CAPACITY);
        records.iter().for_each(|&at| parts.note(at, CAPACITY));
        parts.runs(end).into_iter().map(|run| (run.at, run.end)).collect()
    }

    #[test]
    fn each_part_begins_with_its_first_record() {
        let part = PART_BYTES;
        assert_eq!(runs(&[], 0), []);
        assert_eq!(runs(&[0, 8], 20), [(0, 20)]);
        let all = [0, 8, part - 4, part + 4, 2 * part, 3 * part - 8, 3 * part + 8];
        let wanted = [
            (0, part + 4),
            (part + 4, 2 * part),
            (2 * part, 3 * part + 8),
            (3 * part + 8, CAPACITY),
        ];
        assert_eq!(runs(&all, CAPACITY), wanted);
    }

    #[test]
    fn a_long_record_leaves_parts_without_a_record() {
        let (part, end) = (PART_BYTES, CAPACITY - 4);
        assert_eq!(runs(&[0, 8, 3 * part + 4], end), [(0, 3 * part + 4), (3 * part + 4, end)]);
        assert_eq!(runs(&[0], end), [(0, end)]);
    }

    #[test]
    fn a_segment_that_is_filled_again_forgets() {
        let parts = Parts::of_segment(CAPACITY);
        [0, PART_BYTES, 2 * PART_BYTES].iter().for_each(|&at| parts.note(at, CAPACITY));
        parts.restart();
        assert_eq!(parts.runs(0), []);
        [0, PART_BYTES + 8].iter().for_each(|&at| parts.note(at, CAPACITY));
        let wanted = [(0, PART_BYTES + 8), (PART_BYTES + 8, PART_BYTES + 60)];
        let runs = parts.runs(PART_BYTES + 60);
        assert_eq!(runs.iter().map(|run| (run.at, run.end)).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn short_segments_have_one_part() {
        let count = |bytes| Parts::of_segment(bytes).begins.len();
        let bytes = [1, PART_BYTES, 2 * PART_BYTES, 7 * PART_BYTES, 1000 * PART_BYTES];
        assert_eq!(bytes.map(count), [1, 1, 2, 4, PARTS_MAX]);
    }
}
