//! Every experiment, end to end, on a drive that is too small for meaningful results.

use std::path::Path;
use std::sync::Mutex;
use std::thread::{available_parallelism, scope};

use larder_lab::experiment::{self, Experiment, Seeds, Settings};
use larder_lab::replay::Monitor;

use crate::experiment_docs::declares;

/// If it exists, test files are in memory: on a busy disk, durable writes take up to a minute.
const SHARED_MEMORY: &str = "/dev/shm";
const ON_FILES: [&[&str]; 2] = [
    &["mib=1", "rounds=1", "dir=/dev/shm", "core_dir=/dev/shm"],
    &[
        "mib=1",
        "rounds=1",
        concat!("dir=", env!("CARGO_TARGET_TMPDIR")),
        concat!("core_dir=", env!("CARGO_TARGET_TMPDIR")),
    ],
];

/// Settings that make an experiment short.
fn short(name: &str) -> &'static [&'static str] {
    match name {
        "ftl-uniform" => &["units=200"],
        "utilization" => &["requests=40000", "flash_mib=8", "utilization=50,100"],
        "soc-size" => &["requests=40000", "flash_mib=8", "soc=4,64"],
        "model-validation" => &["requests=40000", "flash_mib=8", "soc=8", "uniform_op=100"],
        "dynamic-placement" => &["requests=40000", "flash_mib=8", "soc=4"],
        "isolation-type" => &["requests=40000", "flash_mib=8", "soc=4", "op=17"],
        "mislabelled" => &["requests=40000", "flash_mib=8", "swapped=0,50"],
        "utilization-causes" => &["scale=0.0001", "drive_writes=3", "op=20", "soc_share=85"],
        "full-scale" => &["scale=0.0002", "drive_writes=6"],
        "real-drive" => &["requests=200000", "flash_mib=16", "length=20"],
        // DRAM evicts to flash in bursts, and each quarter of a run needs some.
        "latency" => &["requests=120000", "flash_mib=52", "load=50", "buffers=1"],
        "performance" | "tenant-latency" | "tenant-mix-latency" | "dram-throughput" => {
            &["requests=120000", "flash_mib=52"]
        }
        "dram-tradeoff" => &["requests=80000", "flash_mib=16"],
        "carbon" | "wear-analysis" | "wear-adversary" | "die-wear" => &[],
        "wear-mixes" => &["mixes=4"],
        "hardware-vs-software" | "isolation-latency" | "websearch-mapreduce" => &["seconds=0.5"],
        "harvesting" => &["seconds=1"],
        "exchange" => &["seconds=10", "loads=1000+100"],
        "migration" => &["planes=4", "rate_mb_s=40"],
        "placement-and-isolation" => &["flash_mib=64"],
        "array-index" => &["objects=10000", "dram=4"],
        "array-throughput" => &[
            "shards=1,2",
            "shard_mib=160",
            "clients=16",
            "ops=1000",
            "workloads=hotspot,twitter-ttl",
        ],
        "array-pressure" => &["shard_mib=160", "clients=16", "ops=2000"],
        "array-ttl" => &["regions=128", "region_objects=16", "rate=1", "days=1"],
        "array-collisions" => &["objects=20000"],
        "array-placement" => &["flash_mib=64", "requests=4000"],
        "array-reinsertion" => &["flash_mib=64", "records=4000", "requests=3000"],
        "array-crash" => &["flash_mib=48", "sets=1"],
        "array-memory" => &["flash_gib=16", "object_kib=32"],
        "drive-levelling" => &["days=60", "ops=100"],
        "small-objects" => &["requests=20000"],
        "array-failure" => &["shard_mib=48", "clients=8", "seconds=0.1"],
        "block-raw" => &["requests=100", "depths=1,2"],
        "block-access" => &["lines=512", "files=150"],
        "block-full" => &["cache_mib=16", "stream_percent=50"],
        "block-recovery" => &["cache_mib=16,32"],
        "block-metadata" => &["lines=512", "files=50,125"],
        "block-eviction" => &["lines=512", "rounds=1"],
        "block-invalidate" => &["lines=1024", "files=50,125"],
        "block-placement" => &["flash_mib=32", "drive_writes=2"],
        "block-offload" => &["cores=20", "windows=2"],
        "block-cpu" => ON_FILES[usize::from(!Path::new(SHARED_MEMORY).is_dir())],
        "ycsb" => &["records=300", "ops=150"],
        "vssd-accounting" => {
            &["requests=40000", "flash_mib=8", "appends=2000", "map_gib=1", "scale=100"]
        }
        "tenants" => &["requests=40000", "flash_mib=16"],
        _ => &["requests=40000", "flash_mib=8"],
    }
}

/// The settings of a short run.
fn shortened(experiment: &Experiment) -> Settings {
    let assignments: Vec<_> = short(experiment.name).iter().map(|s| (*s).to_owned()).collect();
    Settings::new(experiment.name, experiment.parameters, &assignments).unwrap()
}

/// Experiments that take 10 seconds or more, however short their settings are.
const LONG: [&str; 8] = [
    "performance",
    "dram-throughput",
    "array-ttl",
    "latency",
    "tenants",
    "tenant-latency",
    "tenant-mix-latency",
    "vssd-accounting",
];

#[test]
fn experiments_measure_what_they_declare_and_judge_it() {
    let all = experiment::all().iter().filter(|experiment| !LONG.contains(&experiment.name));
    let next = Mutex::new(all);
    let work = || {
        while let Some(experiment) = { next.lock().unwrap().next() } {
            check(experiment);
        }
    };
    scope(|scope| {
        (0..available_parallelism().map_or(1, usize::from)).for_each(|_| _ = scope.spawn(work));
    });
}

/// `cargo test -p larder-lab --test it -- --ignored the_longest`
#[test]
#[ignore = "two minutes: `cargo xtask all` runs them"]
fn the_longest_measure_what_they_declare_too() {
    LONG.iter().for_each(|name| check(experiment::find(name).unwrap()));
}

fn check(experiment: &'static Experiment) {
    let settings = shortened(experiment);
    let seeds = Seeds { first: 5, count: 1 };
    let result = experiment::run(experiment, &settings, seeds, &Monitor::default(), &|_| {});
    let result = result.unwrap_or_else(|error| panic!("{}: {error}", experiment.name));
    assert!(!result.reason.is_empty());
    assert_eq!(
        (result.seeds.as_slice(), result.changed.len()),
        (&[5][..], short(experiment.name).len())
    );
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

#[test]
fn seeds_begin_where_they_are_asked_to() {
    let experiment = experiment::find("carbon").unwrap();
    let settings = Settings::new(experiment.name, experiment.parameters, &[]).unwrap();
    let run = |first, count| {
        let seeds = Seeds { first, count };
        experiment::run(experiment, &settings, seeds, &Monitor::default(), &|_| {})
    };
    assert_eq!(run(11, 3).unwrap().seeds, [11, 12, 13]);
    assert_eq!(run(u64::MAX, 1).unwrap().seeds, [u64::MAX]);
    assert!(run(u64::MAX, 2).unwrap_err().to_string().contains("--first-seed"));
    assert!(run(1, 0).unwrap_err().to_string().contains("--seeds 0"));
}

/// A run that is much too short is not judged, whatever its numbers.
#[test]
fn a_drive_that_has_not_settled_is_not_judged() {
    let experiment = experiment::find("write-only").unwrap();
    let short = ["requests=2000".to_owned(), "flash_mib=8".to_owned()];
    let settings = Settings::new(experiment.name, experiment.parameters, &short).unwrap();
    let seeds = Seeds { first: 1, count: 1 };
    let result =
        experiment::run(experiment, &settings, seeds, &Monitor::default(), &|_| {}).unwrap();
    assert_eq!(result.verdict, experiment::Verdict::NotJudged, "{}", result.reason);
    assert!(result.reason.contains("the drive had not settled"), "{}", result.reason);
    assert!(result.reason.contains("requests = 2000 (4000000 by default)"), "{}", result.reason);
}

#[test]
fn a_seed_gives_the_same_numbers_again() {
    ["dynamic-placement", "wear-mixes"].into_iter().for_each(is_the_same_again);
}

#[test]
#[ignore = "more experiments: `cargo xtask all`"]
fn a_seed_of_other_experiments_gives_the_same_numbers_again() {
    ["tenants", "noisy-handle", "mislabelled", "ru-aware-eviction", "die-wear"]
        .into_iter()
        .for_each(is_the_same_again);
}

fn is_the_same_again(name: &str) {
    let experiment = experiment::find(name).unwrap();
    let settings = shortened(experiment);
    let measure = || (experiment.measure)(&settings, 7, &Monitor::default()).unwrap();
    assert_eq!(measure(), measure(), "{name}");
}

/// All metrics except those declared as clock-dependent must be the same in two runs.
#[test]
fn what_no_clock_measures_is_the_same_again() {
    let clocked = experiment::all().iter().filter(|experiment| !experiment.by_clock().is_empty());
    let mut names = Vec::new();
    for experiment in clocked {
        names.push(experiment.name);
        let settings = shortened(experiment);
        let counted = || {
            let mut metrics = (experiment.measure)(&settings, 7, &Monitor::default()).unwrap();
            for pattern in experiment.by_clock() {
                let series = pattern.split('*').next().unwrap();
                assert!(metrics.keys().any(|name| name.starts_with(series)), "{pattern}");
            }
            metrics.retain(|name, _| !experiment.is_by_clock(name));
            metrics
        };
        let (once, again) = (counted(), counted());
        assert!(!once.is_empty(), "{}", experiment.name);
        assert_eq!(once, again, "{}", experiment.name);
    }
    assert_eq!(names, ["vssd-accounting", "block-cpu", "full-scale"]);
    let result = |name: &str| {
        let experiment = experiment::find(name).unwrap();
        let settings = shortened(experiment);
        let seeds = Seeds { first: 5, count: 1 };
        let ran = experiment::run(experiment, &settings, seeds, &Monitor::default(), &|_| {});
        serde_json::to_value(ran.unwrap()).unwrap()
    };
    let left_out = experiment::all().len() - experiment::anywhere().len();
    assert_eq!(left_out, 1, "verdicts of all are the same on any machine");
    let cpu = result("block-cpu");
    assert!(cpu["machine"][0].as_str().unwrap().starts_with("cpu: "), "{}", cpu["machine"]);
    assert_eq!(cpu["by_clock"][0], "mb_s.*");
    // The results of all other experiments are a function of their seeds, to the byte.
    let carbon = result("carbon");
    assert!(carbon.get("machine").is_none() && carbon.get("by_clock").is_none());
}

/// One real run each, on a small drive: the options have their effect, and no other.
#[test]
#[ignore = "half a minute: `cargo xtask all` runs it"]
fn the_options_of_the_engines_reach_them() {
    let measure = |name: &str| {
        let experiment = experiment::find(name).unwrap();
        // Long enough for the large-object engine of the KV Cache to fill a few units.
        let assignments = ["requests=300000".to_owned(), "flash_mib=8".to_owned()];
        let settings = Settings::new(experiment.name, experiment.parameters, &assignments).unwrap();
        (experiment.measure)(&settings, 3, &Monitor::default()).unwrap()
    };
    let evicted = measure("ru-aware-eviction");
    for point in ["kv", "document", "small"] {
        let deallocated = |arm: &str| evicted[&format!("deallocated_bytes.{arm}.{point}")];
        assert!(deallocated("unit") >= evicted[&format!("unit_bytes.{point}")], "{point}");
        assert_eq!(deallocated("region"), 0.0, "{point}");
    }
    assert!(evicted["unit_bytes.small"] < evicted["unit_bytes.document"] / 2.0);
    let placed = measure("dynamic-placement");
    for soc in [4, 32] {
        let of = |metric: &str| placed[&format!("{metric}.{soc}")];
        assert!((0.0001..0.5).contains(&of("hot_share")), "{}", of("hot_share"));
        assert_eq!(of("hit.static"), of("hit.dynamic"));
        assert_eq!(of("alwa.static"), of("alwa.dynamic"));
    }
}

#[test]
fn a_stopped_experiment_ends_with_an_error() {
    let monitor = Monitor::default();
    monitor.stop();
    for name in ["utilization", "tenants", "full-scale", "wear-adversary", "block-cpu"] {
        let experiment = experiment::find(name).unwrap();
        let settings = shortened(experiment);
        let ended = (experiment.measure)(&settings, 1, &monitor);
        assert!(ended.unwrap_err().to_string().contains("interrupted"), "{name}");
    }
}
