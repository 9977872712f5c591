//! The result of an experiment. Its JSON form is stable and documented in `docs/lab-json.md`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Experiment;
use super::agreement::Agreement;
use super::judge::{Judgement, Verdict};
use super::measured::{Origin, Reference, Summary};
use super::settings::Settings;

/// Everything about one experiment.
#[derive(Debug, Clone, Serialize)]
pub struct ExperimentResult {
    /// Name of the experiment.
    pub experiment: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What it reproduces.
    pub reproduces: &'static str,
    /// The parameters that were used.
    pub parameters: BTreeMap<&'static str, String>,
    /// The default of each parameter that is not at its default. The criterion applies to the defaults.
    pub changed: BTreeMap<&'static str, &'static str>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The measurements.
    pub metrics: Summary,
    /// The metrics that depend on the machine's clock.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub by_clock: &'static [&'static str],
    /// A description of the machine, if there are such metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine: Vec<String>,
    /// The values that they are compared with, by metric.
    pub references: BTreeMap<&'static str, Compared>,
    /// The criterion for "reproduced".
    pub criterion: &'static str,
    /// How many published numbers are met, in one line.
    pub reading: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason for the verdict.
    pub reason: String,
}

/// A value that a metric is compared with, and whether the verdict depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// The value.
    #[serde(flatten)]
    pub reference: Reference,
    /// Whether the criterion has bounds around it.
    pub judged: bool,
}

impl Compared {
    fn of(experiment: &Experiment, reference: &Reference) -> Self {
        let is_needed = experiment.needs.contains(&reference.metric);
        Self { reference: *reference, judged: is_needed && reference.origin != Origin::Fitted }
    }
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
            reading: Agreement::of(experiment.references, &metrics).to_string(),
            metrics,
            by_clock: experiment.by_clock(),
            machine: Vec::new(),
            references: experiment
                .references
                .iter()
                .map(|value| (value.metric, Compared::of(experiment, value)))
                .collect(),
            criterion: experiment.criterion,
            verdict: judgement.verdict,
            reason: judgement.reason,
        }
    }
    /// Adds the description of the machine.
    pub(super) fn on(self, machine: Vec<String>) -> Self {
        Self { machine, ..self }
    }
}
