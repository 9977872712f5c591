//! `cargo xtask interleave`: the parts of the cache and of the rings that many threads share, compiled with locks whose
//! every use lets a scheduler choose who goes on.

use crate::step::{self, Verdict};
use crate::workspace;

/// Builds and runs the tests of this name in their own target directory: all is compiled anew.
pub(crate) fn run() -> Verdict {
    let words =
        "test --quiet --locked --package larder --package larder-device --lib -- interleavings";
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = step::cargo(&words);
    command.env("RUSTFLAGS", "--cfg shuttle");
    command.env("CARGO_TARGET_DIR", workspace::target().join("shuttle"));
    step::run(&mut command)
}
