//! Latencies in a few kilobytes: buckets that grow with the value, each at most 1/16 wide.

use std::time::Duration;

/// Buckets per doubling.
const STEPS: usize = 16;
const BUCKETS: usize = 64 * STEPS;

/// Counts of latencies.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    /// Counts one.
    pub(crate) fn add(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(ns)] += 1;
        self.total += 1;
    }

    /// Counts all of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// The latency in microseconds that this share of all does not exceed. `None` if it is empty.
    pub(crate) fn quantile_us(&self, share: f64) -> Option<f64> {
        let rank = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= rank
        })?;
        Some(middle_ns(at) / 1e3)
    }
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEPS.ilog2();
    (shift as usize + 1) * STEPS + (ns >> shift) as usize - STEPS
}

fn middle_ns(bucket: usize) -> f64 {
    if bucket < STEPS {
        return bucket as f64;
    }
    let width = 2_f64.powi((bucket / STEPS) as i32 - 1);
    ((bucket % STEPS + STEPS) as f64 + 0.5) * width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_sixteenth() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(0.5), None);
        for us in 1..=1000 {
            histogram.add(Duration::from_micros(us));
        }
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        for share in [0.01, 0.5, 0.99] {
            let found = twice.quantile_us(share).unwrap();
            assert!((found / (share * 1000.0) - 1.0).abs() < 1.0 / 16.0, "{share}: {found}");
        }
        histogram.add(Duration::MAX);
    }
}
