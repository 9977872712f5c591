//! The result of a run.

use std::time::Duration;

use crate::accounting::Counts;

/// Measurements of a run.
#[derive(Clone, Debug)]
pub struct TimedRun {
    /// Requests that ended in this run.
    pub requests: u64,
    /// Bytes that these requests read or wrote.
    pub bytes: u64,
    /// Its length.
    pub elapsed: Duration,
    /// The share of time in which the channels of the cache device were busy, and those of the core: 1 means all of
    /// them always. An I/O counts as a whole at the time when it was issued.
    pub devices_busy: [f64; 2],
    /// The share of time in which the processor was busy.
    pub processor_busy: f64,
    /// What was read and written, as of the issue of the I/Os.
    pub counts: Counts,
    /// Latency of each request in nanoseconds, ascending.
    pub(super) latencies_ns: Vec<u64>,
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
impl TimedRun {
    /// Requests per second; 0 for a run without duration.
    pub fn requests_per_second(&self) -> f64 {
        self.per_second(self.requests)
    }

    /// Bytes per second that clients have read and written.
    pub fn bytes_per_second(&self) -> f64 {
        self.per_second(self.bytes)
    }

    /// Mean latency of a request.
    pub fn mean_latency(&self) -> Duration {
        let sum: u64 = self.latencies_ns.iter().sum();
        Duration::from_nanos(sum / self.requests.max(1))
    }

    /// The latency that `percent` percent of the requests did not exceed; `percent` is 0 to 100.
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
