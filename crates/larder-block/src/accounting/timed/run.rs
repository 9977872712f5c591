//! What a run was like.

use std::time::Duration;

use crate::accounting::Counts;

/// What requests have taken in a run.
#[derive(Clone, Debug)]
pub struct TimedRun {
    /// Requests that have ended in it.
    pub requests: u64,
    /// Bytes that they have read or written.
    pub bytes: u64,
    /// How long it was.
    pub elapsed: Duration,
    /// Part of the time in which channels of the cache device were busy, and those of the core: 1 is all of them
    /// always. What was sent counts as a whole, when it was sent.
    pub devices_busy: [f64; 2],
    /// Part of the time in which the processor was.
    pub processor_busy: f64,
    /// What was read and written, by what was sent.
    pub counts: Counts,
    /// Nanoseconds of each request, shortest first.
    pub(super) latencies_ns: Vec<u64>,
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl TimedRun {
    /// Requests a second; 0 of a run that took no time.
    pub fn requests_per_second(&self) -> f64 {
        self.per_second(self.requests)
    }

    /// Bytes a second that users have read and written.
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.bytes)
    }

    /// Mean time of a request.
    pub fn mean_latency(&self) -> Duration {
        let sum: u64 = self.latencies_ns.iter().sum();
        Duration::from_nanos(sum / self.requests.max(1))
    }

    /// So many percent of requests took at most as long; `percent` of 0 to 100.
    pub fn latency(&self, percent: f64) -> Duration {
        let last = self.latencies_ns.len().saturating_sub(1) as f64;
        let at = (last * percent.clamp(0.0, 100.0) / 100.0).ceil() as usize;
        Duration::from_nanos(self.latencies_ns.get(at).copied().unwrap_or(0))
    }

    fn per_second(&self, what: u64) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { what as f64 / seconds } else { 0.0 }
    }
}
