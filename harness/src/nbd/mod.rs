//! `cargo xtask nbd`: tests `larder block export`, and `larder block start` with each layout, with independent NBD
//! tools, and with sockets by io_uring and by `epoll`. Each suite has its own file and server.

mod fio;
mod libnbd;
mod qemu;
mod rig;
mod tester;
mod tls;

use std::path::{Path, PathBuf};

use clap::Args;

use self::rig::{Front, Rig};
use crate::problem::Problem;
use crate::step::Verdict;
use crate::{served, workspace};

/// Options of `nbd`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub struct NbdOptions {
    /// Only the suite of this name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only this kind of server: file, log, ocf22, ocf26, wal; may be given several times
    #[arg(long, value_name = "FRONT")]
    front: Vec<String>,
    /// The command to test [default: built by cargo]
    #[arg(long, value_name = "FILE")]
    larder: Option<PathBuf>,
}

/// Name of a suite, and its function.
type Suite = (&'static str, fn(&mut Rig) -> Result<String, Problem>);

const SOCKETS: [&str; 2] = ["io_uring", "epoll"];

const SUITES: [Suite; 8] = [
    ("nbdinfo", libnbd::info),
    ("nbdcopy", libnbd::copy),
    ("nbdsh", libnbd::script),
    ("qemu-io", qemu::io),
    ("qemu-img", qemu::img),
    ("fio", fio::run),
    ("nbd-tester", tester::run),
    ("nbds", tls::run),
];

/// Runs every suite.
pub fn usual() -> Verdict {
    run(&NbdOptions::default())
}

/// Runs the selected suites.
pub fn run(options: &NbdOptions) -> Verdict {
    let unknown = |name: &&String| SUITES.iter().all(|suite| suite.0 != **name);
    if let Some(name) = options.only.iter().find(unknown) {
        let names = SUITES.map(|suite| suite.0).join(", ");
        return Verdict::Failed(format!("there is no suite {name}; there are {names}"));
    }
    let unknown = |name: &&String| Front::ALL.iter().all(|front| front.0 != **name);
    if let Some(name) = options.front.iter().find(unknown) {
        let names = Front::ALL.map(|front| front.0).join(", ");
        return Verdict::Failed(format!("nothing is served as {name}; there are {names}"));
    }
    if !cfg!(target_os = "linux") {
        return Verdict::Skipped("block devices are exported on Linux alone".to_owned());
    }
    let larder = match served::program(options.larder.as_deref()) {
        Ok(larder) => larder,
        Err(verdict) => return verdict,
    };
    let is_wanted =
        |wanted: &[String], name| wanted.is_empty() || wanted.iter().any(|one| one == name);
    let mut outcomes = Vec::new();
    for front in Front::ALL.into_iter().filter(|front| is_wanted(&options.front, front.0)) {
        // The code behind the sockets does not depend on them, so only one cache layout is tested with both kinds.
        let kinds = if matches!(front.0, "file" | "log") { &SOCKETS[..] } else { &SOCKETS[..1] };
        for sockets in kinds {
            for suite in SUITES.into_iter().filter(|suite| is_wanted(&options.only, suite.0)) {
                let outcome = outcome(suite, front, sockets, &larder);
                let said = match &outcome {
                    Ok(said) => format!("passed: {said}"),
                    Err(Problem::Missing(why)) => format!("skipped: {why}"),
                    Err(Problem::Failed(why)) => format!("FAILED: {why}"),
                };
                println!("{:10} {:5} sockets by {sockets:9} {said}", suite.0, front.0);
                outcomes.push((suite.0, outcome));
            }
        }
    }
    verdict(&outcomes)
}

fn outcome(
    (name, run): Suite,
    (before, front): (&str, Front),
    sockets: &'static str,
    larder: &Path,
) -> Result<String, Problem> {
    eprintln!("\n{name}, {before}, sockets by {sockets}");
    let dir = workspace::target().join("xtask/nbd").join(name).join(before).join(sockets);
    let mut rig = Rig::new(larder, front, sockets, dir)?;
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
