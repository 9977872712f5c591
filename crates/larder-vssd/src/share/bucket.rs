//! A token bucket in I/Os or bytes: FlashBlox (§3.3) limits tenants that share dies with it. Each tenant has a fixed
//! rate; what it does not use is lost.
//!
//! Instead of a count of tokens and a timer it stores the time at which the bucket would be full again (the generic
//! cell rate algorithm of ATM), which is equivalent.

use std::time::Duration;

use larder_ssd::timed::Nanoseconds;

/// Limits the I/Os, or bytes, per second of one tenant.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    /// Tokens per second.
    per_s: u64,
    /// Tokens of a full bucket, expressed as the time in which they accumulate.
    burst_ns: u64,
    /// When the bucket is full, if no token is taken.
    full_at: Nanoseconds,
}

impl TokenBucket {
    /// A full bucket of the tokens of `burst`, that gets `per_s` tokens per second. A rate of 0 counts as 1.
    pub fn lasting(per_s: u64, burst: Duration) -> Self {
        let burst_ns = u64::try_from(burst.as_nanos()).unwrap_or(u64::MAX);
        Self { per_s: per_s.max(1), burst_ns, full_at: 0 }
    }

    /// Takes `tokens` for an I/O that arrives at `now`. Returns when it may start: at once if there were as many.
    pub fn take(&mut self, now: Nanoseconds, tokens: u64) -> Nanoseconds {
        let cost_ns = u128::from(tokens) * 1_000_000_000 / u128::from(self.per_s);
        let cost_ns = u64::try_from(cost_ns).unwrap_or(u64::MAX);
        self.full_at = self.full_at.max(now).saturating_add(cost_ns);
        let at = now.max(self.full_at.saturating_sub(self.burst_ns));
        debug_assert!(at >= now, "an I/O starts no earlier than it arrives");
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_then_one_each_interval() {
        let mut bucket = TokenBucket::lasting(1_000, Duration::from_millis(3));
        let at: Vec<u64> = (0..6).map(|_| bucket.take(5_000_000, 1)).collect();
        let ms = 1_000_000;
        assert_eq!(at, [5 * ms, 5 * ms, 5 * ms, 6 * ms, 7 * ms, 8 * ms]);
        assert_eq!(bucket.take(20 * ms, 1), 20 * ms, "it filled up");
        let at: Vec<u64> = (0..3).map(|_| bucket.take(20 * ms, 1)).collect();
        assert_eq!(at, [20 * ms, 20 * ms, 21 * ms], "and not beyond its size");
    }

    #[test]
    fn bytes_take_their_time_however_many_come_at_once() {
        let mut bucket = TokenBucket::lasting(3_000_000_000, Duration::from_millis(1));
        let at: Vec<u64> = (0..5).map(|_| bucket.take(0, 1_500_000)).collect();
        assert_eq!(at, [0, 0, 500_000, 1_000_000, 1_500_000], "a burst of 3 MB, then 3 GB/s");
    }
}
