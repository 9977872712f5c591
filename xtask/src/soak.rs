//! `cargo xtask soak`: the simulation of the cache for many seeds, and its history check on threads.

use std::path::{Path, PathBuf};

use clap::Args;
use larder_harness::step::{self, Verdict};

/// Environment variable that tells the test on threads its number of operations.
const THREADS_VARIABLE: &str = "LARDER_HISTORY_OPS";

/// Options of `soak`: seeds of the simulation, or operations on real threads.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct SoakOptions {
    /// Number of seeds of the simulation; a failure says how to replay it
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "threads_ops",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0, requires = "seeds")]
    first_seed: u64,
    /// File for the numbers
    #[arg(long, value_name = "FILE", requires = "seeds")]
    json: Option<PathBuf>,
    /// Make this number of operations on real threads instead, checked by the history of each key
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["seeds", "first_seed", "json"],
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    threads_ops: Option<u64>,
}

impl SoakOptions {
    /// A run of a few minutes, as part of `all`.
    pub(crate) const USUAL: Self =
        Self { seeds: Some(2000), first_seed: 0, json: None, threads_ops: None };
}

/// Runs the simulation or the check on threads.
pub(crate) fn run(options: &SoakOptions) -> Verdict {
    match *options {
        SoakOptions { threads_ops: Some(operations), .. } => on_threads(operations),
        SoakOptions { seeds, first_seed, ref json, .. } => {
            simulation(seeds.unwrap_or(1), first_seed, json.as_deref())
        }
    }
}

fn simulation(seeds: u64, first_seed: u64, json: Option<&Path>) -> Verdict {
    let words = "run --release --quiet --locked --package larder-sim --example soak --";
    let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    words.extend(["--seeds".to_owned(), seeds.to_string()]);
    words.extend(["--first-seed".to_owned(), first_seed.to_string()]);
    if let Some(json) = json {
        words.extend(["--json".to_owned(), from_here(json)]);
    }
    named(step::run(&mut step::cargo(&words)), || format!("{seeds} seeds"))
}

fn on_threads(operations: u64) -> Verdict {
    let words = "test --release --quiet --locked --package larder --test it -- \
                 history_threads::as_long_as_one_likes --exact --ignored --nocapture";
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut command = step::cargo(&words);
    command.env(THREADS_VARIABLE, operations.to_string());
    named(step::run(&mut command), || format!("{operations} operations on threads"))
}

/// Makes a path absolute: it is relative to the user's directory, but cargo runs at the root of the workspace.
fn from_here(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn named(verdict: Verdict, what: impl Fn() -> String) -> Verdict {
    match verdict {
        Verdict::Passed(_) => Verdict::Passed(what()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};

    #[test]
    fn arguments_are_read() {
        let read = |line| match args::read(line) {
            Ok(Command::Soak(options)) => options,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(
            read("soak --seeds 5 --first-seed 7 --json x"),
            SoakOptions {
                seeds: Some(5),
                first_seed: 7,
                json: Some("x".into()),
                threads_ops: None
            }
        );
        let on_threads =
            SoakOptions { seeds: None, first_seed: 0, json: None, threads_ops: Some(9) };
        assert_eq!(read("soak --threads-ops 9"), on_threads);
        for wrong in [
            "soak",
            "soak --seeds",
            "soak --seeds 0",
            "soak --seeds x",
            "soak --what 1",
            "soak --first-seed 1",
            "soak --seeds 1 --threads-ops 1",
            "soak --threads-ops 1 --first-seed 1",
            "soak --threads-ops 1 --json x",
        ] {
            assert!(args::read(wrong).is_err(), "{wrong}");
        }
    }
}
