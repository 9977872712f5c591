//! Every experiment, end to end, on a drive that is too small to mean much.

use larder_lab::experiment::{self, Settings};
use larder_lab::replay::Monitor;

use crate::experiment_docs::declares;

/// What makes an experiment short.
fn short(name: &str) -> &'static [&'static str] {
    match name {
        "ftl-uniform" => &["units=200"],
        "utilization" => &["requests=40000", "flash_mib=8", "utilization=50,100"],
        "soc-size" => &["requests=40000", "flash_mib=8", "soc=4,64"],
        "model-validation" => &["requests=40000", "flash_mib=8", "soc=8", "uniform_op=100"],
        "isolation-type" => &["requests=40000", "flash_mib=8", "soc=4", "op=17"],
        "mislabelled" => &["requests=40000", "flash_mib=8", "swapped=0,50"],
        "full-scale" => &["scale=0.0002", "drive_writes=6"],
        "latency" => &["requests=40000", "flash_mib=64"],
        "carbon" => &[],
        "tenants" => &["requests=40000", "flash_mib=16"],
        _ => &["requests=40000", "flash_mib=8"],
    }
}

#[test]
fn experiments_measure_what_they_declare_and_judge_it() {
    for experiment in experiment::all() {
        let assignments: Vec<_> = short(experiment.name).iter().map(|s| (*s).to_owned()).collect();
        let settings = Settings::new(experiment.name, experiment.parameters, &assignments).unwrap();
        let result = experiment::run(experiment, &settings, 1, &Monitor::default(), &|_| {});
        let result = result.unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
        assert!(!result.reason.is_empty());
        for (metric, spread) in result.metrics.iter() {
            assert!(declares(experiment, metric), "{}: {metric} undeclared", experiment.name);
            assert!(spread.mean.is_finite(), "{}: {metric} {spread:?}", experiment.name);
        }
        for (declared, _) in experiment.metrics {
            let prefix = declared.trim_end_matches('*');
            let found = result.metrics.iter().any(|(metric, _)| metric.starts_with(prefix));
            assert!(found, "{}: {declared} was not measured", experiment.name);
        }
        let page = serde_json::to_string(&result).unwrap();
        assert!(page.contains("\"verdict\""));
    }
}

#[test]
fn a_seed_gives_the_same_numbers_again() {
    for name in ["tenants", "noisy-handle", "mislabelled"] {
        let experiment = experiment::find(name).unwrap();
        let assignments: Vec<_> = short(name).iter().map(|s| (*s).to_owned()).collect();
        let settings = Settings::new(experiment.name, experiment.parameters, &assignments).unwrap();
        let measure = || (experiment.measure)(&settings, 7, &Monitor::default()).unwrap();
        assert_eq!(measure(), measure(), "{name}");
    }
}

#[test]
fn a_stopped_experiment_ends_with_an_error() {
    let monitor = Monitor::default();
    monitor.stop();
    for name in ["utilization", "tenants", "full-scale"] {
        let experiment = experiment::find(name).unwrap();
        let assignments: Vec<_> = short(name).iter().map(|s| (*s).to_owned()).collect();
        let settings = Settings::new(experiment.name, experiment.parameters, &assignments).unwrap();
        let ended = (experiment.measure)(&settings, 1, &monitor);
        assert!(ended.unwrap_err().to_string().contains("interrupted"), "{name}");
    }
}
