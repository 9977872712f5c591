//! `cargo xtask sanitize`: the tests of the DRAM tier under AddressSanitizer. The tier tells the sanitizer which parts
//! of a segment may be accessed (`crates/larder/src/dram/memory/shadow.rs`).

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

use crate::toolchain;

/// The target on which the sanitizer is known to work. It is passed explicitly, or build scripts would be sanitized
/// too.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds and runs these tests in a separate target directory, because everything is compiled with other options.
pub(crate) fn run() -> Verdict {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Verdict::Skipped(format!("this is no {TARGET}"));
    }
    if !step::succeeds(&mut toolchain::rustup(&["run", "nightly", "cargo", "--version"])) {
        return Verdict::Skipped("nightly Rust is not installed".to_owned());
    }
    let words = "run nightly cargo test --quiet --locked --package larder --lib --target";
    let mut words: Vec<&str> = words.split(' ').collect();
    words.extend([TARGET, "--", "dram", "value"]);
    let mut command = toolchain::rustup(&words);
    command.current_dir(workspace::root());
    command.env("RUSTFLAGS", "-Zsanitizer=address --cfg larder_asan");
    command.env("CARGO_TARGET_DIR", workspace::target().join("sanitize"));
    step::run(&mut command)
}
