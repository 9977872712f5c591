//! The memory of a long-running cache: `meta-kv` on a file, with one budget for all memory ([`Config::memory_bytes`]),
//! compared with the resident memory of this process.
//!
//! `cargo run --release -p larder-harness --example resident -- [MINUTES [DIR]]`. The file is 4 GiB and is removed at
//! the end. Prints a line each minute. The process's memory without the cache is measured first and subtracted. The
//! exit status is 1 if the resident memory is ever more than a tenth above the budget, or more than a tenth below it at
//! the end.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use larder::{Blocking, Config, Larder, RealClock, Stats, block_on};
use larder_device::{Device, FileDevice};
use larder_workload::generate::{self, GeneratorOptions};
use larder_workload::machine;
use larder_workload::{Op, Request, RequestSource};

const PRESET: &str = "meta-kv";
const MEMORY_BYTES: u64 = 256 << 20;
const FLASH_BYTES: u64 = 4 << 30;
/// Requests of one round. Then the generator restarts with another seed.
const REQUESTS: u64 = 20_000_000;
const LOOK: Duration = Duration::from_secs(60);

/// The memory of a long-running cache.
#[derive(Debug, Parser)]
#[command(name = "resident", max_term_width = 100)]
struct Arguments {
    /// How long it runs, in minutes
    #[arg(default_value_t = 60)]
    minutes: u64,
    /// Directory for its file of 4 GiB, which is removed at the end
    #[arg(default_value = ".")]
    dir: PathBuf,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let Arguments { minutes, dir } = Arguments::parse();
    for line in machine::describe(&dir) {
        println!("{line}");
    }
    println!("{PRESET}, memory {MEMORY_BYTES} bytes, flash {FLASH_BYTES} bytes, {minutes} minutes");
    let path = dir.join("resident.flash");
    let ended = run(&path, Duration::from_secs(minutes * 60));
    let _ = std::fs::remove_file(&path);
    let worst = ended?;
    let fits = (-0.1..=0.1).contains(&worst);
    println!("furthest from the budget: {:+.1} % ({})", worst * 100.0, verdict(fits));
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verdict(fits: bool) -> &'static str {
    if fits { "within a tenth" } else { "more than a tenth" }
}

/// Returns how far the resident memory was from the budget: the largest excess at any check, or else the value at the
/// end.
fn run(path: &PathBuf, length: Duration) -> Result<f64, Box<dyn Error>> {
    let mut source = generator(1)?;
    let values = vec![0x5a_u8; 1 << 20];
    let without = machine::resident_bytes()?;
    println!("without the cache: {without} bytes resident");
    let device: Arc<dyn Device> = Arc::new(FileDevice::create(path, FLASH_BYTES)?);
    let config =
        Config { memory_bytes: Some(MEMORY_BYTES), start_empty: true, ..Config::default() };
    let cache = block_on(Larder::open(config, Some(device), Arc::new(RealClock)))?;
    let (began, mut looked, mut round) = (Instant::now(), Instant::now(), 1);
    let (mut requests, mut most) = (0_u64, f64::MIN);
    loop {
        match source.next_request()? {
            Some(request) => {
                requests += 1;
                serve(cache.blocking(), &request, &values)?;
            }
            None => {
                round += 1;
                source = generator(round)?;
            }
        }
        if requests.is_multiple_of(1024) && (looked.elapsed() >= LOOK || began.elapsed() >= length)
        {
            looked = Instant::now();
            let above = share_above(machine::resident_bytes()?.saturating_sub(without));
            most = most.max(above);
            print_look(began.elapsed(), requests, above, &cache.stats());
            if began.elapsed() >= length {
                block_on(cache.close())?;
                return Ok(if most > 0.0 { most } else { above });
            }
        }
    }
}

fn generator(seed: u64) -> Result<Box<dyn RequestSource>, Box<dyn Error>> {
    Ok(generate::preset(
        PRESET,
        GeneratorOptions { requests: REQUESTS, span_requests: None, seed },
    )?)
}

/// A look-aside client: a get that misses is followed by a set.
fn serve(cache: Blocking<'_>, request: &Request, values: &[u8]) -> Result<(), Box<dyn Error>> {
    let key = request.key.to_le_bytes();
    let bytes = usize::try_from(request.object_bytes())?.saturating_sub(key.len());
    let value = &values[..bytes.min(values.len())];
    match request.op {
        Op::Get if cache.get(&key)?.is_some() => {}
        Op::Delete => drop(cache.delete(&key)?),
        _ => cache.set(&key, value, None)?,
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // far below 2^52
fn share_above(bytes: u64) -> f64 {
    bytes as f64 / MEMORY_BYTES as f64 - 1.0
}

#[allow(clippy::cast_precision_loss)]
fn print_look(elapsed: Duration, requests: u64, above: f64, stats: &Stats) {
    println!(
        "{:4.0} min: {requests} requests, hits {:.2} %, resident {:+.2} % of the budget; counted: DRAM \
         tier {} + flash {} MiB, {} large objects",
        elapsed.as_secs_f64() / 60.0,
        stats.hits() as f64 * 100.0 / stats.gets.max(1) as f64,
        above * 100.0,
        stats.dram_used_bytes >> 20,
        stats.flash_memory_bytes >> 20,
        stats.loc_objects
    );
}
