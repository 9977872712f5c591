//! Toolchains and targets other than our own. `rustup` fetches them where possible.

use std::fs;
use std::process::Command;

use larder_harness::step::{self, Verdict};
use larder_harness::workspace;

/// The crates that others embed. They must build wherever Rust does. The other crates contain C code, which needs a
/// compiler for each target.
pub(crate) const LIBRARIES: [&str; 5] =
    ["larder-ssd", "larder-vssd", "larder-device", "larder-blocks", "larder"];

/// Targets on which they are checked, in addition to this machine's.
const TARGETS: [&str; 4] = [
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

/// `cargo xtask msrv`: builds everything with the oldest supported toolchain.
pub(crate) fn msrv() -> Verdict {
    let manifest = workspace::root().join("Cargo.toml");
    let manifest = match fs::read_to_string(&manifest) {
        Ok(manifest) => manifest,
        Err(cause) => {
            return Verdict::Failed(format!("cannot read {}: {cause}", manifest.display()));
        }
    };
    let Some(version) = promised(&manifest) else {
        return Verdict::Failed("Cargo.toml says no rust-version".to_owned());
    };
    let install = ["toolchain", "install", version, "--profile", "minimal", "--no-self-update"];
    if !step::succeeds(rustup(&["run", version, "cargo"]).arg("--version"))
        && !step::succeeds(&mut rustup(&install))
    {
        return Verdict::Skipped(format!("Rust {version} is not installed and cannot be fetched"));
    }
    let mut check = rustup(&["run", version, "cargo", "check", "--workspace", "--locked"]);
    check.env("CARGO_TARGET_DIR", workspace::target().join("xtask/msrv"));
    match step::run(&mut check) {
        Verdict::Passed(_) => Verdict::Passed(format!("with Rust {version}")),
        other => other,
    }
}

/// `cargo xtask targets`: builds the libraries without warnings for other systems.
pub(crate) fn targets() -> Verdict {
    let mut checked = Vec::new();
    let mut skipped = Vec::new();
    for target in TARGETS {
        if !step::succeeds(&mut rustup(&["target", "add", target])) {
            skipped.push(target);
            continue;
        }
        let mut check = step::cargo(&["check", "--locked", "--target", target]);
        check.args(LIBRARIES.iter().flat_map(|library| ["--package", library]));
        check.env("RUSTFLAGS", "-D warnings");
        check.env("CARGO_TARGET_DIR", workspace::target().join("xtask/targets"));
        match step::run(&mut check) {
            Verdict::Passed(_) => checked.push(target),
            other => return other,
        }
    }
    let without = match skipped.is_empty() {
        true => String::new(),
        false => format!("; could not be fetched: {}", skipped.join(", ")),
    };
    match checked.is_empty() {
        true => Verdict::Skipped(format!("rustup has no standard library{without}")),
        false => Verdict::Passed(format!("{}{without}", checked.join(", "))),
    }
}

/// The oldest toolchain that a manifest promises.
fn promised(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \""))?;
    line.strip_suffix('"')
}

/// `rustup`, without the environment variables that the cargo that started us set for its children.
pub(crate) fn rustup(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(arguments).current_dir(workspace::root());
    for inherited in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(inherited);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_is_read() {
        assert_eq!(promised("[package]\nrust-version = \"1.90\"\n"), Some("1.90"));
        assert_eq!(promised("[package]\nedition = \"2024\"\n"), None);
        let ours = fs::read_to_string(workspace::root().join("Cargo.toml")).unwrap();
        assert!(promised(&ours).is_some());
    }
}
