//! `cargo xtask served-kills`: `larder serve` under `kill -9`. An example of `larder-sim` does the work; this module
//! builds both and starts it.

use std::ffi::OsString;

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

/// Number of kills when this is part of `all`.
const USUAL: [&str; 2] = ["--times", "10"];

/// Runs the example with these options, which may include `--help`.
pub(crate) fn run(arguments: &[OsString]) -> Verdict {
    let words = ["build", "--release", "--quiet", "--locked", "--package", "larder-cli"];
    let built = step::run(&mut step::cargo(&words));
    let Verdict::Passed(_) = built else { return built };
    let words = "run --release --quiet --locked --package larder-sim --example served_kills --manifest-path";
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = step::cargo(&words);
    command.arg(workspace::root().join("Cargo.toml")).arg("--");
    command.arg("--larder").arg(workspace::target().join("release").join("larder"));
    command.args(arguments);
    if !step::names_dir(arguments) {
        command.arg("--dir").arg(workspace::target().join("xtask").join("served-kills"));
    }
    // Relative file names are relative to the caller's directory.
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    step::run(&mut command)
}

/// A run of about half a minute.
pub(crate) fn usual() -> Verdict {
    match run(&USUAL.map(OsString::from)) {
        Verdict::Passed(_) => Verdict::Passed(format!("{} kills", USUAL[1])),
        other => other,
    }
}
