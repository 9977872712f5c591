//! `cargo xtask peers`: compares Larder and its peers on the same work. The crate `peers/` does the work; this module
//! builds and starts it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

/// Runs the benchmark with these options, which may include `--help`.
pub(crate) fn run(arguments: &[OsString]) -> Verdict {
    let dir = flash_dir();
    let needs_dir = !step::names_dir(arguments);
    if needs_dir && let Err(cause) = fs::create_dir_all(&dir) {
        return Verdict::Failed(format!("cannot make {}: {cause}", dir.display()));
    }
    let mut command = cargo(&["run", "--release", "--quiet", "--locked"]);
    command.arg("--").args(passed_on(arguments, &dir));
    step::run(&mut command)
}

/// Runs its lints and tests, including all systems at a tiny size.
pub(crate) fn check() -> Verdict {
    if !step::succeeds(&mut cargo(&["fetch", "--locked"])) {
        return Verdict::Skipped("the peers cannot be fetched".to_owned());
    }
    let steps: [&[&str]; 3] = [
        &["fmt", "--check"],
        &["clippy", "--release", "--all-targets", "--locked", "--", "-D", "warnings"],
        &["test", "--release", "--locked"],
    ];
    for arguments in steps {
        let verdict = step::run(&mut cargo(arguments));
        if !matches!(verdict, Verdict::Passed(_)) {
            return verdict;
        }
    }
    Verdict::passed()
}

/// A cargo command on the crate, in the caller's directory, so that relative file names are relative to it.
fn cargo(arguments: &[&str]) -> Command {
    let (first, rest) = arguments.split_first().unwrap_or((&"", &[]));
    let mut command = step::cargo(&[*first]);
    command.arg("--manifest-path").arg(workspace::root().join("peers").join("Cargo.toml"));
    command.args(rest);
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    command
}

/// The caller's options, and a directory for flash files if they name none.
fn passed_on(arguments: &[OsString], dir: &Path) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.to_vec();
    if !step::names_dir(arguments) {
        all.extend(["--dir".into(), dir.as_os_str().to_owned()]);
    }
    all
}

fn flash_dir() -> PathBuf {
    workspace::target().join("xtask").join("peers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_files_go_to_the_build_directory_unless_told_otherwise() {
        let dir = Path::new("target");
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(passed_on(&words("--quick"), dir), words("--quick --dir target"));
        for named in [words("--dir x"), words("--dir=x")] {
            assert_eq!(passed_on(&named, dir), named);
        }
    }
}
