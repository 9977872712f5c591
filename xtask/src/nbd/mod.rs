//! `cargo xtask nbd`: `larder block export` under the tools that others wrote for NBD, with sockets by io_uring and by
//! `epoll`. Each suite has a file and a server of its own.

mod fio;
mod libnbd;
mod qemu;
mod rig;
mod tester;

use std::path::{Path, PathBuf};

use clap::Args;

use self::rig::Rig;
use crate::problem::Problem;
use crate::step::Verdict;
use crate::{served, workspace};

/// What `nbd` may be told.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub(crate) struct Options {
    /// Only the suite of this name, or these
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The command to test [default: built by cargo]
    #[arg(long, value_name = "FILE")]
    larder: Option<PathBuf>,
}

/// Name of a suite, and how it is run.
type Suite = (&'static str, fn(&mut Rig) -> Result<String, Problem>);

const SUITES: [Suite; 7] = [
    ("nbdinfo", libnbd::info),
    ("nbdcopy", libnbd::copy),
    ("nbdsh", libnbd::script),
    ("qemu-io", qemu::io),
    ("qemu-img", qemu::img),
    ("fio", fio::run),
    ("nbd-tester", tester::run),
];

/// Every suite.
pub(crate) fn usual() -> Verdict {
    run(&Options::default())
}

/// Runs the suites that are asked for.
pub(crate) fn run(options: &Options) -> Verdict {
    let unknown = |name: &&String| SUITES.iter().all(|suite| suite.0 != **name);
    if let Some(name) = options.only.iter().find(unknown) {
        let names = SUITES.map(|suite| suite.0).join(", ");
        return Verdict::Failed(format!("there is no suite {name}; there are {names}"));
    }
    if !cfg!(target_os = "linux") {
        return Verdict::Skipped("block devices are exported on Linux alone".to_owned());
    }
    let larder = match served::program(options.larder.as_deref()) {
        Ok(larder) => larder,
        Err(verdict) => return verdict,
    };
    let mut outcomes = Vec::new();
    for sockets in ["io_uring", "epoll"] {
        for suite in SUITES {
            if options.only.is_empty() || options.only.iter().any(|name| name == suite.0) {
                let outcome = outcome(suite, sockets, &larder);
                let said = match &outcome {
                    Ok(said) => format!("passed: {said}"),
                    Err(Problem::Missing(why)) => format!("skipped: {why}"),
                    Err(Problem::Failed(why)) => format!("FAILED: {why}"),
                };
                println!("{:10} sockets by {sockets:9} {said}", suite.0);
                outcomes.push((suite.0, outcome));
            }
        }
    }
    verdict(&outcomes)
}

fn outcome(suite: Suite, sockets: &'static str, larder: &Path) -> Result<String, Problem> {
    let (name, run) = suite;
    eprintln!("\n{name}, sockets by {sockets}");
    let dir = workspace::target().join("xtask/nbd").join(name).join(sockets);
    let mut rig = Rig::new(larder, sockets, dir)?;
    let said = run(&mut rig)?;
    rig.end(false)?;
    Ok(said)
}

fn verdict(outcomes: &[(&str, Result<String, Problem>)]) -> Verdict {
    let named = |is_wanted: fn(&Problem) -> bool| {
        let wanted = outcomes.iter().filter(|it| it.1.as_ref().is_err_and(is_wanted));
        wanted.map(|it| it.0).collect::<Vec<_>>().join(", ")
    };
    let failed = named(|problem| matches!(problem, Problem::Failed(_)));
    if !failed.is_empty() {
        return Verdict::Failed(failed);
    }
    let missing = named(|problem| matches!(problem, Problem::Missing(_)));
    let passed = outcomes.iter().filter(|it| it.1.is_ok()).count();
    match (passed, missing.is_empty()) {
        (0, _) => Verdict::Skipped(format!("their tools are not installed: {missing}")),
        (_, true) => Verdict::Passed(format!("{passed} suites")),
        (_, false) => Verdict::Passed(format!("{passed} suites; not installed: {missing}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_no_failure_and_no_success() {
        let missing = || Err(Problem::Missing("no fio".to_owned()));
        let failed = || Err(Problem::Failed("bytes differ".to_owned()));
        assert!(matches!(verdict(&[("fio", missing())]), Verdict::Skipped(_)));
        let both = [("fio", missing()), ("nbdsh", Ok(String::new()))];
        assert!(matches!(verdict(&both), Verdict::Passed(said) if said.contains("fio")));
        let one = [("fio", failed()), ("nbdsh", Ok(String::new()))];
        assert!(matches!(verdict(&one), Verdict::Failed(said) if said == "fio"));
    }
}
