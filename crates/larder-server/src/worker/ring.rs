//! Statistics of a worker's flash ring, for operators. The worker itself copies them into counters at intervals.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use larder_device::ring::HostedRing;

use crate::counters::RingCounters;

/// Reading the ring's statistics takes its lock, so we do not read them in every turn.
const INTERVAL: Duration = Duration::from_millis(100);

/// Copies the ring's statistics at intervals.
pub(crate) struct RingWatch {
    counters: Arc<RingCounters>,
    next: Cell<Duration>,
}

impl RingWatch {
    pub(crate) fn new(counters: Arc<RingCounters>) -> Self {
        Self { counters, next: Cell::default() }
    }

    /// Copies the statistics if it is time. Returns the time until the next copy while pieces are in flight; without it
    /// the count of pending pieces would be stale as long as the worker sleeps.
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
