//! Kills `larder serve` again and again: the program behind `cargo xtask served-kills`.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, value_parser};
use larder_sim::kills::{ServedOptions, ServedReport, ServedRound, run_served};

const LONG: &str = "\
What is judged. Clients own their keys, and remember what they began and what they were answered. A
get, under load or after the next start, must find nothing, or the newest acknowledged value, or one
whose request was under way at the kill; and after a flush_all nothing of before. Anything else is a
wrong answer. A server that answers later than --start-ms after its start is one too, and so is one
that finds nothing of what was acknowledged.

A seed repeats the requests and the planned moments. What threads and drive make of a millisecond
differs from run to run: repeat a failure more than once.";

/// Kills a server with SIGKILL under load, again and again on the same data; its clients judge every answer.
#[derive(Debug, Parser)]
#[command(name = "served_kills", bin_name = "cargo xtask served-kills", max_term_width = 100, after_help = LONG)]
struct Arguments {
    /// The program `larder`; `cargo xtask served-kills` builds it
    #[arg(long, value_name = "FILE")]
    larder: PathBuf,
    /// Number of kills, about 3 seconds each
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    times: u32,
    /// Seed of the requests and the planned times
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Clients
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(1..=255))]
    clients: u32,
    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(256..))]
    keys: u32,
    /// Maximum time under load; the kill comes at any time in it
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = value_parser!(u64).range(1..=10_000))]
    load_ms: u64,
    /// A server that answers later than this is an error
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    start_ms: u64,
    /// Directory of the server's data, on a disk: removed at the end, and kept if something was wrong
    #[arg(long, default_value = "served-kills")]
    dir: PathBuf,
    /// Another option of `larder serve`; may be repeated
    #[arg(long = "with", value_name = "OPTION", allow_hyphen_values = true)]
    with: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = arguments.options();
    if options.dir.exists()
        && let Err(cause) = std::fs::remove_dir_all(&options.dir)
    {
        eprintln!("served_kills: cannot empty {}: {cause}", options.dir.display());
        return ExitCode::FAILURE;
    }
    let report = run_served(&options, &|| arguments.server(), &mut show);
    tell(&report, &options)
}

impl Arguments {
    fn options(&self) -> ServedOptions {
        ServedOptions {
            times: self.times,
            seed: self.seed,
            dir: self.dir.clone(),
            clients: self.clients,
            keys: self.keys,
            load_ms: self.load_ms,
            start_ms: self.start_ms,
        }
    }

    fn server(&self) -> Command {
        let mut command = Command::new(&self.larder);
        command.args(["serve", "--memcached", "127.0.0.1:0", "--resp", "none", "--admin", "none"]);
        // Little DRAM, so that much acknowledged data is on flash.
        command.args(["--memory", "24M", "--flash", "256M", "--workers", "2", "--data-dir"]);
        command.arg(&self.dir).args(&self.with);
        command
    }
}

fn show(number: u32, round: &ServedRound) {
    let ServedRound { start, known, found, requests, flushes, cut_off } = round;
    match start {
        None => println!("{number:4}  killed before it answered"),
        Some(start) => println!(
            "{number:4}  answered after {:4} ms, found {found} of {known}; then {requests} requests, {flushes} \
             flushes, {cut_off} cut off",
            start.as_millis()
        ),
    }
}

fn tell(report: &ServedReport, options: &ServedOptions) -> ExitCode {
    let starts: Vec<Duration> = report.rounds.iter().filter_map(|round| round.start).collect();
    let slowest = starts.iter().max().copied().unwrap_or_default();
    let sum = |of: fn(&ServedRound) -> u64| report.rounds.iter().map(of).sum::<u64>();
    println!(
        "{} kills, {} starts (the slowest took {} ms), {} requests, {} flushes; found {} of {}; {} wrong answers",
        report.rounds.len().saturating_sub(1),
        starts.len(),
        slowest.as_millis(),
        sum(|round| round.requests),
        sum(|round| round.flushes),
        sum(|round| round.found),
        sum(|round| round.known),
        report.wrong.len()
    );
    if report.is_good() {
        // Ignore errors of the removal.
        let _ = std::fs::remove_dir_all(&options.dir);
        return ExitCode::SUCCESS;
    }
    for (key, kind, text) in report.wrong.iter().take(20) {
        println!("key {key}: {kind:?}; {text}");
    }
    if let Some(why) = &report.failed {
        println!("{why}");
    }
    println!("data: {}; seed {}", options.dir.display(), options.seed);
    ExitCode::FAILURE
}
