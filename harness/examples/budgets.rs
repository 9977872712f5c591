//! A cache in DRAM whose budget changes while threads set and get. Prints, after each pass of traffic, its memory by
//! its own count, the resident memory of this process, and the slowest call.
//!
//! `cargo run --release -p larder-harness --example budgets -- --help`. The budget goes SMALL, LARGE, SMALL, LARGE,
//! SMALL. Prints a line for each. The exit status is 1 if a set was refused, or if the resident memory is more than a
//! tenth above the budget after sets of as many bytes as the budget.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, value_parser};
use larder::{Config, Larder, RealClock, block_on};
use larder_workload::machine;

/// A cache in DRAM whose budget changes while threads set and get.
#[derive(Debug, Parser)]
#[command(name = "budgets", max_term_width = 100)]
struct Arguments {
    /// The smaller budget, in bytes
    #[arg(default_value_t = 16 << 20)]
    small: u64,
    /// The larger budget, in bytes
    #[arg(default_value_t = 1600 << 20)]
    large: u64,
    /// Length of a value
    #[arg(default_value_t = 100)]
    value_bytes: usize,
    /// Threads that set and get
    #[arg(default_value_t = 2, value_parser = value_parser!(u64).range(1..))]
    threads: u64,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let Arguments { small, large, value_bytes, threads } = Arguments::parse();
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    println!("{small} and {large} bytes, values of {value_bytes} bytes, {threads} threads");
    let without = machine::resident_bytes()?;
    let config = Config { dram_bytes: small, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::new(RealClock)))?;
    let next_key = AtomicU64::new(0);
    let mut ended = ExitCode::SUCCESS;
    for budget in [small, large, small, large, small] {
        let begun = Instant::now();
        cache.set_dram_bytes(budget);
        let changed = begun.elapsed();
        let worst = pass(&cache, budget, value_bytes, threads, &next_key)?;
        let stats = cache.stats();
        let resident = machine::resident_bytes()?.saturating_sub(without);
        println!(
            "{:5} MiB: set_dram_bytes {:.1} ms, worst set {:.1} ms, worst get {:.1} ms; counted {:+.1} %, \
             resident {:+.1} %, {} items, {} refused",
            budget >> 20,
            changed.as_secs_f64() * 1e3,
            worst[0].as_secs_f64() * 1e3,
            worst[1].as_secs_f64() * 1e3,
            percent_above(stats.dram_used_bytes, budget),
            percent_above(resident, budget),
            stats.dram_items,
            stats.rejected_dram_pinned_objects,
        );
        if percent_above(resident, budget) > 10.0 || stats.rejected_dram_pinned_objects > 0 {
            ended = ExitCode::FAILURE;
        }
    }
    Ok(ended)
}

/// Makes sets of as many bytes as the budget, each with a get of a recently set key. Returns the slowest set and the
/// slowest get.
fn pass(
    cache: &Larder,
    budget: u64,
    value_bytes: usize,
    threads: u64,
    next_key: &AtomicU64,
) -> Result<[Duration; 2], larder::Error> {
    let value = vec![0x5a; value_bytes];
    let sets = budget / (value_bytes as u64 + 24) / threads;
    let run = || {
        let mut worst = [Duration::ZERO; 2];
        for _ in 0..sets {
            let key = next_key.fetch_add(1, Ordering::Relaxed);
            let begun = Instant::now();
            cache.blocking().set(&key.to_le_bytes(), &value, None)?;
            let was_set = Instant::now();
            let other = key.saturating_sub(key * 7 % 10_000);
            let found = cache.blocking().get(&other.to_le_bytes())?;
            worst[0] = worst[0].max(was_set - begun);
            worst[1] = worst[1].max(was_set.elapsed());
            assert!(found.is_none_or(|found| found.len() == value_bytes));
        }
        Ok::<_, larder::Error>(worst)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut worst = [Duration::ZERO; 2];
        for thread in running {
            let of_thread = thread.join().expect("no thread panics")?;
            worst = [worst[0].max(of_thread[0]), worst[1].max(of_thread[1])];
        }
        Ok(worst)
    })
}

#[allow(clippy::cast_precision_loss)] // far below 2^52
fn percent_above(bytes: u64, budget: u64) -> f64 {
    (bytes as f64 / budget as f64 - 1.0) * 100.0
}
