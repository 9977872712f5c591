//! `cargo xtask judges`: runs experiments of the lab with settings that break what they are about. The verdict must
//! change, or the run must be refused. The table is `crates/larder-lab/tests/it/broken_mechanisms.rs`.

use larder_harness::step::{self, Verdict};

/// Runs the whole table. `cargo xtask all` has it among the tests of figures.
pub(crate) fn run() -> Verdict {
    let words = "test --release --locked -p larder-lab --test it -- broken_mechanisms \
                 --include-ignored --nocapture";
    let words: Vec<&str> = words.split_whitespace().collect();
    step::run(&mut step::cargo(&words))
}
