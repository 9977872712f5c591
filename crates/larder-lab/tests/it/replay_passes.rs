//! Repeated passes: overwriting a key costs writes, and time continues from pass to pass.

use std::io::Write;

use larder_lab::replay::{self, Monitor, PlacementRuns, ReplayOptions, Run, Workload};
use larder_workload::trace::TraceOptions;

fn replayed(trace: &str, change: impl FnOnce(ReplayOptions) -> ReplayOptions) -> Run {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(trace.as_bytes()).unwrap();
    let workload = Workload::Trace(file.path().to_owned(), TraceOptions::default());
    let base = ReplayOptions { workload, ..ReplayOptions::of_preset("", 1) };
    let base = ReplayOptions { placement: PlacementRuns::On, warmup_percent: 0.0, ..base };
    replay::replay(&change(base), &Monitor::default()).unwrap().runs.remove(0)
}

/// Each pass sets the same keys, without a TTL, and all of them are already on flash. An engine that compared the bytes
/// on flash would write them once and never again.
#[test]
fn overwriting_a_key_writes_it_again() {
    let rows: String = (0..2000).map(|key| format!("0,{key},300,set\n")).collect();
    let trace = format!("time,key,size,op\n{rows}");
    let written = |repeat| {
        let run = replayed(&trace, |base| ReplayOptions {
            repeat,
            dram_bytes: 64 << 10,
            flash_bytes: 16 << 20,
            soc_percent: 50.0,
            ..base
        });
        run.soc_bytes
    };
    let (once, often) = (written(1), written(5));
    assert!(often > once * 9 / 2, "{once} {often}");
}

/// Key 1 lives for ten seconds and is read once in each pass, which takes a hundred.
#[test]
fn time_goes_on_from_pass_to_pass() {
    let run = replayed("time,key,size,op,ttl\n0,1,100,get,10\n100,2,100,get,0\n", |base| {
        ReplayOptions { repeat: 4, flash_bytes: 0, ..base }
    });
    assert_eq!((run.gets, run.hits), (8, 3), "only key 2 is found again");
}
