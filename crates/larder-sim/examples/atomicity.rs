//! Scripts and transactions on a `larder serve` that is killed: the program behind `cargo xtask atomicity`.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, value_parser};
use larder_sim::kills::{AtomicOptions, AtomicRound, run_atomic};

const LONG: &str = "\
What is judged. Clients write pairs of keys by scripts and in transactions, and read them so: both
values must be of one write, or be gone. A script that the server stops leaves nothing. No number of
a counter is told twice. Other sets push all of this to flash. After a kill, a pair has no value of
one write beside one of another.

A seed repeats the requests and the planned moments. What threads and drive make of a millisecond
differs from run to run: repeat a failure more than once.";

/// Kills a server with SIGKILL while clients run scripts and transactions on the same keys, and judges what they read.
#[derive(Debug, Parser)]
#[command(name = "atomicity", bin_name = "cargo xtask atomicity", max_term_width = 100, after_help = LONG)]
struct Arguments {
    /// The program `larder`; `cargo xtask atomicity` builds it
    #[arg(long, value_name = "FILE")]
    larder: PathBuf,
    /// Number of kills, about 3 seconds each
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    times: u32,
    /// Seed of the requests and the planned times
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Clients
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Pairs of keys
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..))]
    pairs: u32,
    /// Maximum time under load; the kill comes at any time in it
    #[arg(long, value_name = "MS", default_value_t = 3000, value_parser = value_parser!(u64).range(1..=60_000))]
    load_ms: u64,
    /// Directory of the server's data, on a disk: removed at the end, and kept if something was wrong
    #[arg(long, default_value = "atomicity")]
    dir: PathBuf,
    /// Another option of `larder serve`; may be repeated
    #[arg(long = "with", value_name = "OPTION", allow_hyphen_values = true)]
    with: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let dir = &arguments.dir;
    if dir.exists()
        && let Err(cause) = std::fs::remove_dir_all(dir)
    {
        eprintln!("atomicity: cannot empty {}: {cause}", dir.display());
        return ExitCode::FAILURE;
    }
    let Arguments { times, seed, clients, pairs: groups, load_ms, .. } = arguments;
    let options = AtomicOptions { times, seed, clients, groups, load_ms };
    let report = run_atomic(&options, &|| arguments.server(), &mut show);
    let sum = |of: fn(&AtomicRound) -> u64| report.rounds.iter().map(of).sum::<u64>();
    println!(
        "{} kills, {} requests, {} pairs judged, {} scripts stopped, {} values found after kills; {} wrong",
        report.rounds.len().saturating_sub(1),
        sum(|round| round.requests),
        sum(|round| round.judged),
        sum(|round| round.stopped),
        sum(|round| round.found),
        report.wrong.len()
    );
    if report.wrong.is_empty() {
        // Ignore errors of the removal.
        let _ = std::fs::remove_dir_all(dir);
        return ExitCode::SUCCESS;
    }
    report.wrong.iter().take(20).for_each(|wrong| println!("{wrong}"));
    println!("data: {}; seed {seed}", dir.display());
    ExitCode::FAILURE
}

impl Arguments {
    fn server(&self) -> Command {
        let mut command = Command::new(&self.larder);
        command.args(["serve", "--memcached", "none", "--resp", "127.0.0.1:0", "--admin", "none"]);
        // Little DRAM, so that much is on flash. Scripts that never end are stopped soon.
        command.args(["--memory", "24M", "--flash", "512M", "--workers", "2"]);
        command.args(["--script-time-limit", "50", "--data-dir"]);
        command.arg(&self.dir).args(&self.with);
        command
    }
}

fn show(number: u32, round: &AtomicRound) {
    let AtomicRound { found, requests, judged, stopped } = round;
    println!(
        "{number:4}  found {found}; then {requests} requests, {judged} pairs judged, {stopped} scripts stopped"
    );
}
