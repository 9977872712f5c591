//! `docs/lab-json.md` has the parameters and metrics that experiments declare.

use larder_json_page::{cell, check_rendered, markdown};
use larder_lab::experiment::{self, Experiment};

/// Whether the experiment declares `metric`, by name or as part of a series.
pub(crate) fn declares(experiment: &Experiment, metric: &str) -> bool {
    experiment.metrics.iter().any(|(name, _)| match name.strip_suffix('*') {
        Some(prefix) => metric.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()),
        None => *name == metric,
    })
}

/// The tables of an experiment's parameters and metrics.
fn tables(experiment: &Experiment) -> String {
    let head = |columns: &[&str; 3]| columns.map(str::to_owned);
    let mut parameters = vec![head(&["parameter", "default", "meaning"])];
    for parameter in experiment.parameters {
        let default = parameter.default.to_owned();
        parameters.push([format!("`{}`", parameter.name), default, cell(parameter.help)]);
    }
    let mut metrics = vec![["metric".to_owned(), "meaning".to_owned()]];
    for (name, meaning) in experiment.metrics {
        metrics.push([format!("`{name}`"), cell(meaning)]);
    }
    if experiment.parameters.is_empty() {
        return markdown(&metrics);
    }
    markdown(&parameters) + "\n" + &markdown(&metrics)
}

#[test]
fn the_page_has_all_parameters_and_metrics() {
    let sections: Vec<_> = experiment::all()
        .iter()
        .map(|experiment| (format!("### `{}`", experiment.name), tables(experiment)))
        .collect();
    let sections: Vec<_> =
        sections.iter().map(|(heading, it)| (heading.as_str(), it.clone())).collect();
    let command = "-p larder-lab --test it the_page_has_all_parameters_and_metrics";
    check_rendered("lab-json.md", command, &sections);
}

#[test]
fn paper_values_belong_to_declared_metrics() {
    for experiment in experiment::all() {
        for value in experiment.references {
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
