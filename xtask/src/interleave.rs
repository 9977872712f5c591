//! `cargo xtask interleave`: tests the parts of the cache and of the rings that threads share. They are compiled with
//! locks that let a scheduler choose the next thread at every use.

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

/// Builds and runs these tests in a separate target directory, because everything is compiled with other options.
pub(crate) fn run() -> Verdict {
    let words =
        "test --quiet --locked --package larder --package larder-device --lib -- interleavings";
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = step::cargo(&words);
    command.env("RUSTFLAGS", "--cfg shuttle");
    command.env("CARGO_TARGET_DIR", workspace::target().join("shuttle"));
    step::run(&mut command)
}
