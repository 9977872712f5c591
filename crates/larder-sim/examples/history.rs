//! The cache on threads that change the same keys, judged by the history of each key. At the same time its budget
//! changes by a factor of a hundred, values are held, and above flash changes are dropped midway.
//!
//! `cargo run --release -p larder-sim --example history -- --help`.
//!
//! If the history is impossible, the exit status is 1, and the command that repeats the run is printed; the order of
//! the threads' steps is not repeated.

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, value_parser};
use larder_device::{Device, FileDevice, ModelDevice, Payload};
use larder_sim::history::{Options, Totals, run};
use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_workload::machine;

/// Interval between updates of the progress line.
const PROGRESS: Duration = Duration::from_millis(250);
const FLASH_BYTES: u64 = 64 << 20;

/// Threads change the same keys, and the history of each key is judged.
#[derive(Debug, Parser)]
#[command(name = "history", max_term_width = 100)]
struct Arguments {
    /// Operations of all threads: the default takes a minute or two in DRAM
    #[arg(long, value_name = "N", default_value_t = 100_000_000, value_parser = value_parser!(u64).range(1..))]
    ops: u64,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = value_parser!(u32).range(1..=255))]
    threads: u32,
    /// Number of keys; with fewer keys more operations overlap
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = value_parser!(u32).range(16..=1 << 20))]
    keys: u32,
    /// Seed of the operations; the order of the threads' steps is not repeated
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Use a file of 64 MiB at this path, which is deleted afterwards, instead of DRAM alone
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Use the SSD model
    #[arg(long, conflicts_with = "file")]
    model: bool,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments = Arguments::parse();
    let Arguments { ops, threads, keys, seed, .. } = arguments;
    let options = Options { operations: ops, threads, keys, seed };
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    let begin = Instant::now();
    let mut shown = begin;
    let ended = run(&options, open(&arguments)?, |totals| {
        if shown.elapsed() > PROGRESS && std::io::stderr().is_terminal() {
            shown = Instant::now();
            show(totals, options.operations);
        }
    });
    if std::io::stderr().is_terminal() {
        eprint!("\r{:78}\r", "");
    }
    if let Some(path) = &arguments.file {
        std::fs::remove_file(path)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    match ended {
        Ok(totals) => {
            println!("{totals}: no wrong answer, {seconds:.1} s");
            Ok(ExitCode::SUCCESS)
        }
        Err(wrong) => {
            let words: String = std::env::args().skip(1).map(|word| format!(" {word}")).collect();
            println!(
                "{wrong}\n\nreplay: cargo run --release -p larder-sim --example history --{words}"
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

fn open(arguments: &Arguments) -> Result<Option<Arc<dyn Device>>, Box<dyn Error>> {
    if let Some(path) = &arguments.file {
        return Ok(Some(Arc::new(FileDevice::create(path, FLASH_BYTES)?)));
    }
    if !arguments.model {
        return Ok(None);
    }
    let geometry = Geometry::with_overprovisioning(FLASH_BYTES, 256 << 10, 60.0)?;
    Ok(Some(Arc::new(ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory)?)))
}

fn show(totals: &Totals, operations: u64) {
    let Totals { operations: done, budgets, kept, .. } = totals;
    eprint!("\r{done} of {operations} operations, {budgets} budgets, {kept} values kept ");
    // Ignore errors: this only affects the display.
    std::io::stderr().flush().unwrap_or(());
}
