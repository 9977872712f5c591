//! Invalid settings are refused by name before a long run starts.

use larder_lab::Error;
use larder_lab::experiment::{self, Settings};
use larder_lab::replay::Monitor;

/// The message with which `name` refuses a setting.
fn refusal(name: &str, setting: &str) -> String {
    let experiment = experiment::find(name).unwrap();
    let settings = Settings::new(experiment.name, experiment.parameters, &[setting.to_owned()]);
    let refused =
        settings.and_then(|settings| (experiment.measure)(&settings, 1, &Monitor::default()));
    match refused {
        Err(Error::Usage(message)) => message,
        other => panic!("{name} {setting}: {other:?}"),
    }
}

/// Settings out of range, by experiment.
const OUT_OF_RANGE: &[(&str, &str)] = &[
    ("utilization", "flash_mib=4"),
    ("dlwa-interval", "flash_mib=many"),
    ("soc-size", "op=0"),
    ("soc-size", "op=1000"),
    ("soc-size", "soc=4,large"),
    ("mislabelled", "swapped=101"),
    ("isolation-type", "small_ru=1"),
    ("ru-aware-eviction", "regions=1"),
    ("ru-aware-eviction", "regions=65"),
    ("ru-aware-eviction", "small=0"),
    ("dynamic-placement", "soc=4,large"),
    ("noisy-handle", "neighbour=90"),
    ("noisy-handle", "rate=-1"),
    ("noisy-handle", "soc=0"),
    ("full-scale", "scale=2"),
    ("utilization-causes", "op=17,4"),
    ("utilization-causes", "soc_share=100"),
    ("utilization-causes", "drive_writes=2"),
    ("full-scale", "drive_writes=0"),
    ("carbon", "dlwa_on=low"),
    ("tenants", "requests=-5"),
    ("latency", "host_us=-1"),
    ("latency", "writers=0"),
    ("performance", "dies=12"),
    ("tenant-mix-latency", "dies=4"),
    ("dram-tradeoff", "admission=some"),
    ("carbon", "kg_per_kwh=-1"),
    ("carbon", "drive_writes_per_day=0"),
    ("carbon", "idle_watts=x"),
    ("wear-adversary", "channels=1"),
    ("wear-adversary", "channels=16.5"),
    ("wear-adversary", "cycles=10"),
    ("wear-adversary", "delta=0"),
    ("wear-adversary", "migration=11"),
    ("wear-mixes", "mixes=0"),
    ("wear-mixes", "sigma=4"),
    ("wear-mixes", "ratio=1"),
    ("wear-mixes", "bursts=-1"),
    ("die-wear", "dies=1"),
    ("placement-and-isolation", "writes=0"),
    ("placement-and-isolation", "soc=95"),
    ("array-index", "objects=10"),
    ("array-index", "sets=101"),
    ("array-index", "dram=0"),
    ("array-throughput", "shard_mib=10"),
    ("array-throughput", "clients=0"),
    ("array-throughput", "shards=1,129"),
    ("array-throughput", "workloads=hotspot,ycsb-e"),
    ("array-throughput", "drive=pm9"),
    ("array-throughput", "filled=3,96"),
    ("array-pressure", "sets=0"),
    ("array-pressure", "drive=fast"),
    ("array-ttl", "regions=10"),
    ("array-ttl", "rate=0"),
    ("array-collisions", "bits=7"),
    ("array-crash", "flash_mib=64,10"),
    ("array-crash", "sets=0"),
    ("array-memory", "object_kib=0"),
    ("array-failure", "seconds=0.01"),
    ("array-failure", "clients=0"),
    ("array-placement", "flash_mib=10"),
    ("array-placement", "rate=0"),
    ("array-reinsertion", "records=10"),
    ("vssd-accounting", "appends=10"),
    ("vssd-accounting", "scale=0"),
    ("vssd-accounting", "vssd=plane"),
    ("ycsb", "records=10"),
    ("ycsb", "instances=3"),
];

#[test]
fn settings_out_of_range_are_refused_by_name() {
    refused_by_name(OUT_OF_RANGE);
}

#[test]
fn settings_of_block_caches_are_refused_by_name() {
    refused_by_name(&[
        ("block-raw", "depths=1,0"),
        ("block-raw", "requests=10"),
        ("block-access", "drive_io_ns=2000000"),
        ("block-full", "write_kib=6"),
        ("block-full", "depth=0"),
        ("block-recovery", "cache_mib=128"),
        ("block-recovery", "cache_mib=256,128"),
        ("block-recovery", "cache_mib=8,128"),
        ("block-metadata", "lines=100"),
        ("block-metadata", "files=50,0"),
        ("block-eviction", "rounds=0"),
        ("block-eviction", "log_depth=0"),
        ("block-invalidate", "files=2000"),
        ("block-placement", "drive_writes=1"),
        ("block-offload", "cores=40,200"),
        ("block-offload", "windows=1"),
        ("block-cpu", "mib=0"),
        ("block-cpu", "rounds=0"),
        ("block-cpu", "dir=/absent/directory"),
        ("block-cpu", "core_dir=/absent/directory"),
    ]);
}

#[test]
fn settings_of_small_objects_are_refused_by_name() {
    refused_by_name(&[
        ("small-objects", "requests=10"),
        ("small-objects", "object_max=4051"),
        ("small-objects", "slower=0"),
        ("small-objects", "deletes=51"),
        ("small-objects", "admission=some"),
        ("small-objects", "admission=probability:2"),
        ("small-objects", "flash=0"),
        ("small-objects", "soc=4,0"),
        ("small-objects", "dram=32,2"),
        ("small-objects", "layouts=fifo,heap"),
        ("small-objects", "pages_factor=0"),
        ("small-objects", "zone=0.6"),
        ("small-objects", "lists=long"),
        ("small-objects", "companions_factor=21"),
        ("small-objects", "cold=1.1"),
        ("small-objects", "carry=1"),
        ("small-objects", "rounds=8"),
        ("small-objects", "off=all"),
    ]);
}

fn refused_by_name(cases: &[(&str, &str)]) {
    for &(name, setting) in cases {
        let message = refusal(name, setting);
        let (parameter, _) = setting.split_once('=').unwrap();
        assert!(message.contains(&format!("--set {parameter}=")), "{name} {setting}: {message}");
    }
}

#[test]
fn what_only_the_cache_or_the_model_can_judge_is_refused_too() {
    for (name, setting) in [
        ("utilization", "utilization=120"),
        ("twitter", "requests=0"),
        ("small-objects", "workload=unknown"),
        ("carbon", "dlwa_on=0.5"),
        ("carbon", "useful_gb=4096"),
    ] {
        assert!(!refusal(name, setting).is_empty());
    }
}
