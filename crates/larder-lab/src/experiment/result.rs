//! What an experiment found. Its JSON form is stable and documented in `docs/lab-json.md`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Experiment;
use super::judge::{Judgement, Verdict};
use super::measured::{PaperValue, Summary};
use super::settings::Settings;

/// Everything about one experiment.
#[derive(Debug, Clone, Serialize)]
pub struct ExperimentResult {
    /// Its name.
    pub experiment: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What it reproduces.
    pub reproduces: &'static str,
    /// Parameters as they were used.
    pub parameters: BTreeMap<&'static str, String>,
    /// The default of each parameter that is not at its default. The criterion is made for the
    /// defaults.
    pub changed: BTreeMap<&'static str, &'static str>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// What was measured.
    pub metrics: Summary,
    /// Which of the metrics a clock of the machine has measured.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub by_clock: &'static [&'static str],
    /// The machine, if there are such.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine: Vec<String>,
    /// What the paper says, by metric.
    pub paper: BTreeMap<&'static str, PaperValue>,
    /// When it counts as reproduced.
    pub criterion: &'static str,
    /// Whether it does.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
}

impl ExperimentResult {
    pub(super) fn new(
        experiment: &Experiment,
        settings: &Settings,
        seeds: Vec<u64>,
        metrics: Summary,
        judgement: Judgement,
    ) -> Self {
        Self {
            experiment: experiment.name,
            title: experiment.title,
            reproduces: experiment.reproduces,
            parameters: settings.values().clone(),
            changed: settings.changed(),
            seeds,
            metrics,
            by_clock: experiment.by_clock(),
            machine: Vec::new(),
            paper: experiment.paper.iter().map(|value| (value.metric, *value)).collect(),
            criterion: experiment.criterion,
            verdict: judgement.verdict,
            reason: judgement.reason,
        }
    }
    /// With the machine that it was measured on.
    pub(super) fn on(self, machine: Vec<String>) -> Self {
        Self { machine, ..self }
    }
}
