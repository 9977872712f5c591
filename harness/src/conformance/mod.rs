//! `cargo xtask conformance`: runs the test suites of other projects, whose protocols we serve, against `larder serve`.
//!
//! This repository contains none of their code: sources and clients are fetched into the build directory.

mod clients;
mod lifetimes;
mod memcached;
mod nodes;
mod outcome;
mod resp;
mod smoke;
mod source;
mod tap;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use outcome::SuiteOutcome;

use crate::served::{self, Subject};
use crate::step::Verdict;
use crate::workspace;

/// Options of `conformance`.
#[derive(Debug, Clone, Args)]
pub struct ConformanceOptions {
    /// How the server waits for sockets
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Sockets::Both)]
    sockets: Sockets,
    /// The command to test [default: built by cargo]
    #[arg(long, value_name = "FILE")]
    larder: Option<PathBuf>,
    /// Run only this part; may be given several times
    #[arg(long, value_name = "PART", value_enum)]
    only: Vec<Part>,
}

/// Suites that can be selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// memcached's own tests
    Memcached,
    /// Commands with a TTL, compared byte by byte with memcached
    Lifetimes,
    /// Suites of clients
    Clients,
    /// Tests of Redis and Valkey
    Resp,
    /// The most common operations of clients
    Smoke,
    /// Several servers
    Nodes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sockets {
    Epoll,
    #[value(name = "io_uring")]
    IoUring,
    /// One after the other
    Both,
}

impl Sockets {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Epoll => &["epoll"],
            Self::IoUring => &["io_uring"],
            Self::Both => &["io_uring", "epoll"],
        }
    }
}

/// Runs all suites that are available here, and prints a table.
pub fn run(options: &ConformanceOptions) -> Verdict {
    let larder = match served::program(options.larder.as_deref()) {
        Ok(larder) => larder,
        Err(verdict) => return verdict,
    };
    let dir = directory();
    if let Err(cause) = std::fs::create_dir_all(&dir) {
        return Verdict::Failed(format!("cannot make {}: {cause}", dir.display()));
    }
    let mut outcomes = Vec::new();
    for sockets in options.sockets.names() {
        let subject = Subject { larder: larder.clone(), sockets };
        let of_these = suites(&subject, &dir, &options.only);
        print(sockets, &of_these);
        outcomes.extend(of_these);
    }
    verdict(&outcomes)
}

/// The directory of everything that is fetched.
fn directory() -> PathBuf {
    workspace::target().join("xtask/conformance")
}

fn suites(subject: &Subject, dir: &Path, only: &[Part]) -> Vec<SuiteOutcome> {
    let parts = Part::value_variants().iter().filter(|part| only.is_empty() || only.contains(part));
    let run = |part: &Part| match part {
        Part::Memcached => memcached::run(subject, dir),
        Part::Lifetimes => vec![lifetimes::run(subject)],
        Part::Clients => clients::run(subject, dir),
        Part::Resp => resp::run(subject, dir),
        Part::Smoke => smoke::run(subject, dir),
        Part::Nodes => nodes::run(subject, dir),
    };
    parts.flat_map(run).collect()
}

fn print(sockets: &str, outcomes: &[SuiteOutcome]) {
    println!(
        "\nsockets by {sockets}\n{:<36} {:>7} {:>7} {:>7}",
        "suite", "passed", "failed", "skipped"
    );
    for outcome in outcomes {
        let SuiteOutcome { name, passed, failed, skipped, known, note } = outcome;
        let why = known.filter(|_| *failed > 0).map_or("", |(_, why)| why);
        println!("{name:<36} {passed:>7} {failed:>7} {skipped:>7}  {why}{note}");
    }
}

fn verdict(outcomes: &[SuiteOutcome]) -> Verdict {
    let sum = |of: fn(&SuiteOutcome) -> usize| outcomes.iter().map(of).sum::<usize>();
    let (passed, failed) = (sum(|it| it.passed), sum(|it| it.failed));
    let worse: Vec<&str> =
        outcomes.iter().filter(|it| it.is_worse()).map(|it| it.name.as_str()).collect();
    if !worse.is_empty() {
        return Verdict::Failed(format!("more fails than is known: {}", worse.join(", ")));
    }
    if passed == 0 {
        return Verdict::Skipped("no suite can be had here".to_owned());
    }
    Verdict::Passed(format!("{passed} passed, {failed} fail for reasons that are known"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(failed: usize, known: Option<(usize, &'static str)>) -> SuiteOutcome {
        SuiteOutcome { failed, known, passed: 3, skipped: 0, ..SuiteOutcome::skipped("a", "") }
    }

    #[test]
    fn failures_that_are_known_are_no_failure() {
        assert!(matches!(verdict(&[outcome(2, Some((2, "so it is")))]), Verdict::Passed(_)));
        assert!(matches!(verdict(&[outcome(3, Some((2, "so it is")))]), Verdict::Failed(_)));
        assert!(matches!(verdict(&[outcome(1, None)]), Verdict::Failed(_)));
        let nothing = [SuiteOutcome::skipped("a", "no network")];
        assert!(matches!(verdict(&nothing), Verdict::Skipped(_)));
    }
}
