//! `cargo xtask kills`: the cache under `kill -9`. An example of `larder-sim` does the work; this module builds and
//! starts it.

use std::ffi::OsString;
use std::path::Path;

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

/// Number of killed processes when this is part of `all`.
const USUAL: [&str; 2] = ["--times", "30"];

/// Runs the example with these options, which may include `--help`.
pub(crate) fn run(arguments: &[OsString]) -> Verdict {
    let words =
        "run --release --quiet --locked --package larder-sim --example kills --manifest-path";
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = step::cargo(&words);
    command.arg(workspace::root().join("Cargo.toml")).arg("--");
    command.args(passed_on(arguments, &workspace::target().join("xtask").join("kills")));
    // Relative file names are relative to the caller's directory.
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    step::run(&mut command)
}

/// A run of about a minute.
pub(crate) fn usual() -> Verdict {
    match run(&USUAL.map(OsString::from)) {
        Verdict::Passed(_) => Verdict::Passed(format!("{} kills", USUAL[1])),
        other => other,
    }
}

/// The caller's options, and a directory for files if they name none.
fn passed_on(arguments: &[OsString], dir: &Path) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.to_vec();
    if !step::names_dir(arguments) {
        all.extend(["--dir".into(), dir.as_os_str().to_owned()]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_to_the_build_directory_unless_told_otherwise() {
        let dir = Path::new("target");
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(passed_on(&words("--times 3"), dir), words("--times 3 --dir target"));
        for named in [words("--dir x"), words("--dir=x")] {
            assert_eq!(passed_on(&named, dir), named);
        }
    }
}
