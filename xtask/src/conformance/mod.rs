//! `cargo xtask conformance`: the suites of those whose protocols are served, against `larder serve`.
//!
//! Nothing of theirs is kept in this repository: sources and clients are fetched into the build directory.

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
use outcome::Outcome;

use crate::served::{self, Subject};
use crate::step::Verdict;
use crate::workspace;

/// What `conformance` may be told.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// How the server waits for sockets
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Sockets::Both)]
    sockets: Sockets,
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

/// Runs all suites that can be had here, and prints a table.
pub(crate) fn run(options: &Options) -> Verdict {
    let larder = match served::program(None) {
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
        let of_these = suites(&subject, &dir);
        print(sockets, &of_these);
        outcomes.extend(of_these);
    }
    verdict(&outcomes)
}

/// Where everything is that was fetched.
fn directory() -> PathBuf {
    workspace::target().join("xtask/conformance")
}

fn suites(subject: &Subject, dir: &Path) -> Vec<Outcome> {
    let mut outcomes = memcached::run(subject, dir);
    outcomes.push(lifetimes::run(subject));
    outcomes.extend(clients::run(subject, dir));
    outcomes.extend(resp::run(subject, dir));
    outcomes.extend(smoke::run(subject, dir));
    outcomes.extend(nodes::run(subject, dir));
    outcomes
}

fn print(sockets: &str, outcomes: &[Outcome]) {
    println!(
        "\nsockets by {sockets}\n{:<36} {:>7} {:>7} {:>7}",
        "suite", "passed", "failed", "skipped"
    );
    for outcome in outcomes {
        let Outcome { name, passed, failed, skipped, known, note } = outcome;
        let why = known.filter(|_| *failed > 0).map_or("", |(_, why)| why);
        println!("{name:<36} {passed:>7} {failed:>7} {skipped:>7}  {why}{note}");
    }
}

fn verdict(outcomes: &[Outcome]) -> Verdict {
    let sum = |of: fn(&Outcome) -> usize| outcomes.iter().map(of).sum::<usize>();
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

    fn outcome(failed: usize, known: Option<(usize, &'static str)>) -> Outcome {
        Outcome { failed, known, passed: 3, skipped: 0, ..Outcome::skipped("a", "") }
    }

    #[test]
    fn failures_that_are_known_are_no_failure() {
        assert!(matches!(verdict(&[outcome(2, Some((2, "so it is")))]), Verdict::Passed(_)));
        assert!(matches!(verdict(&[outcome(3, Some((2, "so it is")))]), Verdict::Failed(_)));
        assert!(matches!(verdict(&[outcome(1, None)]), Verdict::Failed(_)));
        let nothing = [Outcome::skipped("a", "no network")];
        assert!(matches!(verdict(&nothing), Verdict::Skipped(_)));
    }
}
