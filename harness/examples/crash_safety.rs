//! The cost of each level of crash safety: sets a second of keys that are on flash, for comparison.
//!
//! `cargo run --release -p larder-harness --example crash_safety -- FILE [SECONDS [ROUNDS]]`. The file is overwritten.
//!
//! Each round opens an empty cache of each level in turn, fills it, flushes, and then replaces keys that are on flash,
//! which is when tombstones are written. Runs on a file with threads in real time; on a virtual NVMe SSD, whose write
//! cache survives a loss of power; and on a virtual SATA SSD, whose write cache does not, with 64 clients. Prints
//! medians over the rounds.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, value_parser};
use larder::config::Demotions;
use larder::{Config, CrashSafety, Larder, RealClock, block_on};
use larder_device::model::virtual_time::{Shape, shapes};
use larder_device::{
    Clock, Device, FileDevice, Payload, ShapedStorage, VirtualClock, VirtualTimeDevice,
};
use larder_sim::executor::Executor;

/// The cost of each level of crash safety: sets a second of keys that are on flash, for comparison.
#[derive(Debug, Parser)]
#[command(name = "crash_safety", max_term_width = 100)]
struct Arguments {
    /// The file for the caches, one after the other; it is overwritten
    file: String,
    /// Length of each measurement, in seconds of real time
    #[arg(default_value_t = 3, value_parser = value_parser!(u16).range(1..))]
    seconds: u16,
    /// Number of rounds
    #[arg(default_value_t = 5, value_parser = value_parser!(u16).range(1..))]
    rounds: u16,
}

type Problem = Box<dyn std::error::Error>;

const LEVELS: [CrashSafety; 3] = [CrashSafety::Off, CrashSafety::Process, CrashSafety::Power];
const FLASH_BYTES: u64 = 256 << 20;
const KEYS: u64 = 60_000;
const VIRTUAL_CLIENTS: u64 = 64;
const VIRTUAL_SETS: u64 = 300;

/// One in this number of objects is large.
const LARGE_ONE_IN: u64 = 8;
const SMALL_BYTES: usize = 300;
const LARGE_BYTES: usize = 6_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("crash_safety: {problem}\nusage: crash_safety FILE [SECONDS] [ROUNDS]");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Problem> {
    let Arguments { file: path, seconds, rounds } = Arguments::parse();
    let (seconds, rounds) = (f64::from(seconds), usize::from(rounds));
    println!("sets a second of keys that flash holds, medians of {rounds} rounds, interleaved\n");
    println!("{:44} {:>10} {:>10} {:>10} {:>16}", "", "off", "process", "power", "power / process");
    for threads in [1, 16] {
        let name = format!("{path}, {threads} threads");
        report(&name, rounds, |level| on_file(&path, level, threads, seconds))?;
    }
    for shape in [shapes::NVME_TLC, shapes::SATA_SSD] {
        let has = if shape.volatile_cache { "with" } else { "without" };
        let name = format!("{}, {has} volatile cache, virtual time", shape.name);
        report(&name, rounds.min(3), |level| in_virtual_time(shape, level))?;
    }
    Ok(())
}

fn report(
    name: &str,
    rounds: usize,
    measure: impl Fn(CrashSafety) -> Result<f64, Problem>,
) -> Result<(), Problem> {
    let mut rates = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (rates, level) in rates.iter_mut().zip(LEVELS) {
            rates.push(measure(level)?);
        }
    }
    let [off, process, power] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!("{name:44} {off:>10.0} {process:>10.0} {power:>10.0} {:>16.2}", power / process);
    Ok(())
}

fn config(crash_safety: CrashSafety) -> Config {
    Config { dram_bytes: 8 << 20, crash_safety, hash_seed: Some(1), ..Config::default() }
}

fn value_of(key: u64) -> &'static [u8] {
    const BYTES: [u8; LARGE_BYTES] = [7; LARGE_BYTES];
    if key.is_multiple_of(LARGE_ONE_IN) { &BYTES } else { &BYTES[..SMALL_BYTES] }
}

/// Fills `cache` until nearly all keys are on flash.
async fn fill(cache: &Larder, keys: u64) -> Result<(), Problem> {
    for key in 0..keys {
        cache.set(&key.to_le_bytes(), value_of(key), None).await?;
    }
    let _flushed = cache.flush().await?;
    Ok(())
}

fn on_file(path: &str, level: CrashSafety, threads: u64, seconds: f64) -> Result<f64, Problem> {
    let _ = std::fs::remove_file(path);
    let device: Arc<dyn Device> = Arc::new(FileDevice::create(path, FLASH_BYTES)?);
    let cache = block_on(Larder::open(config(level), Some(device), Arc::new(RealClock)))?;
    block_on(fill(&cache, KEYS))?;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (cache, stop, done) = (&cache, &stop, &done);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                while !stop.load(Ordering::Relaxed) {
                    let key = rng.u64(..KEYS);
                    if block_on(cache.set(&key.to_le_bytes(), value_of(key), None)).is_ok() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    let rate = done.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64();
    drop(cache);
    std::fs::remove_file(path)?;
    Ok(rate)
}

fn in_virtual_time(shape: Shape, level: CrashSafety) -> Result<f64, Problem> {
    let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1)));
    let storage = ShapedStorage::new(shape, FLASH_BYTES)?;
    let device: Arc<dyn Device> =
        Arc::new(VirtualTimeDevice::new(storage, Payload::Memory, Arc::clone(&clock))?);
    let config = Config { demotions: Demotions::Callers, ..config(level) };
    let cache = block_on(Larder::open(config, Some(device), Arc::clone(&clock) as _))?;
    let keys = KEYS / 4;
    block_on(fill(&cache, keys))?;
    let begin = clock.now();
    let mut executor = Executor::new(Arc::clone(&clock));
    executor.spawn_background(cache.send_demotions());
    for client in 0..VIRTUAL_CLIENTS {
        let cache = &cache;
        executor.spawn(async move {
            let mut rng = fastrand::Rng::with_seed(client);
            for _ in 0..VIRTUAL_SETS {
                let key = rng.u64(..keys);
                let _taken = cache.set(&key.to_le_bytes(), value_of(key), None).await;
            }
        });
    }
    executor.run()?;
    drop(executor);
    let seconds = (clock.now() - begin).as_secs_f64();
    Ok((VIRTUAL_CLIENTS * VIRTUAL_SETS) as f64 / seconds)
}
