//! What the ring of a worker to flash has done, for operators: as the worker itself wrote it down a moment ago.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use larder_device::ring::HostedRing;

use crate::counters::RingCounters;

/// A look at the ring takes its lock; so it is not looked at in every turn.
const INTERVAL: Duration = Duration::from_millis(100);

/// Writes down what the ring has done, now and then.
pub(crate) struct RingWatch {
    counters: Arc<RingCounters>,
    next: Cell<Duration>,
}

impl RingWatch {
    pub(crate) fn new(counters: Arc<RingCounters>) -> Self {
        Self { counters, next: Cell::default() }
    }

    /// Looks if it is time to. Says after how long to look again: what was pending is not left standing for as long as
    /// the worker sleeps.
    pub(crate) fn look(&self, ring: &HostedRing, now: Duration) -> Option<Duration> {
        if now >= self.next.get() {
            self.next.set(now + INTERVAL);
            let stats = ring.stats();
            self.counters.enters.set(stats.enters);
            self.counters.sleeps.set(stats.sleeps);
            self.counters.ended_pieces.set(stats.ended_pieces);
            self.counters.pending_pieces.set(stats.pending_pieces);
        }
        let is_pending = self.counters.pending_pieces.read() > 0;
        is_pending.then(|| self.next.get().saturating_sub(now))
    }
}
