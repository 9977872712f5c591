//! The cache on threads that change the same keys, judged by the history of each key, while its budget goes up and
//! down a hundredfold, values are kept, and above flash changes are dropped on their way.
//!
//! ```text
//! history [--ops N] [--threads N] [--keys N] [--seed S] [--file PATH | --model]
//! ```
//!
//! A hundred million operations of 16 threads on 256 keys if nothing else is said, in DRAM; with `--file` above a
//! file of 64 MiB, which is deleted afterwards, with `--model` above the SSD model. Ends with status 1 and the
//! command that repeats the run if the history cannot be; the order of the threads' steps is not repeated.

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_device::{Device, FileDevice, ModelDevice, Payload};
use larder_sim::history::{Options, Totals, run};
use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_workload::machine;

/// How often the line of progress is renewed.
const PROGRESS: Duration = Duration::from_millis(250);
const FLASH_BYTES: u64 = 64 << 20;
const USAGE: &str = "\
usage: history [--ops N] [--threads N] [--keys N] [--seed S] [--file PATH | --model]

Threads change the same keys, and the history of each key is judged.

  --ops N       operations of all threads (default 100000000: a minute or two in DRAM)
  --threads N   threads (default 16)
  --keys N      keys (default 256); fewer meet more often
  --seed S      of the operations (default 1); the order of the threads' steps is not repeated
  --file PATH   above a file of 64 MiB there, which is deleted afterwards
  --model       above the SSD model";

enum Below {
    Nothing,
    Model,
    File(PathBuf),
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| ["-h", "--help"].contains(&word.as_str())) {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    let (options, below) = match read(&words) {
        Ok(asked) => asked,
        Err(complaint) => {
            eprintln!("history: {complaint}\n{USAGE}");
            return Ok(ExitCode::from(2));
        }
    };
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    let begin = Instant::now();
    let mut shown = begin;
    let ended = run(&options, open(&below)?, |totals| {
        if shown.elapsed() > PROGRESS && std::io::stderr().is_terminal() {
            shown = Instant::now();
            show(totals, options.operations);
        }
    });
    if std::io::stderr().is_terminal() {
        eprint!("\r{:78}\r", "");
    }
    if let Below::File(path) = &below {
        std::fs::remove_file(path)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    match ended {
        Ok(totals) => {
            println!("{totals}: no wrong answer, {seconds:.1} s");
            Ok(ExitCode::SUCCESS)
        }
        Err(wrong) => {
            let words =
                if words.is_empty() { String::new() } else { format!(" -- {}", words.join(" ")) };
            println!(
                "{wrong}\n\nreplay: cargo run --release -p larder-sim --example history{words}"
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

fn read(words: &[String]) -> Result<(Options, Below), String> {
    let mut options = Options { operations: 100_000_000, threads: 16, keys: 256, seed: 1 };
    let mut below = Below::Nothing;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--model" {
            below = Below::Model;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} {value}: not a number"));
        let small = |least, most| match number()?.try_into() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(format!("{word} {value}: must be {least} to {most}")),
        };
        match word.as_str() {
            "--ops" => options.operations = number()?.max(1),
            "--threads" => options.threads = small(1, 255)?,
            "--keys" => options.keys = small(16, 1 << 20)?,
            "--seed" => options.seed = number()?,
            "--file" => below = Below::File(PathBuf::from(value)),
            _ => return Err(format!("cannot understand: {word}")),
        }
    }
    Ok((options, below))
}

fn open(below: &Below) -> Result<Option<Arc<dyn Device>>, Box<dyn Error>> {
    Ok(match below {
        Below::Nothing => None,
        Below::Model => {
            let geometry = Geometry::with_overprovisioning(FLASH_BYTES, 256 << 10, 60.0)?;
            Some(Arc::new(ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory)?))
        }
        Below::File(path) => Some(Arc::new(FileDevice::create(path, FLASH_BYTES)?)),
    })
}

fn show(totals: &Totals, operations: u64) {
    let Totals { operations: done, budgets, kept, .. } = totals;
    eprint!("\r{done} of {operations} operations, {budgets} budgets, {kept} values kept ");
    // Only the look of the terminal depends on it.
    std::io::stderr().flush().unwrap_or(());
}
