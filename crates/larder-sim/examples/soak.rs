//! Runs seeds of the simulation: the program behind `cargo xtask soak`; see `--help`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum, value_parser};
use larder_sim::soak::{
    InjectedBug, Totals, run_array_seed, run_blocks_seed, run_pages_seed, run_power_seed, run_seed,
    run_shards_seed,
};
use serde_json::json;

/// Interval between updates of the progress line.
const PROGRESS: Duration = Duration::from_millis(250);

/// Simulates the cache by seed, up to the first seed with a wrong answer.
#[derive(Debug, Parser)]
#[command(name = "soak", max_term_width = 100)]
struct Arguments {
    /// Number of seeds
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    first_seed: u64,
    /// Only seeds about this topic
    #[arg(long)]
    theme: Option<Theme>,
    /// File for the totals
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Topics of seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Theme {
    /// Power losses, and whether all flushed data is present after them
    Power,
    /// A cache on blocks, with the journal of blocks and a device above them
    Blocks,
    /// Large objects in the array engine, whose index is on flash
    Array,
    /// Small objects in pages by set
    Pages,
    /// Several drives with a shard each, which fail, recover, are replaced, added and removed
    Shards,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.first_seed.checked_add(arguments.seeds).is_none() {
        eprintln!("soak: --first-seed and --seeds go beyond 2^64: use smaller ones");
        return ExitCode::from(2);
    }
    let begin = Instant::now();
    let (totals, failed) = run(&arguments);
    print!("{}", table(&totals, begin.elapsed()));
    if let Some(path) = &arguments.json
        && let Err(cause) = std::fs::write(path, page(&arguments, &totals, failed, begin.elapsed()))
    {
        eprintln!("soak: cannot write {}: {cause}", path.display());
        return ExitCode::FAILURE;
    }
    match failed {
        None => ExitCode::SUCCESS,
        Some(seed) => {
            let again = format!("--seeds 1 --first-seed {seed}");
            match arguments.theme {
                Some(Theme::Power) => println!("\nreplay: the same with {again} --theme power"),
                Some(Theme::Blocks) => println!("\nreplay: the same with {again} --theme blocks"),
                Some(Theme::Array) => println!("\nreplay: the same with {again} --theme array"),
                Some(Theme::Pages) => println!("\nreplay: the same with {again} --theme pages"),
                Some(Theme::Shards) => println!("\nreplay: the same with {again} --theme shards"),
                None => println!("\nreplay: cargo xtask soak {again}"),
            }
            ExitCode::FAILURE
        }
    }
}

/// Runs seeds up to the first that fails.
fn run(arguments: &Arguments) -> (Totals, Option<u64>) {
    let mut totals = Totals::default();
    let mut shown = Instant::now();
    let mut failed = None;
    for seed in arguments.first_seed..arguments.first_seed + arguments.seeds {
        let report = match arguments.theme {
            Some(Theme::Power) => run_power_seed(seed),
            Some(Theme::Blocks) => run_blocks_seed(seed),
            Some(Theme::Array) => run_array_seed(seed),
            Some(Theme::Pages) => run_pages_seed(seed),
            Some(Theme::Shards) => run_shards_seed(seed),
            None => run_seed(seed, InjectedBug::None),
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
        // Ignore errors: this only affects the display.
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
