//! `cargo xtask spelling`: runs the spell checker `typos` over the tree; its exceptions are in `typos.toml`.

use std::process::Command;

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

/// Checks the spelling of code and documents, if `typos` is installed.
pub(crate) fn check() -> Verdict {
    let Some(program) = step::find_program(&["typos"]) else {
        let install = "pip install typos, or cargo install typos-cli --locked";
        return Verdict::Skipped(format!("typos is not installed ({install})"));
    };
    step::run(Command::new(program).current_dir(workspace::root()))
}
