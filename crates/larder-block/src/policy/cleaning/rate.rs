//! A limit in bytes per second: a token bucket, stored as the time at which it is full again.

use std::time::Duration;

/// Unused allowance carries over for this time.
const BURST: Duration = Duration::from_millis(100);

/// A rate limit. Times are [elapsed](super::elapsed) times: they never run back.
#[derive(Debug)]
pub(super) struct RateLimit {
    /// The limit; 0 means no limit.
    bytes_per_second: u64,
    /// When the data sent up to now is paid for.
    free_at: Duration,
}

impl RateLimit {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, free_at: Duration::ZERO }
    }

    /// How long to wait before more data may be sent.
    pub(super) fn wait(&self, at: Duration) -> Duration {
        self.free_at.saturating_sub(at)
    }

    /// How much to send at a time, so that the limit also holds over short times.
    pub(super) fn piece_bytes(&self) -> u64 {
        if self.bytes_per_second == 0 { u64::MAX } else { self.bytes_per_second / 10 }
    }

    pub(super) fn spend(&mut self, at: Duration, bytes: u64) {
        if self.bytes_per_second > 0 {
            let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
            let cost = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
            self.free_at = self.free_at.max(at.saturating_sub(BURST)).saturating_add(cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_any_time_there_is_the_rate_and_a_little_more() {
        let mut rate = RateLimit::new(1 << 20);
        let (mut sent, mut late) = (0_u64, 0);
        for millisecond in 0..10_000 {
            // Asked rarely for a while, and not at all for another.
            let is_asked = !(2000..3000).contains(&millisecond)
                && (millisecond % 50 == 0 || millisecond > 5000);
            let at = Duration::from_millis(millisecond);
            while is_asked && rate.wait(at).is_zero() {
                rate.spend(at, 10 << 10);
                sent += 10 << 10;
                late += u64::from(millisecond >= 3000) * (10 << 10);
            }
        }
        let burst = (1 << 20) / 10 + (10 << 10);
        assert!((9 << 20..=(9 << 20) + 2 * burst).contains(&sent), "{sent}");
        assert!(late <= (7 << 20) + burst, "the second without use is not made up for: {late}");
    }

    #[test]
    fn without_a_limit_nothing_waits_and_a_debt_at_a_small_one_is_long() {
        let mut rate = RateLimit::new(0);
        rate.spend(Duration::ZERO, u64::MAX);
        assert!(rate.wait(Duration::ZERO).is_zero());
        let mut rate = RateLimit::new(1);
        rate.spend(Duration::from_secs(9), 60);
        assert_eq!(rate.wait(Duration::from_secs(9)), Duration::from_millis(59_900));
    }
}
