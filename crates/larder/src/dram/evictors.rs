//! Evictors make room: a few at a time, each with its own open segments for reinserted records.
//!
//! One evictor would be enough for the work. But with more threads than cores it is often preempted, or waits for the
//! lock of an index shard whose holder is preempted. If it were the only one, all callers with new items would wait
//! with it.

use super::lane::Lane;
use super::lock;
use super::queues::Queue;
use super::threshold::SegmentStats;
use crate::base::sync::{Mutex, MutexGuard};

/// Maximum number of evictors at a time.
const EVICTORS_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Evictors(Box<[Mutex<Evictor>]>);

#[derive(Debug, Default)]
pub(super) struct Evictor {
    /// Open segments for reinserted records.
    pub(super) lane: Lane,
    small: SegmentStats,
    main: SegmentStats,
}

impl Evictor {
    /// The evictor's statistics of the segments of a queue.
    pub(super) fn seen(&mut self, queue: Queue) -> &mut SegmentStats {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }
}

impl Evictors {
    /// As many as there are lanes for new items, up to the maximum: both keep segments open, of which a small budget
    /// has few.
    pub(super) fn beside(lanes: usize) -> Self {
        assert!(lanes > 0, "there is at least one lane");
        Self((0..lanes.clamp(1, EVICTORS_MAX)).map(|_| Mutex::default()).collect())
    }

    /// The first free evictor. Waits if all are busy.
    pub(super) fn free_one(&self) -> MutexGuard<'_, Evictor> {
        let free = self.0.iter().find_map(|evictor| evictor.try_lock().ok());
        free.unwrap_or_else(|| lock(&self.0[0]))
    }

    /// Locks all evictors, when their work is done.
    pub(super) fn all(&self) -> Vec<MutexGuard<'_, Evictor>> {
        self.0.iter().map(lock).collect()
    }

    /// The evictors that are not busy.
    pub(super) fn idle(&self) -> Vec<MutexGuard<'_, Evictor>> {
        self.0.iter().filter_map(|evictor| evictor.try_lock().ok()).collect()
    }
}
