//! A result as the page needs it: the JSON form of `larder lab run`, read back.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::Error;
use crate::experiment::ExperimentResult;

/// What came out of one experiment, as `docs/lab-json.md` describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LabResult {
    /// Its name.
    pub experiment: String,
    /// What it shows.
    pub title: String,
    /// What it reproduces.
    pub reproduces: String,
    /// Parameters as they were used.
    pub parameters: BTreeMap<String, String>,
    /// The defaults of those that are not at their defaults; none in results of earlier versions.
    #[serde(default)]
    pub changed: BTreeMap<String, String>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// What was measured.
    pub metrics: BTreeMap<String, Range>,
    /// Which of the metrics a clock of the machine has measured; none in most.
    #[serde(default)]
    pub by_clock: Vec<String>,
    /// The machine, if there are such.
    #[serde(default)]
    pub machine: Vec<String>,
    /// What the paper says, by metric.
    pub paper: BTreeMap<String, PaperMark>,
    /// When it counts as reproduced.
    pub criterion: String,
    /// Whether it does.
    pub verdict: String,
    /// Why.
    pub reason: String,
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

/// What the paper says about a metric.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PaperMark {
    /// Its value.
    pub value: f64,
    /// Where it stands.
    pub source: String,
}

impl TryFrom<&ExperimentResult> for LabResult {
    type Error = Error;

    fn try_from(result: &ExperimentResult) -> Result<Self, Error> {
        let form = serde_json::to_value(result).and_then(serde_json::from_value);
        form.map_err(|cause| Error::run(format!("report of {}: {cause}", result.experiment)))
    }
}

/// Reads what `larder lab run --json` wrote: one result, or an array of them.
///
/// # Errors
/// [`Error::Run`] that names what is missing or of another type.
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
