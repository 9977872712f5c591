//! Metrics that depend on the clock of this machine. All others are functions of seeds and parameters.

use std::path::Path;

use larder_workload::machine;

use super::{Experiment, Settings, all};

/// Such metrics by experiment. A name may contain one `*`, which stands for any text. They differ from run to run.
const BY_CLOCK: [(&str, &[&str]); 3] = [
    ("vssd-accounting", &["map_ns.*", "core_share"]),
    ("full-scale", &["pages_per_second"]),
    (
        "block-cpu",
        &[
            "mb_s.*",
            "cpu_us.*",
            "logic_us.*",
            "logic_of_cpu.*",
            "logic_of_time.*",
            "loss.*",
            // Which requests wait for a device together depends on timing.
            "cw.files.*.32",
            "metadata.files.*.32",
        ],
    ),
];

/// Experiments whose verdict depends on such metrics and on the machine they run on.
const OF_THE_MACHINE: [&str; 1] = ["block-cpu"];

/// The experiments of `lab run all`: those whose verdict does not depend on the machine, in their order.
pub fn anywhere() -> Vec<&'static Experiment> {
    all().iter().copied().filter(|experiment| !experiment.is_of_the_machine()).collect()
}

impl Experiment {
    /// The metrics, or series of metrics, that depend on the clock of this machine. All others are the same for the
    /// same seeds, parameters and version.
    pub fn by_clock(&self) -> &'static [&'static str] {
        BY_CLOCK.iter().find(|(name, _)| *name == self.name).map_or(&[], |(_, metrics)| *metrics)
    }

    /// Whether `metric` is one of [`by_clock`](Self::by_clock).
    pub fn is_by_clock(&self, metric: &str) -> bool {
        self.by_clock().iter().any(|name| match name.split_once('*') {
            Some((before, after)) => metric.starts_with(before) && metric.ends_with(after),
            None => metric == *name,
        })
    }

    /// Whether the verdict depends on this machine, its files included. Such an experiment is not in [`anywhere`]; it
    /// runs only when it is named.
    pub fn is_of_the_machine(&self) -> bool {
        OF_THE_MACHINE.contains(&self.name)
    }

    /// Lines `name: text` about this machine, and about the disk of the experiment's files if it has any. Empty if the
    /// experiment has no metrics that depend on the clock.
    pub(super) fn machine(&self, settings: &Settings) -> Vec<String> {
        if self.by_clock().is_empty() {
            return Vec::new();
        }
        let dir = settings.values().get("dir").map_or(".", String::as_str);
        machine::describe(Path::new(dir))
    }
}
