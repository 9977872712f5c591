//! Flushes of the device that several writers share (group commit).
//!
//! A flush makes durable what had completed when the flush was submitted; writes then in flight may be lost all the
//! same. So a writer whose write has completed needs the first flush that is submitted after that, and no earlier
//! one:
//!
//! ```text
//!   flush 1   submitted ──────────────── ended
//!   write a      └ completed: flush 2      │
//!   write b          └ completed: flush 2  │
//!   flush 2                                └ submitted, by a or by b ─────── ended: a and b are durable
//! ```
//!
//! 1. One flush is in flight at a time. A writer that finds none leads the next one. All others wait for the end of
//!    the current flush; then one of them leads.
//! 2. A flush gets its number before it is submitted, and a writer asks for the number that it needs after its write
//!    has completed, both under one lock. So the flush of that number is submitted later.
//! 3. If a flush fails, it fails for all writers that needed it. A writer that looks late, after a later flush has
//!    failed, may get an error for a good flush: that has the cost of a failed write, and breaks no promise.
//! 4. If the leader's future is dropped, the next writer that takes the turn finishes its flush.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{Device, Io, IoFuture};

use crate::base::combining::Combining;
use crate::observe::stats::Counters;

/// The number of a flush, from 1 on.
type Number = u64;

/// The flush that makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the write is not durable before it has ended"]
pub(crate) struct NeededFlush(Number);

/// The shared flushes of one device.
pub(crate) struct SharedFlush {
    device: Arc<dyn Device>,
    counters: Arc<Counters>,
    /// The flush in flight.
    combining: Combining<Option<IoFuture>>,
    numbers: Mutex<Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    /// The last flush that was submitted, or is about to be.
    submitted: Number,
    /// The last flush that has ended.
    ended: Number,
    /// The last flush that has failed.
    failed: Number,
}

impl SharedFlush {
    pub(crate) fn new(device: Arc<dyn Device>, counters: Arc<Counters>) -> Self {
        Self { device, counters, combining: Combining::default(), numbers: Mutex::default() }
    }

    /// The flush that makes a completed write durable. Call it after the write has completed, not before.
    pub(crate) fn needed(&self) -> NeededFlush {
        NeededFlush(self.lock().submitted + 1)
    }

    /// Waits until that flush has ended. Returns whether it succeeded.
    pub(crate) async fn wait(&self, needed: NeededFlush) -> bool {
        loop {
            if let Some(went_well) = self.outcome(needed) {
                return went_well;
            }
            let end = self.combining.end();
            let Some(mut under_way) = self.combining.try_lock() else {
                if self.outcome(needed).is_none() {
                    end.await;
                }
                continue;
            };
            // A flush whose leader was dropped.
            self.finish(&mut under_way).await;
            if self.outcome(needed).is_none() {
                *under_way = Some(self.submit());
                self.finish(&mut under_way).await;
            }
        }
    }

    fn outcome(&self, NeededFlush(number): NeededFlush) -> Option<bool> {
        let numbers = self.lock();
        (numbers.ended >= number).then(|| numbers.failed < number)
    }

    /// Submits the next flush. The caller has the turn, and no flush is in flight.
    fn submit(&self) -> IoFuture {
        {
            let mut numbers = self.lock();
            assert_eq!(numbers.submitted, numbers.ended, "one flush is under way at a time");
            // Rule 2: the number comes before the submission.
            numbers.submitted += 1;
        }
        self.counters.soc_flushes.add(1);
        self.device.submit(Io::Flush)
    }

    /// Waits for the flush in flight, if there is one.
    async fn finish(&self, under_way: &mut Option<IoFuture>) {
        let Some(future) = under_way else { return };
        let ended = future.await;
        *under_way = None;
        if let Err(failure) = &ended {
            self.counters.device_failed(&failure.error);
        }
        let mut numbers = self.lock();
        assert_eq!(numbers.submitted, numbers.ended + 1, "it is the one that was under way");
        numbers.ended = numbers.submitted;
        if ended.is_err() {
            numbers.failed = numbers.submitted;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
