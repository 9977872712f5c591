//! `cargo xtask block-soak`: runs `larder block start` under NBD load and stops or kills it repeatedly. An example of
//! `larder-sim` does the work; this module builds both and starts it.

use std::ffi::OsString;

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

/// Requests on each layout when this is part of `all`.
const USUAL_OPS: &str = "200000";
const LAYOUTS: [&str; 5] = ["log", "dax", "ocf22", "ocf26", "wal"];

/// Runs the example with these options, which may include `--help`.
pub(crate) fn run(arguments: &[OsString]) -> Verdict {
    if !cfg!(target_os = "linux") {
        return Verdict::Skipped("block devices are served on Linux alone".to_owned());
    }
    let names_larder = arguments
        .iter()
        .any(|word| word == "--larder" || word.as_encoded_bytes().starts_with(b"--larder="));
    if !names_larder {
        let words = ["build", "--release", "--quiet", "--locked", "--package", "larder-cli"];
        let built = step::run(&mut step::cargo(&words));
        let Verdict::Passed(_) = built else { return built };
    }
    let words =
        "run --release --quiet --locked --package larder-sim --example block_soak --manifest-path";
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = step::cargo(&words);
    command.arg(workspace::root().join("Cargo.toml")).arg("--");
    if !names_larder {
        command.arg("--larder").arg(workspace::target().join("release").join("larder"));
    }
    command.args(arguments);
    if !step::names_dir(arguments) {
        command.arg("--dir").arg(workspace::target().join("xtask").join("block-soak"));
    }
    // Relative file names are relative to the caller's directory.
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    step::run(&mut command)
}

/// A run of some minutes on every layout.
pub(crate) fn usual() -> Verdict {
    for layout in LAYOUTS {
        let words = ["--ops", USUAL_OPS, "--layout", layout].map(OsString::from);
        match run(&words) {
            Verdict::Passed(_) => {}
            other => return other,
        }
    }
    Verdict::Passed(format!("{USUAL_OPS} requests on each of {}", LAYOUTS.join(", ")))
}
