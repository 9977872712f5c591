//! Requests per second of a replay, and of the request sources alone, on one core.
//!
//! `cargo bench -p larder-lab --bench replay`. Rounds are interleaved; prints medians and spread. The trace is
//! Twitter's, in `LARDER_DATA` or in `../shared/data` next to the workspace. If it is missing, a generated trace with
//! the same number of requests replaces it.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use larder_lab::replay::{Monitor, PlacementRuns, ReplayOptions, Workload, replay};
use larder_workload::generate::{self, GeneratorOptions};
use larder_workload::trace::{self, TraceOptions};
use larder_workload::{Op, RequestSource, Spread, machine};

const TRACE: &str = "kv/twitter_c52_req0-4M.csv.zst";
const TRACE_REQUESTS: u64 = 4_000_000;
const PRESET: &str = "meta-kv";
const PRESET_REQUESTS: u64 = 10_000_000;
/// More than the trace needs.
const DRAM_BYTES: u64 = 1 << 30;
const SEED: u64 = 1;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    for line in machine::describe(Path::new(".")) {
        println!("{line}");
    }
    let folder = tempfile::tempdir()?;
    let (trace, name) = match data() {
        Some(path) => (path, format!("{TRACE}, {TRACE_REQUESTS} requests")),
        None => {
            println!("skipped: {TRACE} is not there; generated requests stand in");
            (stand_in(folder.path())?, format!("{TRACE_REQUESTS} requests of {PRESET} as csv.zst"))
        }
    };
    let in_dram = ReplayOptions {
        workload: Workload::Trace(trace.clone(), TraceOptions::default()),
        dram_bytes: DRAM_BYTES,
        flash_bytes: 0,
        placement: PlacementRuns::Off,
        ..defaults()
    };
    let on_model = defaults();
    print_parameters(&name, &on_model);
    let mut rates = [const { Vec::new() }; 4];
    let mut notes = [const { String::new() }; 4];
    for _ in 0..ROUNDS {
        for (number, options) in [&in_dram, &on_model].into_iter().enumerate() {
            let (rate, note) = rate_of_replay(options)?;
            rates[number].push(rate);
            notes[number] = note;
        }
        let mut source = trace::open(&trace, &TraceOptions::default())?;
        rates[2].push(rate_of_source(source.as_mut())?);
        let options =
            GeneratorOptions { requests: PRESET_REQUESTS, span_requests: None, seed: SEED };
        rates[3].push(rate_of_source(generate::preset(PRESET, options)?.as_mut())?);
    }
    let names = [
        "replay of the trace, in DRAM",
        "replay of meta-kv, SSD model",
        "trace alone",
        "meta-kv alone",
    ];
    for ((name, rates), note) in names.iter().zip(rates).zip(&notes) {
        report(name, rates, note);
    }
    Ok(())
}

/// The options of `larder replay --placement on`.
fn defaults() -> ReplayOptions {
    ReplayOptions { placement: PlacementRuns::On, ..ReplayOptions::of_preset(PRESET, SEED) }
}

fn print_parameters(trace: &str, model: &ReplayOptions) {
    println!("parameters: seed {SEED}, {ROUNDS} rounds");
    println!("  trace: {trace}; DRAM {} MiB, no flash", DRAM_BYTES >> 20);
    println!(
        "  {PRESET}: {PRESET_REQUESTS} requests; DRAM {} MiB, flash {} MiB, SOC {} % up to {} \
         bytes, OP {} %, units of {} KiB, placement on",
        model.dram_bytes >> 20,
        model.flash_bytes >> 20,
        model.soc_percent,
        model.soc_max_object_bytes,
        model.op_percent,
        model.resolved_unit_bytes() >> 10,
    );
}

/// Requests per second of one run, without its setup, and the result.
fn rate_of_replay(options: &ReplayOptions) -> Result<(f64, String), Box<dyn Error>> {
    let outcome = replay(options, &Monitor::default())?;
    let run = outcome.runs.first().ok_or("no run")?;
    let mut note = format!("{} requests, {} misses", run.requests, run.gets - run.hits);
    if let Some(dlwa) = run.dlwa {
        note += &format!(", DLWA {dlwa:.3}");
    }
    Ok((run.requests_per_second, note))
}

fn rate_of_source(source: &mut dyn RequestSource) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    let mut requests = 0_u64;
    let mut keys = 0_u64;
    while let Some(request) = source.next_request()? {
        requests += 1;
        keys ^= request.key;
    }
    std::hint::black_box(keys);
    #[allow(clippy::cast_precision_loss)]
    Ok(requests as f64 / start.elapsed().as_secs_f64())
}

/// The path of the trace, if it exists.
fn data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("LARDER_DATA").map_or(beside, PathBuf::from).join(TRACE);
    path.exists().then_some(path)
}

/// Writes the requests of a generator as a compressed trace of the same format: time, object, size, all GETs.
fn stand_in(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let path = folder.join("stand-in.csv.zst");
    let encoder = zstd::Encoder::new(File::create(&path)?, 3)?.auto_finish();
    let mut file = BufWriter::new(encoder);
    let options = GeneratorOptions { requests: TRACE_REQUESTS, span_requests: None, seed: SEED };
    let mut source = generate::preset(PRESET, options)?;
    writeln!(file, "time,object,size")?;
    while let Some(request) = source.next_request()? {
        debug_assert!(request.op != Op::Delete, "{PRESET} deletes nothing");
        writeln!(file, "{},{},{}", request.time_s, request.key, request.object_bytes())?;
    }
    file.flush()?;
    Ok(path)
}

fn report(name: &str, rates: Vec<f64>, note: &str) {
    let rates = rates.into_iter().map(|rate| rate / 1e6);
    let spread = Spread::of(rates).expect("there are rounds");
    println!("{name:30} {spread} M requests/s  {note}");
}
