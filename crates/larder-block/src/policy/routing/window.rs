//! Measurements of both devices together, per window.

use std::time::Duration;

/// A share of 1, in thousandths.
pub(super) const PERMILLE: u16 = 1000;

/// The measurements of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingWindow {
    /// Its length.
    pub length: Duration,
    /// Bytes of client requests that ended in it, whichever device served them.
    pub bytes: u64,
    /// Mean latency of the reads of the cache device that ended in it; zero if there were none.
    pub cache_latency: Duration,
    /// Misses among the client reads, in percent.
    pub miss_percent: u8,
    /// Mean number of I/Os of cores in flight, in hundredths, including writes.
    pub core_queue: u32,
    /// Mean number of reads of the cache device in flight, in hundredths.
    pub cache_queue: u32,
}

impl RoutingWindow {
    /// Bytes per second.
    pub(super) fn rate(&self) -> u64 {
        rate(self.bytes, self.length)
    }

    /// Whether requests wait for the cores rather than for the cache device: the longer queue is where the time goes.
    pub(super) fn waits_for_core(&self) -> bool {
        self.core_queue > self.cache_queue
    }

    /// Whether the queue of the cores is more than twice as long. A core that is as busy with hits as the cache device
    /// is not overloaded.
    pub(super) fn overloads_core(&self) -> bool {
        self.core_queue / 2 > self.cache_queue
    }
}

/// Bytes per second.
pub(super) fn rate(bytes: u64, length: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / length.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// `tenths` tenths of a latency.
pub(super) fn tenths(latency: Duration, tenths: u32) -> Duration {
    latency.saturating_mul(tenths) / 10
}
