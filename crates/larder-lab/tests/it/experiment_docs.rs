//! Checks that `docs/lab-json.md` lists the metrics that experiments declare.

use larder_lab::experiment::{self, Experiment};

const DOCUMENT: &str = include_str!("../../../../docs/lab-json.md");

/// The section of the document about one experiment.
fn section(name: &str) -> &'static str {
    let heading = format!("\n### `{name}`\n");
    let start = DOCUMENT.find(&heading).unwrap_or_else(|| panic!("no section {heading:?}"));
    let rest = &DOCUMENT[start + heading.len()..];
    rest.find("\n#").map_or(rest, |end| &rest[..end])
}

/// Whether the experiment declares `metric`, by name or as part of a series.
pub(crate) fn declares(experiment: &Experiment, metric: &str) -> bool {
    experiment.metrics.iter().any(|(name, _)| match name.strip_suffix('*') {
        Some(prefix) => metric.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()),
        None => *name == metric,
    })
}

#[test]
fn every_metric_and_parameter_is_documented() {
    for experiment in experiment::all() {
        let section = section(experiment.name);
        let parameters = experiment.parameters.iter().map(|parameter| parameter.name);
        for name in experiment.metrics.iter().map(|(name, _)| *name).chain(parameters) {
            assert!(section.contains(&format!("| `{name}` |")), "{}: {name}", experiment.name);
        }
    }
}

#[test]
fn nothing_is_documented_that_is_not_there() {
    for experiment in experiment::all() {
        for line in section(experiment.name).lines() {
            let Some(name) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next())
            else {
                continue;
            };
            let known = experiment.metrics.iter().any(|(metric, _)| *metric == name)
                || experiment.parameters.iter().any(|parameter| parameter.name == name);
            assert!(known, "{}: {name}", experiment.name);
        }
    }
}

#[test]
fn paper_values_belong_to_declared_metrics() {
    for experiment in experiment::all() {
        for value in experiment.paper {
            assert!(declares(experiment, value.metric), "{}: {}", experiment.name, value.metric);
            assert!(!value.source.is_empty());
        }
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = experiment::all().iter().map(|experiment| experiment.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}
