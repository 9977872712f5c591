//! Runs seeds of the simulation: what `cargo xtask soak` starts.
//!
//! ```text
//! soak --seeds N [--first-seed S] [--json FILE] [--theme power]
//! ```

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use larder_sim::soak::{Lie, Totals, run_power_seed, run_seed};
use serde_json::json;

/// How often the line of progress is renewed.
const PROGRESS: Duration = Duration::from_millis(250);

struct Arguments {
    seeds: u64,
    first_seed: u64,
    /// Only seeds about losses of power.
    power: bool,
    json: Option<String>,
}

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(complaint) => {
            eprintln!(
                "soak: {complaint}\nusage: soak --seeds N [--first-seed S] [--json FILE] [--theme power]"
            );
            return ExitCode::from(2);
        }
    };
    let begin = Instant::now();
    let (totals, failed) = run(&arguments);
    print!("{}", table(&totals, begin.elapsed()));
    if let Some(path) = &arguments.json
        && let Err(cause) = std::fs::write(path, page(&arguments, &totals, failed, begin.elapsed()))
    {
        eprintln!("soak: cannot write {path}: {cause}");
        return ExitCode::FAILURE;
    }
    match failed {
        None => ExitCode::SUCCESS,
        Some(seed) => {
            if arguments.power {
                println!("\nreplay: the same with --seeds 1 --first-seed {seed} --theme power");
            } else {
                println!("\nreplay: cargo xtask soak --seeds 1 --first-seed {seed}");
            }
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self { seeds: 0, first_seed: 0, power: false, json: None };
        let mut words = words;
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            let number = || value.parse().map_err(|_| format!("{word} {value}: not a number"));
            match word.as_str() {
                "--seeds" => arguments.seeds = number()?,
                "--first-seed" => arguments.first_seed = number()?,
                "--theme" if value == "power" => arguments.power = true,
                "--json" => arguments.json = Some(value),
                _ => return Err(format!("cannot understand: {word}")),
            }
        }
        if arguments.seeds == 0 {
            return Err("--seeds must be at least 1".to_owned());
        }
        if arguments.first_seed.checked_add(arguments.seeds).is_none() {
            return Err("--first-seed and --seeds go beyond 2^64".to_owned());
        }
        Ok(arguments)
    }
}

/// Runs seeds up to the first that fails.
fn run(arguments: &Arguments) -> (Totals, Option<u64>) {
    let mut totals = Totals::default();
    let mut shown = Instant::now();
    let mut failed = None;
    for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
        let report = match arguments.power {
            true => run_power_seed(seed),
            false => run_seed(seed, Lie::None),
        };
        totals.add(&report.totals);
        if let Some(wrong) = report.wrong {
            clear_progress();
            println!("{wrong}\n");
            failed = Some(seed);
            break;
        }
        if shown.elapsed() > PROGRESS {
            shown = Instant::now();
            progress(&totals, arguments.seeds);
        }
    }
    clear_progress();
    (totals, failed)
}

fn progress(totals: &Totals, seeds: u64) {
    if std::io::stderr().is_terminal() {
        let Totals { seeds: done, crash_points, operations, .. } = totals;
        eprint!("\r{done} of {seeds} seeds, {crash_points} crash points, {operations} operations ");
        // Only the look of the terminal depends on it.
        std::io::stderr().flush().unwrap_or(());
    }
}

fn clear_progress() {
    if std::io::stderr().is_terminal() {
        eprint!("\r{:78}\r", "");
    }
}

fn table(totals: &Totals, elapsed: Duration) -> String {
    let rows = totals.rows();
    let width = rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let mut out: String =
        rows.iter().map(|(label, count)| format!("{label:width$}  {count:>14}\n")).collect();
    out.push_str(&format!("{:width$}  {:>14.1}\n", "seconds", elapsed.as_secs_f64()));
    out
}

fn page(arguments: &Arguments, totals: &Totals, failed: Option<u64>, elapsed: Duration) -> String {
    let page = json!({
        "first_seed": arguments.first_seed,
        "failed_seed": failed,
        "seconds": elapsed.as_secs_f64(),
        "totals": totals,
    });
    format!("{page:#}\n")
}
