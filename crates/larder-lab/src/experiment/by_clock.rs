//! What a clock of this machine measures, where all else is a function of seeds and parameters.

use std::path::Path;

use larder_workload::machine;

use super::{Experiment, Settings, all};

/// Metrics by experiment: names, or series whose part at the star may be any. No two runs measure the same.
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
            // Which requests wait together for a device is a matter of time.
            "cw.files.*.32",
            "metadata.files.*.32",
        ],
    ),
];

/// Judged by such metrics, and by what they have of the machine for themselves.
const OF_THE_MACHINE: [&str; 1] = ["block-cpu"];

/// What `lab run all` makes: all whose verdicts do not depend on the machine, in their order.
pub fn anywhere() -> Vec<&'static Experiment> {
    all().iter().copied().filter(|experiment| !experiment.is_of_the_machine()).collect()
}

impl Experiment {
    /// The metrics, or series of them, that a clock of this machine measures, or that hang on times. All others are the
    /// same whenever seeds, parameters and version are.
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

    /// Whether it is about this machine, its files among it, and judged by its clock: it is not [`anywhere`], and runs
    /// when it is named.
    pub fn is_of_the_machine(&self) -> bool {
        OF_THE_MACHINE.contains(&self.name)
    }

    /// Lines `name: text` about this machine, and the disk of files if there are some; none where no clock measures.
    pub(super) fn machine(&self, settings: &Settings) -> Vec<String> {
        if self.by_clock().is_empty() {
            return Vec::new();
        }
        let dir = settings.values().get("dir").map_or(".", String::as_str);
        machine::describe(Path::new(dir))
    }
}
