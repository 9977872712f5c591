//! What is measured of both devices together, window by window.

use std::time::Duration;

/// Whole, of shares.
pub(super) const PERMILLE: u16 = 1000;

/// What was measured in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingWindow {
    /// How long it was.
    pub length: Duration,
    /// Bytes of users' requests that ended in it, whichever device served them.
    pub bytes: u64,
    /// Mean latency of the reads of the cache device that ended in it; zero if there was none.
    pub cache_latency: Duration,
    /// Misses among users' reads, in percent.
    pub miss_percent: u8,
    /// I/Os of cores that were under way, on average, in hundredths; those of writes are among them.
    pub core_queue: u32,
    /// Reads of the cache device that were, in the same way.
    pub cache_queue: u32,
}

impl RoutingWindow {
    /// Bytes a second.
    pub(super) fn rate(&self) -> u64 {
        rate(self.bytes, self.length)
    }

    /// Whether requests wait for the cores rather than for the cache device: where they do is where the time goes.
    pub(super) fn waits_for_core(&self) -> bool {
        self.core_queue > self.cache_queue
    }

    /// Whether they do by far: a core that has as much to do with hits as the cache device is no such one.
    pub(super) fn overloads_core(&self) -> bool {
        self.core_queue / 2 > self.cache_queue
    }
}

/// Bytes a second.
pub(super) fn rate(bytes: u64, length: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / length.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// So many tenths of a latency.
pub(super) fn tenths(latency: Duration, tenths: u32) -> Duration {
    latency.saturating_mul(tenths) / 10
}
