//! Who makes room: a few at a time, each with open segments of its own for what is reinserted.
//!
//! One alone would do for the work. But with more threads than cores it is often interrupted, or waits for the
//! lock of an index shard whose owner is; were there no other, all who bring something would wait for a core with it.

use super::bar::Seen;
use super::lane::Lane;
use super::lock;
use super::queues::Queue;
use crate::sync::{Mutex, MutexGuard};

/// At most so many at a time.
const EVICTORS_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Evictors(Box<[Mutex<Evictor>]>);

#[derive(Debug, Default)]
pub(super) struct Evictor {
    /// Where what is reinserted is appended.
    pub(super) lane: Lane,
    small: Seen,
    main: Seen,
}

impl Evictor {
    /// What it has seen of the segments of a queue.
    pub(super) fn seen(&mut self, queue: Queue) -> &mut Seen {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }
}

impl Evictors {
    /// As many as there are lanes for newcomers: both keep segments open, of which a small budget has few.
    pub(super) fn beside(lanes: usize) -> Self {
        assert!(lanes > 0, "somebody can append");
        Self((0..lanes.clamp(1, EVICTORS_MAX)).map(|_| Mutex::default()).collect())
    }

    /// The first whom nobody is. Waits if all are at work.
    pub(super) fn free_one(&self) -> MutexGuard<'_, Evictor> {
        let free = self.0.iter().find_map(|evictor| evictor.try_lock().ok());
        free.unwrap_or_else(|| lock(&self.0[0]))
    }

    /// All of them, when their work is done.
    pub(super) fn all(&self) -> Vec<MutexGuard<'_, Evictor>> {
        self.0.iter().map(lock).collect()
    }

    /// Those who are not at work.
    pub(super) fn idle(&self) -> Vec<MutexGuard<'_, Evictor>> {
        self.0.iter().filter_map(|evictor| evictor.try_lock().ok()).collect()
    }
}
