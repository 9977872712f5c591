//! Decides whether a result may be judged: every metric that the criterion needs was measured, on a drive in a steady
//! state.
//!
//! Experiments report the steadiness of a drive in metrics with common names: `drive_writes_before` and
//! `loc_wraps_before` are the writes before the measurement, and `drift` is the change of DLWA during the measurement.

use super::{Experiment, Settings, Summary};

/// A metric of the drive's steadiness, with its bound.
struct Bound {
    metric: &'static str,
    what: &'static str,
    /// Whether the value of the worst seed is within the bound.
    holds: fn(f64) -> bool,
    /// The value of the worst seed.
    worst: fn(&super::Spread) -> f64,
    wanted: &'static str,
}

/// SNIA's performance test specification defines a steady state: five rounds differ by no more than a fifth, and drift
/// by no more than a tenth. Here the measurement has two halves.
const BOUNDS: [Bound; 3] = [
    Bound {
        metric: "drive_writes_before",
        what: "times that the drive was written over before the measurement",
        holds: |value| value >= 12.0,
        worst: |spread| spread.min,
        wanted: "at least 12",
    },
    Bound {
        metric: "loc_wraps_before",
        what: "rounds of the large-object engine before it",
        holds: |value| value >= 3.0,
        worst: |spread| spread.min,
        wanted: "at least 3",
    },
    Bound {
        metric: "drift",
        what: "change of DLWA from one half of the measurement to the other",
        holds: |value| value <= 0.1,
        worst: |spread| spread.max,
        wanted: "at most 0.1",
    },
];

/// The reasons why `summary` must not be judged; empty if it may.
pub(super) fn refusals(experiment: &Experiment, summary: &Summary) -> Vec<String> {
    let missing: Vec<&str> =
        experiment.needs.iter().copied().filter(|name| !summary.mean(name).is_finite()).collect();
    let mut refusals = Vec::new();
    if !missing.is_empty() {
        refusals.push(format!("the criterion needs what was not measured: {}", missing.join(", ")));
    }
    refusals.extend(BOUNDS.iter().filter_map(|bound| bound.refusal(summary)));
    if !refusals.is_empty() {
        refusals.push("run it longer or with the parameters by default".to_owned());
    }
    refusals
}

impl Bound {
    fn refusal(&self, summary: &Summary) -> Option<String> {
        let of_bound = |name: &str| {
            name.strip_prefix(self.metric)
                .is_some_and(|point| point.is_empty() || point.starts_with('.'))
        };
        let broken: Vec<String> = summary
            .iter()
            .filter(|(name, _)| of_bound(name))
            .map(|(name, spread)| (name, (self.worst)(spread)))
            .filter(|(_, worst)| !(self.holds)(*worst))
            .map(|(name, worst)| format!("{name} = {worst:.2}"))
            .collect();
        let list = broken.join(", ");
        (!broken.is_empty())
            .then(|| format!("the drive had not settled: {list} ({}: {})", self.what, self.wanted))
    }
}

/// A remark for the reader if parameters differ from their defaults.
pub(super) fn remark(settings: &Settings) -> Option<String> {
    let changed: Vec<String> = settings
        .changed()
        .into_iter()
        .map(|(name, default)| format!("{name} = {} ({default} by default)", settings.text(name)))
        .collect();
    (!changed.is_empty()).then(|| {
        format!(
            "with parameters other than those that are judged by default: {}",
            changed.join(", ")
        )
    })
}
