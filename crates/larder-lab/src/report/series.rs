//! Measurements over time, prepared for drawing.

use crate::replay::outcome::{Interval, Run};

/// More parts than this cannot be distinguished in a chart, so neighbours are merged.
const PARTS_MAX: usize = 400;

/// One part of a run, with the drawn values. Every number is finite.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    /// Requests before this part.
    pub(super) from: f64,
    /// Requests at its end.
    pub(super) to: f64,
    /// DLWA, if known.
    pub(super) dlwa: Option<f64>,
    /// Hit ratio, if there were GETs.
    pub(super) hit_ratio: Option<f64>,
    /// Shares of SOC, LOC, array and metadata in the host bytes, if there were any.
    pub(super) shares: Option<[f64; 4]>,
    /// Whether the part belongs to the warm-up.
    pub(super) warmup: bool,
}

/// The parts of `run`, merged so that there are at most [`PARTS_MAX`].
pub(super) fn parts(run: &Run) -> Vec<Part> {
    let merged = run.intervals.len().div_ceil(PARTS_MAX).max(1);
    let mut from = 0;
    let mut parts = Vec::new();
    for group in run.intervals.chunks(merged) {
        let part = merge(from, group);
        from = group.last().map_or(from, |interval| interval.requests);
        parts.push(part);
    }
    parts
}

/// The end of the warm-up in requests; 0 without one.
pub(super) fn warmup_end(parts: &[Part]) -> f64 {
    parts.iter().take_while(|part| part.warmup).last().map_or(0.0, |part| part.to)
}

fn merge(from: u64, group: &[Interval]) -> Part {
    let mut previous = from;
    let mut dlwa = Mean::default();
    let mut hit_ratio = Mean::default();
    for interval in group {
        let requests = interval.requests.saturating_sub(previous);
        previous = interval.requests;
        dlwa.add(interval.dlwa, interval.host_bytes as f64);
        hit_ratio.add(interval.hit_ratio, requests as f64);
    }
    Part {
        from: from as f64,
        to: previous.max(from) as f64,
        dlwa: dlwa.value(),
        hit_ratio: hit_ratio.value(),
        shares: shares(group),
        warmup: group.iter().all(|interval| interval.warmup),
    }
}

/// Shares of the streams. Bytes that belong to no stream have no share.
fn shares(group: &[Interval]) -> Option<[f64; 4]> {
    let sum = |bytes: fn(&Interval) -> u64| group.iter().map(|i| bytes(i) as f64).sum::<f64>();
    let (loc, array) = (sum(|i| i.loc_bytes), sum(|i| i.array_bytes));
    let streams = [sum(|i| i.soc_bytes), loc, array, sum(|i| i.metadata_bytes)];
    let all = sum(|i| i.host_bytes).max(streams.iter().sum());
    (all > 0.0).then(|| streams.map(|bytes| bytes / all))
}

/// A weighted mean of the known values. A part of weight zero still counts a little.
#[derive(Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, weight: f64) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let weight = weight.max(1e-3);
            self.sum += value * weight;
            self.weight += weight;
        }
    }

    fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{interval, run};

    #[test]
    fn unknown_and_impossible_values_are_gaps() {
        let mut run = run("on");
        run.intervals = vec![interval(10), interval(20), interval(30)];
        run.intervals[0].dlwa = Some(f64::NAN);
        run.intervals[1].dlwa = None;
        run.intervals[2].host_bytes = 0;
        run.intervals[2].soc_bytes = 0;
        run.intervals[2].loc_bytes = 0;
        run.intervals[2].metadata_bytes = 0;
        let parts = parts(&run);
        assert_eq!(parts[0].dlwa, None);
        assert_eq!(parts[1].dlwa, None);
        assert!(parts[1].shares.is_some());
        assert_eq!(parts[2].shares, None);
        assert_eq!((parts[2].from, parts[2].to), (20.0, 30.0));
    }

    #[test]
    fn long_runs_are_merged_by_weight() {
        let mut run = run("on");
        run.intervals = (1..=2 * 400).map(|n| interval(n * 10)).collect();
        run.intervals[0].host_bytes = 300;
        run.intervals[0].dlwa = Some(1.0);
        run.intervals[1].host_bytes = 100;
        run.intervals[1].dlwa = Some(2.0);
        let parts = parts(&run);
        assert_eq!(parts.len(), 400);
        assert_eq!(parts[0].dlwa, Some(1.25));
        assert_eq!((parts[1].from, parts[1].to), (20.0, 40.0));
    }

    #[test]
    fn the_warm_up_ends_with_its_last_part() {
        let mut run = run("on");
        run.intervals = vec![interval(10), interval(20), interval(30)];
        assert_eq!(warmup_end(&parts(&run)), 0.0);
        run.intervals[0].warmup = true;
        run.intervals[1].warmup = true;
        assert_eq!(warmup_end(&parts(&run)), 20.0);
        assert_eq!(warmup_end(&[]), 0.0);
    }
}
