//! `cargo xtask fs`: a mounted file system on a virtual SSD, under tests and programs of other projects.
//!
//! Each suite has its own image, so it does not see another's files. Its files are checked again after an unmount and a
//! new mount, and finally by `larder vssd fsck`.

mod copies;
mod fio;
mod fsx;
mod git;
mod posix;
mod rig;
mod rocksdb;
mod sqlite;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use self::rig::Rig;
use crate::problem::Problem;
use crate::served;
use crate::step::Verdict;
use crate::workspace;

/// Options of `fs`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub struct FsOptions {
    /// Only the suite of this name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the suites and run none
    #[arg(long)]
    list: bool,
    /// Keep images in target/xtask/fs, as after a failure; logs stay there in any case
    #[arg(long)]
    keep: bool,
    /// The command to test [default: built by cargo]
    #[arg(long, value_name = "FILE")]
    larder: Option<PathBuf>,
}

/// A test suite of another project. Returns a summary.
struct Suite {
    name: &'static str,
    about: &'static str,
    run: fn(&mut Rig) -> Result<String, Problem>,
}

const SUITES: [Suite; 7] = [
    Suite { name: "fsx", about: "random operations on a file, mapped ones too", run: fsx::run },
    Suite { name: "pjdfstest", about: "what POSIX says of each call", run: posix::run },
    Suite { name: "rocksdb", about: "db_bench and ldb: a log-structured store", run: rocksdb::run },
    Suite { name: "fio", about: "writes that are verified", run: fio::run },
    Suite {
        name: "copies",
        about: "cp -a and tar of a tree with all kinds of files",
        run: copies::run,
    },
    Suite { name: "git", about: "clone, repack and fsck of this repository", run: git::run },
    Suite { name: "sqlite", about: "a database in both kinds of journal", run: sqlite::run },
];

/// Runs every suite.
pub fn usual() -> Verdict {
    run(&FsOptions::default())
}

/// Runs the selected suites.
pub fn run(options: &FsOptions) -> Verdict {
    let unknown = |name: &&String| SUITES.iter().all(|suite| suite.name != **name);
    if let Some(name) = options.only.iter().find(unknown) {
        return Verdict::Failed(format!("there is no suite {name}; --list shows those that are"));
    }
    if options.list {
        SUITES.iter().for_each(|suite| println!("{:10} {}", suite.name, suite.about));
        return Verdict::Passed(format!("{} suites", SUITES.len()));
    }
    if let Some(why) = not_here() {
        return Verdict::Skipped(why);
    }
    let larder = match served::program(options.larder.as_deref()) {
        Ok(larder) => larder,
        Err(verdict) => return verdict,
    };
    let wanted = |suite: &&Suite| {
        options.only.is_empty() || options.only.iter().any(|name| name == suite.name)
    };
    let outcomes: Vec<_> = SUITES
        .iter()
        .filter(wanted)
        .map(|suite| (suite.name, outcome(suite, larder.clone(), options.keep)))
        .collect();
    verdict(&outcomes)
}

/// Why file systems cannot be mounted here; `None` if they can.
fn not_here() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return Some("file systems are mounted on Linux alone".to_owned());
    }
    if let Err(cause) = fs::File::options().read(true).write(true).open("/dev/fuse") {
        return Some(format!("/dev/fuse is not to be had: {cause}"));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let is_root = uid.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0");
    (!is_root).then(|| "mounts for all users need root".to_owned())
}

fn outcome(suite: &Suite, larder: PathBuf, keep: bool) -> Result<String, Problem> {
    eprintln!("\n{}: {}", suite.name, suite.about);
    let begin = Instant::now();
    let dir = workspace::target().join("xtask/fs").join(suite.name);
    let ran = Rig::new(larder, dir, keep).map_err(Problem::Failed).and_then(|mut rig| {
        let said = (suite.run)(&mut rig)?;
        rig.finish()?;
        Ok(said)
    });
    let seconds = begin.elapsed().as_secs_f64();
    match &ran {
        Ok(said) => eprintln!("  passed in {seconds:.0} s: {said}"),
        Err(Problem::Missing(why)) => eprintln!("  skipped, because {why}"),
        Err(Problem::Failed(why)) => eprintln!("  FAILED after {seconds:.0} s: {why}"),
    }
    ran
}

fn verdict(outcomes: &[(&str, Result<String, Problem>)]) -> Verdict {
    let failed: Vec<String> = outcomes
        .iter()
        .filter_map(|(name, outcome)| match outcome {
            Err(Problem::Failed(why)) => Some(format!("{name}: {why}")),
            _ => None,
        })
        .collect();
    if !failed.is_empty() {
        return Verdict::Failed(failed.join("; "));
    }
    let passed = outcomes.iter().filter_map(|(name, outcome)| outcome.is_ok().then_some(*name));
    let passed: Vec<&str> = passed.collect();
    let skipped: Vec<String> = outcomes
        .iter()
        .filter_map(|(name, outcome)| match outcome {
            Err(Problem::Missing(why)) => Some(format!("{name}, because {why}")),
            _ => None,
        })
        .collect();
    match (passed.is_empty(), skipped.is_empty()) {
        (true, _) => Verdict::Skipped(skipped.join("; ")),
        (false, true) => Verdict::Passed(passed.join(", ")),
        (false, false) => {
            Verdict::Passed(format!("{}; without {}", passed.join(", "), skipped.join("; ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: FsOptions,
    }

    #[test]
    fn arguments_are_read() {
        let words = "fs --only a --only b --keep".split(' ');
        let Line { options } = Line::try_parse_from(words).unwrap();
        assert!(options.only == ["a", "b"] && options.keep && !options.list);
        let missing = FsOptions { only: vec!["no-such".to_owned()], ..FsOptions::default() };
        assert!(matches!(run(&missing), Verdict::Failed(why) if why.contains("no suite no-such")));
    }

    #[test]
    fn a_verdict_names_what_failed_and_what_was_skipped() {
        let passed = || ("a", Ok(String::new()));
        let skipped = || ("b", Err(Problem::Missing("it is not there".to_owned())));
        let failed = || ("c", Err(Problem::Failed("it is wrong".to_owned())));
        assert_eq!(verdict(&[passed()]), Verdict::Passed("a".to_owned()));
        let with_reason = "a; without b, because it is not there".to_owned();
        assert_eq!(verdict(&[passed(), skipped()]), Verdict::Passed(with_reason));
        assert_eq!(
            verdict(&[skipped()]),
            Verdict::Skipped("b, because it is not there".to_owned())
        );
        let all = [passed(), skipped(), failed()];
        assert_eq!(verdict(&all), Verdict::Failed("c: it is wrong".to_owned()));
    }
}
