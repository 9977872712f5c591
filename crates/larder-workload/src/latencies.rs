//! The durations of requests: a histogram of nanoseconds to three significant digits (HdrHistogram).

use std::time::Duration;

use hdrhistogram::Histogram;

const DIGITS: u8 = 3;
const COARSE_DIGITS: u8 = 2;
const HOUR_NS: u64 = 3_600_000_000_000;

/// A histogram of the durations of requests. A reported value is at most a thousandth above the recorded one. The
/// histogram takes 132 kilobytes, for any number of requests.
///
/// ```
/// use larder_workload::Latencies;
/// use std::time::Duration;
///
/// let mut latencies = Latencies::default();
/// assert_eq!(latencies.quantile_us(0.5), None);
/// (1..=1000).for_each(|ms| latencies.record(Duration::from_millis(ms)));
/// let p99 = latencies.quantile_us(0.99).expect("there are some");
/// assert!((990_000.0..=990_990.0).contains(&p99));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Latencies(Histogram<u32>);

impl Latencies {
    /// A coarser histogram: a reported value is at most a hundredth above the recorded one, and the histogram takes 18
    /// kilobytes. For one histogram per client where the run also measures memory.
    pub fn coarse() -> Self {
        Self::of(COARSE_DIGITS)
    }

    fn of(digits: u8) -> Self {
        let empty = Histogram::new_with_bounds(1, HOUR_NS, digits);
        Self(empty.expect("bounds and precision are such as there are"))
    }

    /// Records one duration. A duration above an hour counts as an hour.
    pub fn record(&mut self, took: Duration) {
        self.record_ns(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// As [`record`](Self::record), in nanoseconds.
    pub fn record_ns(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds all durations of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration in microseconds that this share of all requests, 0 to 1, did not exceed. `None` if there are none.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| in_us(self.0.value_at_quantile(share)))
    }

    /// The longest duration in microseconds. `None` if there are none.
    pub fn max_us(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| in_us(self.0.max()))
    }
}

fn in_us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl Default for Latencies {
    fn default() -> Self {
        Self::of(DIGITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_a_little_too_high_at_most() {
        for (mut latencies, most) in [(Latencies::default(), 1.001), (Latencies::coarse(), 1.01)] {
            assert_eq!((latencies.quantile_us(0.5), latencies.max_us()), (None, None));
            (1..=1000).for_each(|n| latencies.record(Duration::from_nanos(n * n * 1000)));
            for (share, exact_us) in [(0.001, 1.0), (0.5, 250_000.0), (0.99, 980_100.0)] {
                let told = latencies.quantile_us(share).unwrap();
                assert!((exact_us..=exact_us * most).contains(&told), "{share}: {told}");
            }
            assert_eq!(latencies.count(), 1000);
        }
    }

    #[test]
    fn two_are_merged() {
        let (mut few, mut many) = (Latencies::default(), Latencies::default());
        few.record(Duration::from_nanos(7));
        (0..99).for_each(|_| many.record(Duration::from_secs(1)));
        many.record(Duration::MAX);
        few.merge(&many);
        assert_eq!(few.count(), 101);
        assert_eq!(few.quantile_us(0.0), Some(0.007), "short ones are exact");
        assert!((1e6..=1.001e6).contains(&few.quantile_us(0.5).unwrap()));
        assert!((3.6e9..=3.604e9).contains(&few.max_us().unwrap()), "no longer than an hour");
    }
}
