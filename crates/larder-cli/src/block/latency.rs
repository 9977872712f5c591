//! Latencies of a cache's requests, as JSON and for people.

use std::time::Duration;

use indicatif::HumanCount;
use larder_block::running::{Latencies, Latency, LatencyKind};
use serde::{Deserialize, Serialize};

/// Bounds of the histogram in metrics: powers of two of nanoseconds, from a microsecond to 17 s.
const OCTAVES: std::ops::RangeInclusive<u32> = 10..=34;

/// Latencies of one kind of request, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LatencyStats {
    /// `read`, `write`, `flush` or `trim`.
    pub(super) operation: String,
    /// For reads: `cache`, or `core` if it was needed.
    pub(super) served_by: Option<String>,
    pub(super) requests: u64,
    pub(super) sum_ns: u64,
    /// `None` if there were no requests; the same for the next three.
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) p999_ns: Option<u64>,
    pub(super) longest_ns: Option<u64>,
    /// Pairs of a time and the number of requests that took at most that long, ascending.
    pub(super) within_ns: Vec<(u64, u64)>,
}

impl LatencyStats {
    pub(super) fn all(latencies: &Latencies) -> Vec<Self> {
        LatencyKind::ALL.into_iter().map(|timed| Self::of(timed, latencies.of(timed))).collect()
    }

    fn of(timed: LatencyKind, latency: &Latency) -> Self {
        let quantile = |share| latency.quantile(share).map(ns);
        let within = |octave| {
            let most = 1_u64 << octave;
            (most, latency.within(Duration::from_nanos(most)))
        };
        Self {
            operation: timed.operation().to_owned(),
            served_by: timed.served_by().map(str::to_owned),
            requests: latency.count(),
            sum_ns: ns(latency.sum()),
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            longest_ns: latency.longest().map(ns),
            within_ns: OCTAVES.map(within).collect(),
        }
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A table for people.
pub(super) fn render(latencies: &[LatencyStats]) -> String {
    let mut text = format!(
        "\n{:22}{:>16}{:>12}{:>12}{:>12}{:>12}\n",
        "LATENCY", "REQUESTS", "MEDIAN", "P99", "P99.9", "LONGEST"
    );
    for of in latencies {
        let by = of.served_by.as_ref().map_or_else(String::new, |by| format!(" by the {by}"));
        let name = format!("{}{by}", of.operation);
        text += &format!("{name:22}{:>16}", HumanCount(of.requests).to_string());
        for time in [of.p50_ns, of.p99_ns, of.p999_ns, of.longest_ns] {
            text += &format!("{:>12}", time.map_or_else(|| "-".to_owned(), shown));
        }
        text += "\n";
    }
    text
}

/// The time with one decimal, in the unit that leaves one to three digits before the point.
#[allow(clippy::cast_precision_loss)]
fn shown(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units.into_iter().find(|(one, _)| ns >= *one);
    unit.map_or_else(
        || format!("{ns} ns"),
        |(one, unit)| format!("{:.1} {unit}", ns as f64 / one as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_that_suits_them() {
        let times =
            [(999, "999 ns"), (1_000, "1.0 us"), (1_250_000, "1.2 ms"), (61_000_000_000, "61.0 s")];
        times.iter().for_each(|(ns, text)| assert_eq!(shown(*ns), *text));
    }
}
