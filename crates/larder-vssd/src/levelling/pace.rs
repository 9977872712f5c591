//! How fast an exchange copies: slower while tenants notice it, faster while they do not.
//!
//! The p99 of the last second is compared with the mean of the hour before the exchange. Above 1.3 times that, the rate
//! halves; below 1.1 times, it doubles. It never falls below a least rate, or an exchange would never end.

use std::collections::VecDeque;

use larder_ssd::timed::Nanoseconds;
use larder_ssd::{Error, ErrorKind};

/// Maximum time that an exchange may catch up after an erase or a busy die blocked it. So it keeps its rate, and no
/// burst follows a long wait.
const CATCH_UP_NS: Nanoseconds = 20_000_000;

/// Time that `bytes` take at a rate.
pub(crate) fn time_of(bytes: u64, bytes_per_s: u64) -> Nanoseconds {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s.max(1));
    Nanoseconds::try_from(ns).unwrap_or(Nanoseconds::MAX / 2)
}

/// When more may follow `bytes` that were due at `due` and are copied at `now`, at a rate.
pub(crate) fn next_due(
    due: Nanoseconds,
    now: Nanoseconds,
    bytes: u64,
    bytes_per_s: u64,
) -> Nanoseconds {
    due.max(now.saturating_sub(CATCH_UP_NS)) + time_of(bytes, bytes_per_s)
}

/// Limits of the rate of an exchange, in bytes per second into each of both channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceLimits {
    /// The rate to begin with.
    pub bytes_per_s: u64,
    /// The lowest rate; at least 1.
    pub bytes_per_s_min: u64,
    /// The highest rate.
    pub bytes_per_s_max: u64,
}

impl Default for PaceLimits {
    /// 2 MB/s, which is 2 % of a channel of four dies; 0.25 to 8 MB/s.
    fn default() -> Self {
        Self { bytes_per_s: 2_000_000, bytes_per_s_min: 250_000, bytes_per_s_max: 8_000_000 }
    }
}

impl PaceLimits {
    /// Begins at `bytes_per_s`, and goes from an eighth of it to four times it: the default limits, moved.
    pub fn around(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s,
            bytes_per_s_min: (bytes_per_s / 8).max(1),
            bytes_per_s_max: bytes_per_s.saturating_mul(4),
        }
    }

    /// Refuses limits that are out of order.
    ///
    /// # Errors
    /// [`ErrorKind::Config`].
    pub fn check(&self) -> Result<(), Error> {
        let Self { bytes_per_s, bytes_per_s_min, bytes_per_s_max } = *self;
        if bytes_per_s_min == 0 || bytes_per_s < bytes_per_s_min || bytes_per_s > bytes_per_s_max {
            let message = format!(
                "pace of {bytes_per_s} bytes/s: must be {bytes_per_s_min} to {bytes_per_s_max}, and above 0"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(())
    }
}

/// The pace of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct AdaptivePace {
    limits: PaceLimits,
    bytes_per_s: u64,
}

/// Above this slowdown the rate halves.
const TOO_SLOW: f64 = 1.3;
/// Below this slowdown the rate doubles.
const UNNOTICED: f64 = 1.1;

impl AdaptivePace {
    /// A pace within `limits`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for limits that are out of order.
    pub fn new(limits: PaceLimits) -> Result<Self, Error> {
        limits.check()?;
        Ok(Self { limits, bytes_per_s: limits.bytes_per_s })
    }

    /// Present rate into each channel.
    pub fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s
    }

    /// Whether the rate is below the one to begin with.
    pub fn is_slowed(&self) -> bool {
        self.bytes_per_s < self.limits.bytes_per_s
    }

    /// Adapts the rate after a second of an exchange, in which the p99 of its tenants was `slowdown` times that before.
    /// `None` for tenants without requests: then nothing notices the exchange.
    pub fn second(&mut self, slowdown: Option<f64>) {
        let slowdown = slowdown.unwrap_or(1.0);
        if slowdown > TOO_SLOW {
            self.bytes_per_s = (self.bytes_per_s / 2).max(self.limits.bytes_per_s_min);
        } else if slowdown < UNNOTICED {
            self.bytes_per_s = self.bytes_per_s.saturating_mul(2).min(self.limits.bytes_per_s_max);
        }
    }
}

/// Seconds of a bucket.
const MINUTE_S: u64 = 60;
/// Buckets of the mean.
const MINUTES: usize = 60;
/// Fewer seconds say nothing.
const SECONDS_MIN: u64 = 3;

/// Mean p99 of a tenant in the last hour without an exchange, in buckets of a minute.
#[derive(Debug, Clone, Default)]
pub struct HourMean {
    /// Seconds and the sum of their p99, the newest bucket last.
    minutes: VecDeque<(u64, u64)>,
}

impl HourMean {
    /// Records a second.
    pub fn push(&mut self, p99_ns: u64) {
        if self.minutes.back().is_none_or(|(seconds, _)| *seconds == MINUTE_S) {
            if self.minutes.len() == MINUTES {
                self.minutes.pop_front();
            }
            self.minutes.push_back((0, 0));
        }
        if let Some((seconds, sum)) = self.minutes.back_mut() {
            *seconds += 1;
            *sum = sum.saturating_add(p99_ns);
        }
    }

    /// `p99_ns` by the mean; `None` if the mean is of too few seconds.
    #[allow(clippy::cast_precision_loss)] // nanoseconds of a request
    pub fn slowdown(&self, p99_ns: u64) -> Option<f64> {
        let add = |a: (u64, u64), b: &(u64, u64)| (a.0 + b.0, a.1.saturating_add(b.1));
        let (seconds, sum) = self.minutes.iter().fold((0, 0), add);
        let mean = (sum / seconds.max(1)).max(1);
        (seconds >= SECONDS_MIN).then_some(p99_ns as f64 / mean as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_halves_and_doubles_within_its_limits() {
        let mut pace = AdaptivePace::new(PaceLimits::default()).unwrap();
        assert_eq!(pace.bytes_per_s(), 2_000_000);
        pace.second(Some(1.31));
        assert!(pace.bytes_per_s() == 1_000_000 && pace.is_slowed());
        pace.second(Some(1.3));
        pace.second(Some(1.1));
        assert_eq!(pace.bytes_per_s(), 1_000_000, "between the limits nothing changes");
        (0..9).for_each(|_| pace.second(Some(5.0)));
        assert_eq!(pace.bytes_per_s(), 250_000);
        (0..9).for_each(|_| pace.second(Some(1.09)));
        assert_eq!(pace.bytes_per_s(), 8_000_000);
        let mut pace = AdaptivePace::new(PaceLimits::default()).unwrap();
        assert!(pace.bytes_per_s() == 2_000_000 && !pace.is_slowed());
        pace.second(None);
        assert_eq!(pace.bytes_per_s(), 4_000_000, "silence is no load");
    }

    #[test]
    fn an_hour_is_remembered_and_no_more() {
        let mut hour = HourMean::default();
        (0..2).for_each(|_| hour.push(1000));
        assert_eq!(hour.slowdown(1000), None, "too few seconds");
        hour.push(4000);
        assert_eq!(hour.slowdown(3000), Some(1.5));
        (0..3600).for_each(|_| hour.push(8000));
        assert_eq!(hour.slowdown(4000), Some(0.5), "what is older is forgotten");
        assert_eq!(hour.minutes.len(), MINUTES);
    }

    #[test]
    fn limits_out_of_order_are_refused() {
        let refused = |limits: PaceLimits| AdaptivePace::new(limits).unwrap_err().to_string();
        assert!(refused(PaceLimits::around(0)).contains("pace of 0"));
        let narrow = PaceLimits { bytes_per_s_max: 10, ..PaceLimits::default() };
        assert!(refused(narrow).contains("2000000"));
        assert_eq!(PaceLimits::around(2_000_000), PaceLimits::default());
    }
}
