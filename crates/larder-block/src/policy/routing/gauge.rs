//! Measures windows: the requests and I/Os that have ended since the previous window. The clock may be set.

use std::time::Duration;

use super::window::RoutingWindow;

/// Shortest window.
const WINDOW: Duration = Duration::from_millis(10);
/// A window goes on until this number of requests have ended in it, because few requests say little.
const REQUESTS: u32 = 100;
/// Longest window, even with fewer requests.
const WINDOW_MAX: Duration = Duration::from_millis(50);
/// If the time was not updated for this long, or was set, the time between is not measured.
const GAP: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Gauge {
    now: Duration,
    began: Duration,
    requests: u32,
    bytes: u64,
    reads: u32,
    latency: Duration,
    /// Sum of the latencies of all I/Os of cores that have ended.
    core_latency: Duration,
    hits: u64,
    misses: u64,
}

impl Gauge {
    /// Updates the time. Returns the window that ends at it, if one does.
    pub(super) fn at(&mut self, now: Duration) -> Option<RoutingWindow> {
        self.now = now;
        let Some(length) = now.checked_sub(self.began).filter(|length| *length < GAP) else {
            self.begin();
            return None;
        };
        let is_whole = length >= WINDOW_MAX || (length >= WINDOW && self.requests >= REQUESTS);
        is_whole.then(|| {
            let lookups = (self.hits + self.misses).max(1);
            let window = RoutingWindow {
                length,
                bytes: self.bytes,
                cache_latency: self.latency.checked_div(self.reads).unwrap_or_default(),
                miss_percent: u8::try_from(self.misses * 100 / lookups).expect("a part of all"),
                core_queue: queue(self.core_latency, length),
                cache_queue: queue(self.latency, length),
            };
            self.begin();
            window
        })
    }

    fn begin(&mut self) {
        *self = Self { now: self.now, began: self.now, ..Self::default() };
    }

    /// When the window ends if few requests end in it.
    pub(super) fn due(&self) -> Duration {
        self.began + WINDOW_MAX
    }

    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// A read of the cache device that was issued at `issued` has ended. Not counted if the clock was set in between.
    pub(super) fn read_ended(&mut self, issued: Duration) {
        if let Some(latency) = self.now.checked_sub(issued).filter(|latency| *latency < GAP) {
            self.reads += 1;
            self.latency += latency;
        }
    }

    /// An I/O of a core that was issued at `issued` has ended.
    pub(super) fn core_io_ended(&mut self, issued: Duration) {
        if let Some(latency) = self.now.checked_sub(issued).filter(|latency| *latency < GAP) {
            self.core_latency += latency;
        }
    }

    /// A client request has ended.
    pub(super) fn ended(&mut self, bytes: usize) {
        self.requests = self.requests.saturating_add(1);
        self.bytes += bytes as u64;
    }

    /// A client read was looked up.
    pub(super) fn looked_up(&mut self, is_hit: bool) {
        let count = if is_hit { &mut self.hits } else { &mut self.misses };
        *count += 1;
    }
}

/// Mean number of I/Os in flight, in hundredths, from the sum of their latencies (Little's law).
fn queue(sum: Duration, length: Duration) -> u32 {
    u32::try_from(sum.as_nanos() * 100 / length.as_nanos().max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// `requests` requests of 4 KiB that end at `now`, each after `latency`.
    fn load(gauge: &mut Gauge, now: Duration, latency: Duration, requests: u32) {
        for number in 0..requests {
            gauge.at(now);
            gauge.looked_up(number % 4 > 0);
            gauge.read_ended(now.saturating_sub(latency));
            gauge.ended(4096);
        }
    }

    #[test]
    fn a_window_ends_with_enough_requests_or_by_the_clock_alone() {
        let mut gauge = Gauge::default();
        assert_eq!(gauge.at(MS(9000)), None, "nothing is known of the time before");
        load(&mut gauge, MS(9005), MS(2), 100);
        assert_eq!(gauge.at(MS(9009)), None);
        let busy = gauge.at(MS(9010)).unwrap();
        let expected = RoutingWindow {
            length: MS(10),
            bytes: 100 * 4096,
            cache_latency: MS(2),
            miss_percent: 25,
            core_queue: 0,
            cache_queue: 100 * 100 * 2 / 10,
        };
        assert_eq!(busy, expected);
        load(&mut gauge, MS(9015), MS(2), 99);
        gauge.core_io_ended(MS(9010));
        assert_eq!((gauge.at(MS(9059)), gauge.due()), (None, MS(9060)));
        let slow = gauge.at(MS(9060)).unwrap();
        // One of 5 ms in 50 ms, and 99 of 2 ms.
        assert_eq!((slow.bytes, slow.core_queue, slow.cache_queue), (99 * 4096, 10, 396));
        let idle = gauge.at(MS(9110)).unwrap();
        assert_eq!((idle.bytes, idle.cache_latency, idle.miss_percent), (0, Duration::ZERO, 0));
    }

    #[test]
    fn a_clock_that_is_set_spoils_no_window() {
        for to in [MS(100), MS(8_999), MS(11_000), Duration::from_secs(1 << 40)] {
            let mut gauge = Gauge::default();
            gauge.at(MS(9000));
            load(&mut gauge, MS(9009), MS(2), 200);
            // Some are issued before the change of the clock, and end after it.
            assert_eq!(gauge.at(to), None, "{to:?}");
            (0..50).for_each(|_| gauge.read_ended(MS(9009)));
            load(&mut gauge, to + MS(5), MS(1), 100);
            let window = gauge.at(to + MS(10)).unwrap();
            assert_eq!((window.length, window.bytes), (MS(10), 100 * 4096), "{to:?}");
            assert_eq!(window.cache_latency, MS(1), "{to:?}");
        }
    }
}
