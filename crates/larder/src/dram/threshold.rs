//! The frequency that a record needs to be reinserted when its segment is evicted.
//!
//! The policy sets a minimum ([`frequency_needed`]). But if hits come much faster than new items, nearly all records
//! of a segment reach it: all would be copied, no space would be freed, and a caller that brings an item would copy
//! segment after segment. So a part of a segment leaves in any case, the records with the lowest frequency. The
//! threshold comes from the previous segment, because segments that are evicted one after the other were filled one
//! after the other.

use super::policy::frequency_needed;
use super::queues::Queue;
use super::table::FREQUENCY_MAX;
use crate::config::DramPolicy;

/// This fraction of a segment (reciprocal) is free afterwards, or was dead before.
const FREED_PART: usize = 8;
/// With fewer records there is no estimate: a single long record cannot leave in part.
const RECORDS_MIN: usize = 16;
#[allow(clippy::cast_possible_truncation)] // it is 3
const CLASSES: usize = FREQUENCY_MAX as usize + 1;

/// Statistics of the last segment of a queue.
#[derive(Debug, Default)]
pub(super) struct SegmentStats {
    /// Bytes of its live records, by frequency.
    living: [usize; CLASSES],
    /// Bytes of the segment; 0 if there is no estimate from it.
    capacity: usize,
}

/// The reinsertion threshold for the records of a segment.
#[derive(Debug)]
pub(super) struct ReinsertionThreshold {
    /// Records with at least this frequency are reinserted.
    frequency: u64,
    /// Except for this number of bytes of records with exactly this frequency.
    too_many: usize,
    living: [usize; CLASSES],
    records: usize,
    capacity: usize,
}

impl SegmentStats {
    /// The threshold for the next segment of the queue, which has `capacity` bytes.
    pub(super) fn threshold(
        &self,
        policy: DramPolicy,
        queue: Queue,
        capacity: usize,
    ) -> ReinsertionThreshold {
        let needed = frequency_needed(policy, queue);
        debug_assert!(needed <= FREQUENCY_MAX, "{policy:?} asks for what no item can have");
        let (mut frequency, mut too_many) = (needed, 0);
        let kept: usize = self.living[class(needed)..].iter().sum();
        let may_be_kept = capacity - capacity / FREED_PART;
        let is_alike = self.capacity == capacity;
        let mut excess = if is_alike { kept.saturating_sub(may_be_kept) } else { 0 };
        while excess > 0 {
            too_many = excess.min(self.living[class(frequency)]);
            excess -= too_many;
            if excess > 0 {
                (frequency, too_many) = (frequency + 1, 0);
            }
        }
        debug_assert!(frequency <= FREQUENCY_MAX + 1, "no record is above the highest frequency");
        ReinsertionThreshold { frequency, too_many, living: [0; CLASSES], records: 0, capacity }
    }
}

impl ReinsertionThreshold {
    /// Whether a live record of this frequency is reinserted.
    pub(super) fn is_passed_by(&self, frequency: u64) -> bool {
        frequency > self.frequency || frequency == self.frequency && self.too_many == 0
    }

    /// Records a live record of `bytes` bytes.
    pub(super) fn note(&mut self, frequency: u64, bytes: usize) {
        self.living[class(frequency)] += bytes;
        debug_assert!(self.living.iter().sum::<usize>() <= self.capacity, "a record is noted once");
        self.records += 1;
        if frequency == self.frequency {
            self.too_many = self.too_many.saturating_sub(bytes);
        }
    }

    /// The statistics for the next segment.
    pub(super) fn into_seen(self) -> SegmentStats {
        let capacity = if self.records < RECORDS_MIN { 0 } else { self.capacity };
        SegmentStats { living: self.living, capacity }
    }
}

fn class(frequency: u64) -> usize {
    usize::try_from(frequency).unwrap_or(usize::MAX).min(CLASSES - 1)
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    const CAPACITY: usize = 8000;

    /// Bytes evicted from a segment like the previous one; 10-byte records have these frequencies.
    fn leaving(queue: Queue, records: [usize; CLASSES]) -> [usize; CLASSES] {
        let mut seen = SegmentStats::default();
        let mut leaving = [0; CLASSES];
        for _ in 0..2 {
            leaving = [0; CLASSES];
            let mut threshold = seen.threshold(DramPolicy::S3Fifo, queue, CAPACITY);
            for (frequency, leaving) in (0..).zip(&mut leaving) {
                for _ in 0..records[class(frequency)] {
                    *leaving += if threshold.is_passed_by(frequency) { 0 } else { 10 };
                    threshold.note(frequency, 10);
                }
            }
            seen = threshold.into_seen();
        }
        leaving
    }

    #[test]
    fn where_enough_leaves_the_policy_decides() {
        assert_eq!(leaving(Queue::Main, [100, 200, 300, 200]), [1000, 0, 0, 0]);
        assert_eq!(leaving(Queue::Small, [50, 50, 300, 400]), [500, 500, 0, 0]);
        assert_eq!(leaving(Queue::Main, [0, 200, 300, 200]), [0, 0, 0, 0], "an eighth was dead");
    }

    #[test]
    fn where_all_is_hot_those_with_the_lowest_frequency_leave() {
        assert_eq!(leaving(Queue::Main, [0, 200, 300, 300]), [0, 1000, 0, 0]);
        assert_eq!(leaving(Queue::Main, [20, 50, 400, 330]), [200, 500, 300, 0]);
        assert_eq!(leaving(Queue::Main, [0, 0, 0, 800]), [0, 0, 0, 1000]);
        assert_eq!(leaving(Queue::Small, [0, 0, 0, 800]), [0, 0, 0, 1000]);
    }

    #[test]
    fn nothing_is_concluded_from_a_few_long_records_or_a_segment_of_another_length() {
        let seen = |records, capacity| {
            let mut threshold =
                SegmentStats::default().threshold(DramPolicy::S3Fifo, Queue::Main, capacity);
            (0..records).for_each(|_| threshold.note(3, capacity / records));
            threshold.into_seen()
        };
        let stays = |seen: SegmentStats| {
            seen.threshold(DramPolicy::S3Fifo, Queue::Main, CAPACITY).is_passed_by(3)
        };
        assert!(stays(seen(1, CAPACITY)));
        assert!(stays(seen(800, 2 * CAPACITY)));
        assert!(!stays(seen(800, CAPACITY)));
    }
}
