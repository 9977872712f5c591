//! The measurements of seeds, and the values that they are compared with.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// The measurements of one seed, by metric name.
pub type Metrics = BTreeMap<String, f64>;

/// Where a value that ours is compared with comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A publication states the number.
    Published,
    /// It follows from published numbers or formulas, by arithmetic that its source names.
    Derived,
    /// This project's own: another simulation of the same rules, or a count of a peer's code.
    Ours,
    /// A publication states the number, and a parameter or the workload was fitted to it. It is shown and not judged.
    Fitted,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Published => "published",
            Self::Derived => "derived",
            Self::Ours => "ours",
            Self::Fitted => "fitted",
        })
    }
}

/// A value that a metric is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reference {
    /// Name of the metric.
    pub metric: &'static str,
    /// The value.
    pub value: f64,
    /// Whether a publication states it.
    pub origin: Origin,
    /// Where it stands, or how it was found.
    pub source: &'static str,
}

impl Reference {
    /// A number that a publication states at `source`.
    pub(super) const fn published(metric: &'static str, value: f64, source: &'static str) -> Self {
        Self { metric, value, origin: Origin::Published, source }
    }

    /// A number that follows from published ones, as `source` says.
    pub(super) const fn derived(metric: &'static str, value: f64, source: &'static str) -> Self {
        Self { metric, value, origin: Origin::Derived, source }
    }

    /// A number that this project found in another way, as `source` says.
    pub(super) const fn ours(metric: &'static str, value: f64, source: &'static str) -> Self {
        Self { metric, value, origin: Origin::Ours, source }
    }

    /// A number that a publication states and that this project fitted a parameter or the workload to, as `source`
    /// says.
    pub(super) const fn fitted(metric: &'static str, value: f64, source: &'static str) -> Self {
        Self { metric, value, origin: Origin::Fitted, source }
    }
}

/// A metric over all seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
}

/// All metrics over all seeds.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Summary(BTreeMap<String, Spread>);

impl Summary {
    /// Summarizes the measurements of the seeds.
    pub fn of(measured: &[Metrics]) -> Self {
        let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
        for (name, &value) in measured.iter().flatten() {
            values.entry(name).or_default().push(value);
        }
        #[allow(clippy::cast_precision_loss)]
        let spread = |values: Vec<f64>| Spread {
            min: lowest(values.iter().copied()),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            max: highest(values),
        };
        Self(values.into_iter().map(|(name, values)| (name.clone(), spread(values))).collect())
    }

    /// Returns a metric. All values are NaN if it was not measured, so that every comparison with it fails.
    pub fn get(&self, name: &str) -> Spread {
        let nan = Spread { min: f64::NAN, mean: f64::NAN, max: f64::NAN };
        self.0.get(name).copied().unwrap_or(nan)
    }

    /// Mean of a metric over the seeds.
    pub fn mean(&self, name: &str) -> f64 {
        self.get(name).mean
    }

    /// Largest value of a metric over the seeds.
    pub fn max(&self, name: &str) -> f64 {
        self.get(name).max
    }

    /// Smallest value of a metric over the seeds.
    pub fn min(&self, name: &str) -> f64 {
        self.get(name).min
    }

    /// The metrics whose name is `prefix` and a number, with that number, in ascending order.
    pub fn series(&self, prefix: &str) -> Vec<(f64, Spread)> {
        let numbered = self.0.iter().filter_map(|(name, spread)| {
            Some((name.strip_prefix(prefix)?.parse::<f64>().ok()?, *spread))
        });
        let mut series: Vec<_> = numbered.collect();
        series.sort_by(|a, b| a.0.total_cmp(&b.0));
        series
    }

    /// All metrics by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Spread)> {
        self.0.iter().map(|(name, spread)| (name.as_str(), spread))
    }
}

/// The highest of `values`. NaN if one of them is NaN or if there are none, so that an unmeasured value meets no
/// criterion.
pub(super) fn highest(values: impl IntoIterator<Item = f64>) -> f64 {
    extreme(values, f64::max)
}

/// The lowest of `values`, with the same rules for NaN.
pub(super) fn lowest(values: impl IntoIterator<Item = f64>) -> f64 {
    extreme(values, f64::min)
}

fn extreme(values: impl IntoIterator<Item = f64>, of: fn(f64, f64) -> f64) -> f64 {
    let either = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { of(a, b) };
    values.into_iter().reduce(either).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_no_extreme() {
        assert_eq!((highest([1.0, 3.0, 2.0]), lowest([1.0, 3.0, 2.0])), (3.0, 1.0));
        for values in [vec![], vec![f64::NAN, 1.0], vec![1.0, f64::NAN]] {
            assert!(highest(values.clone()).is_nan() && lowest(values).is_nan());
        }
    }

    #[test]
    fn seeds_are_summed_up() {
        let one = |value| Metrics::from([("dlwa.on.4".to_owned(), value)]);
        let summary = Summary::of(&[one(1.0), one(3.0)]);
        let expected = Spread { min: 1.0, mean: 2.0, max: 3.0 };
        assert_eq!(summary.get("dlwa.on.4"), expected);
        assert_eq!(summary.series("dlwa.on."), [(4.0, expected)]);
        assert!(summary.mean("absent").is_nan());
        let unknown = Summary::of(&[one(1.0), one(f64::NAN)]).get("dlwa.on.4");
        assert!(unknown.min.is_nan() && unknown.mean.is_nan() && unknown.max.is_nan());
    }
}
