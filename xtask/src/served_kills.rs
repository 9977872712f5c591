//! `cargo xtask served-kills`: `larder serve` under `kill -9`. An example of `larder-sim` does it; here both are built,
//! and it is started.

use std::ffi::OsString;

use crate::step::{self, Verdict};
use crate::workspace;

/// Kills, as a part of everything.
const USUAL: [&str; 2] = ["--times", "10"];

/// Runs it with these options; `--help` is one of them.
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
    // Files are where the caller names them.
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    step::run(&mut command)
}

/// Half a minute's worth.
pub(crate) fn usual() -> Verdict {
    match run(&USUAL.map(OsString::from)) {
        Verdict::Passed(_) => Verdict::Passed(format!("{} kills", USUAL[1])),
        other => other,
    }
}
