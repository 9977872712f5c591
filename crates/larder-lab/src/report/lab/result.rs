//! A result as the page needs it: the JSON form of `larder lab run`, read back.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::Error;
use crate::experiment::ExperimentResult;

/// The result of one experiment, as described in `docs/lab-json.md`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LabResult {
    /// Its name.
    pub experiment: String,
    /// What it shows.
    pub title: String,
    /// What it reproduces.
    pub reproduces: String,
    /// The parameters that were used.
    pub parameters: BTreeMap<String, String>,
    /// The default of each parameter that is not at its default; empty in results of earlier versions.
    #[serde(default)]
    pub changed: BTreeMap<String, String>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// The measurements.
    pub metrics: BTreeMap<String, Range>,
    /// The metrics that depend on the machine's clock; usually empty.
    #[serde(default)]
    pub by_clock: Vec<String>,
    /// A description of the machine, if there are such metrics.
    #[serde(default)]
    pub machine: Vec<String>,
    /// The values that they are compared with, by metric. Results of earlier versions call them `paper`.
    #[serde(alias = "paper")]
    pub references: BTreeMap<String, Mark>,
    /// The criterion for "reproduced".
    pub criterion: String,
    /// How many published numbers are met; empty in results of earlier versions.
    #[serde(default)]
    pub reading: String,
    /// The verdict.
    pub verdict: String,
    /// The reason for the verdict.
    pub reason: String,
}

fn judged() -> bool {
    true
}

fn published() -> String {
    "published".to_owned()
}

/// A metric over the seeds; `None` where it could not be measured.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Range {
    /// Smallest.
    pub min: Option<f64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

/// A value that a metric is compared with.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Mark {
    /// Its value.
    pub value: f64,
    /// `published`, `derived` (from published numbers) or `ours`; earlier versions did not say.
    #[serde(default = "published")]
    pub origin: String,
    /// Whether the verdict depends on it; earlier versions did not say.
    #[serde(default = "judged")]
    pub judged: bool,
    /// Where it stands, or how it was found.
    pub source: String,
}

impl TryFrom<&ExperimentResult> for LabResult {
    type Error = Error;

    fn try_from(result: &ExperimentResult) -> Result<Self, Error> {
        let form = serde_json::to_value(result).and_then(serde_json::from_value);
        form.map_err(|cause| Error::run(format!("report of {}: {cause}", result.experiment)))
    }
}

/// Reads the output of `larder lab run --json`: one result, or an array of them.
///
/// # Errors
/// [`Error::Run`] that names what is missing or of the wrong type.
pub fn read_results(json: &str) -> Result<Vec<LabResult>, Error> {
    let no_result = |cause: &dyn std::fmt::Display| {
        Error::run(format!("not what `larder lab run --json` writes: {cause}"))
    };
    let value: Value = serde_json::from_str(json).map_err(|cause| no_result(&cause))?;
    let results = match value {
        Value::Array(results) => results,
        one => vec![one],
    };
    if results.is_empty() {
        return Err(no_result(&"it holds no result"));
    }
    let read = results.into_iter().map(serde_json::from_value);
    read.collect::<Result<_, _>>().map_err(|cause| no_result(&cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_result_is_refused_with_the_cause() {
        let cause = |json| read_results(json).unwrap_err().to_string();
        assert!(cause("{").contains("EOF"));
        assert!(cause("[]").contains("holds no result"));
        assert!(cause("{}").contains("missing field `experiment`"));
        assert!(cause("[1]").contains("invalid type"));
        assert!(cause("7").starts_with("not what `larder lab run --json` writes"));
    }
}
