//! `cargo xtask fuzz`: runs every fuzz target for a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use clap::Args;
use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

use crate::toolchain;

/// Options of `fuzz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
pub(crate) struct FuzzOptions {
    /// How long each target runs, in seconds
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
}

/// Runs each target for `seconds` seconds.
pub(crate) fn run(&FuzzOptions { seconds }: &FuzzOptions) -> Verdict {
    let dir = workspace::root().join("fuzz");
    let targets = targets(&dir.join("fuzz_targets"));
    if targets.is_empty() {
        return Verdict::Skipped("there are no targets in fuzz/fuzz_targets".to_owned());
    }
    if !step::succeeds(nightly(&dir).arg("--version")) {
        return Verdict::Skipped("nightly Rust is not installed".to_owned());
    }
    if !step::succeeds(nightly(&dir).args(["fuzz", "--version"])) {
        return Verdict::Skipped("cargo-fuzz is not installed".to_owned());
    }
    let failed: Vec<&str> = targets
        .iter()
        .filter(|target| !matches!(run_target(&dir, target, seconds), Verdict::Passed(_)))
        .map(String::as_str)
        .collect();
    if failed.is_empty() {
        Verdict::Passed(format!("{seconds} s each of {}", targets.join(", ")))
    } else {
        Verdict::Failed(format!("{}; inputs are in fuzz/artifacts", failed.join(", ")))
    }
}

fn run_target(dir: &Path, target: &str, seconds: u32) -> Verdict {
    let limit = format!("-max_total_time={seconds}");
    let corpora = match corpora(dir, target) {
        Ok(corpora) => corpora,
        Err(message) => return Verdict::Failed(message),
    };
    let mut command = nightly(dir);
    command.args(["fuzz", "run", "--fuzz-dir"]).arg(dir).arg(target);
    command.args(corpora).args(["--", &limit]);
    step::run(&mut command)
}

/// The input directories of a target: its corpus, which grows, and its seeds, if it has any.
fn corpora(dir: &Path, target: &str) -> Result<Vec<PathBuf>, String> {
    let corpus = dir.join("corpus").join(target);
    fs::create_dir_all(&corpus)
        .map_err(|cause| format!("cannot make {}: {cause}", corpus.display()))?;
    let seeds = dir.join("seeds").join(target);
    Ok([corpus, seeds].into_iter().filter(|dir| dir.is_dir()).collect())
}

/// The nightly toolchain's cargo.
fn nightly(dir: &Path) -> process::Command {
    let mut command = toolchain::rustup(&["run", "nightly", "cargo"]);
    command.current_dir(dir);
    command
}

/// Names of the targets in a directory, sorted; empty if the directory does not exist.
fn targets(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};

    #[test]
    fn seconds_are_read() {
        for (line, seconds) in [("fuzz", 30), ("fuzz --seconds 5", 5), ("fuzz --seconds=7", 7)] {
            let Ok(Command::Fuzz(options)) = args::read(line) else { panic!("{line}") };
            assert_eq!(options, FuzzOptions { seconds });
        }
        for wrong in ["fuzz --seconds", "fuzz --seconds 0", "fuzz --seconds x", "fuzz --what"] {
            assert!(args::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn targets_are_rust_files_in_order() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let names = targets(&here);
        assert!(names.is_sorted());
        assert!(names.contains(&"fuzz".to_owned()));
        assert!(targets(Path::new("no/such/dir")).is_empty());
    }
}
