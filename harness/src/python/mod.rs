//! `cargo xtask python`: the Python package. Its own tests; with a wheel also types, the cache tests of Django and
//! Flask-Caching, and speed next to other caches.
//!
//! | module | content |
//! |---|---|
//! | `environment` | an interpreter, a virtual environment, packages in it |
//! | `package` | the package as a folder (`--dev`), or as a wheel that is built and installed |
//! | `suites` | the tests of others, and the types of a small program |

mod environment;
mod package;
mod suites;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use self::environment::Environment;
use crate::served;
use crate::step::{self, Verdict};
use crate::workspace;

/// What the tests need, beside the package.
const TESTS_NEED: &[&str] = &["pytest"];
/// The caches that the package is compared with.
const PEERS: &[&str] = &["cachetools", "diskcache", "lmdb", "redis"];

/// Options of `cargo xtask python`.
#[derive(Debug, Clone, Default, Args)]
pub struct PythonOptions {
    /// Run the package's own tests alone, with the library of the dev profile
    #[arg(long, conflicts_with = "bench")]
    dev: bool,
    /// Features that the tests of the dev profile were built with, in cargo's format: then nothing is built again
    #[arg(long, value_name = "LIST", requires = "dev", default_value = "")]
    features: String,
    /// Measure speed next to diskcache, cachetools, lmdb and redis-py, and nothing else
    #[arg(long)]
    bench: bool,
    /// The `larder` program to serve clients in the tests [default: built by cargo]
    #[arg(long, value_name = "FILE")]
    larder: Option<PathBuf>,
}

/// Runs everything but the measurement.
pub fn usual() -> Verdict {
    run(&PythonOptions::default())
}

/// Runs what the options say.
pub fn run(options: &PythonOptions) -> Verdict {
    if !cfg!(target_os = "linux") {
        return Verdict::Skipped("the package waits by eventfd, on Linux alone".to_owned());
    }
    let dir = workspace::target().join("xtask/python");
    let ended = match options.dev {
        true => dev(options, &dir),
        false => installed(options, &dir),
    };
    ended.unwrap_or_else(|verdict| verdict)
}

/// The package's tests with the library of the dev profile.
fn dev(options: &PythonOptions, dir: &Path) -> Result<Verdict, Verdict> {
    let environment = Environment::make(&dir.join("dev"), TESTS_NEED).map_err(Verdict::Skipped)?;
    let package = package::of_dev_profile(&options.features, &dir.join("dev-package"))?;
    let larder = match &options.larder {
        Some(larder) => larder.clone(),
        None => workspace::target().join("debug/larder"),
    };
    let mut tests = tests(&environment, dir);
    Ok(step::run(tests.env("PYTHONPATH", package).env("LARDER_PROGRAM", larder)))
}

/// The wheel in an environment of its own.
fn installed(options: &PythonOptions, dir: &Path) -> Result<Verdict, Verdict> {
    let packages = [TESTS_NEED, suites::NEED, if options.bench { PEERS } else { &[] }].concat();
    let environment =
        Environment::make(&dir.join("installed"), &packages).map_err(Verdict::Skipped)?;
    let wheel = package::wheel(&dir.join("build"), &dir.join("wheels"))?;
    environment.install_file(&wheel).map_err(Verdict::Failed)?;
    let larder = served::program(options.larder.as_deref())?;
    if options.bench {
        return Ok(bench(&environment, dir, &larder));
    }
    let mut report = Report::default();
    let mut tests = tests(&environment, dir);
    report.add("tests", step::run(tests.env("LARDER_PROGRAM", larder)));
    report.add("types", suites::types(&environment, dir));
    report.add("Django", suites::django(&environment, dir));
    report.add("Flask-Caching", suites::flask(&environment, dir));
    Ok(report.verdict())
}

/// The package's own tests.
fn tests(environment: &Environment, dir: &Path) -> Command {
    let project = workspace::root().join("python");
    let mut command = environment.run(&["-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    command.arg("-c").arg(project.join("pyproject.toml")).arg(project.join("tests"));
    command.arg("--basetemp").arg(dir.join("files"));
    command.current_dir(dir).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn bench(environment: &Environment, dir: &Path, larder: &Path) -> Verdict {
    let program = dir.join("bench.py");
    if let Err(cause) = std::fs::write(&program, include_str!("programs/bench.py")) {
        return Verdict::Failed(format!("{}: {cause}", program.display()));
    }
    let mut command = environment.run(&["-P"]);
    step::run(command.arg(program).arg(dir.join("files")).env("LARDER_PROGRAM", larder))
}

/// What passed, failed and was skipped.
#[derive(Default)]
struct Report {
    passed: Vec<&'static str>,
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Report {
    fn add(&mut self, name: &'static str, verdict: Verdict) {
        match verdict {
            Verdict::Passed(_) => self.passed.push(name),
            Verdict::Failed(why) => self.failed.push(format!("{name}: {why}")),
            Verdict::Skipped(why) => self.skipped.push(format!("{name}: {why}")),
        }
    }

    fn verdict(self) -> Verdict {
        self.skipped.iter().for_each(|skipped| println!("skipped: {skipped}"));
        if !self.failed.is_empty() {
            return Verdict::Failed(self.failed.join("; "));
        }
        if self.passed.is_empty() {
            return Verdict::Skipped(self.skipped.join("; "));
        }
        let without =
            if self.skipped.is_empty() { String::new() } else { "; see above".to_owned() };
        Verdict::Passed(self.passed.join(", ") + &without)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_named_and_nothing_at_all_is_skipped() {
        let mut report = Report::default();
        report.add("types", Verdict::Skipped("no mypy".to_owned()));
        assert_eq!(report.verdict(), Verdict::Skipped("types: no mypy".to_owned()));
        let mut report = Report::default();
        report.add("tests", Verdict::passed());
        report.add("types", Verdict::Skipped("no mypy".to_owned()));
        assert_eq!(report.verdict(), Verdict::Passed("tests; see above".to_owned()));
        let mut report = Report::default();
        report.add("tests", Verdict::passed());
        report.add("Django", Verdict::Failed("exit 1".to_owned()));
        assert_eq!(report.verdict(), Verdict::Failed("Django: exit 1".to_owned()));
    }
}
