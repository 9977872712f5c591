//! `cargo xtask sanitize`: the tests of the DRAM tier under AddressSanitizer, which is told what of a segment may be
//! touched (`crates/larder/src/dram/memory/shadow.rs`).

use crate::step::{self, Verdict};
use crate::{toolchain, workspace};

/// Where the sanitizer is known to work. The target is named, or build scripts would be sanitized too.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds and runs them in their own target directory: all is compiled anew.
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
