//! `cargo xtask served-kills` and `cargo xtask atomicity`: `larder serve` under `kill -9`. Examples of `larder-sim` do
//! the work; this module builds and starts them.

use std::ffi::OsString;

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

/// Number of kills when this is part of `all`.
const USUAL: [&str; 2] = ["--times", "10"];

/// Runs `cargo xtask served-kills` with these options, which may include `--help`.
pub(crate) fn run(arguments: &[OsString]) -> Verdict {
    run_example("served_kills", "served-kills", arguments)
}

/// Runs `cargo xtask atomicity` with these options.
pub(crate) fn atomicity(arguments: &[OsString]) -> Verdict {
    run_example("atomicity", "atomicity", arguments)
}

fn run_example(example: &str, dir: &str, arguments: &[OsString]) -> Verdict {
    let words = ["build", "--release", "--quiet", "--locked", "--package", "larder-cli"];
    let built = step::run(&mut step::cargo(&words));
    let Verdict::Passed(_) = built else { return built };
    let words = "run --release --quiet --locked --package larder-sim --example";
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = step::cargo(&words);
    command.arg(example).arg("--manifest-path").arg(workspace::root().join("Cargo.toml")).arg("--");
    command.arg("--larder").arg(workspace::target().join("release").join("larder"));
    command.args(arguments);
    if !step::names_dir(arguments) {
        command.arg("--dir").arg(workspace::target().join("xtask").join(dir));
    }
    // Relative file names are relative to the caller's directory.
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    step::run(&mut command)
}

/// A run of about half a minute.
pub(crate) fn usual() -> Verdict {
    usual_of(run)
}

/// The same for `atomicity`.
pub(crate) fn usual_atomicity() -> Verdict {
    usual_of(atomicity)
}

fn usual_of(run: fn(&[OsString]) -> Verdict) -> Verdict {
    match run(&USUAL.map(OsString::from)) {
        Verdict::Passed(_) => Verdict::Passed(format!("{} kills", USUAL[1])),
        other => other,
    }
}
