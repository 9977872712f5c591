//! `cargo xtask package`, `semver` and `deny`: check what users get when they depend on our crates.

use std::process::Command;

use clap::Args;
use larder_harness::step::{self, Verdict};
use larder_harness::{tools, workspace};

use crate::toolchain::LIBRARIES;

const DENY: &str = "cargo-deny";
/// Knows the documentation format of the pinned toolchain.
const SEMVER_CHECKS: &str = "cargo-semver-checks@0.51.0";

#[derive(Debug, Default, Args)]
pub(crate) struct SemverOptions {
    /// Compare with this commit [default: the newest tag of a release, v*].
    #[arg(long, value_name = "REV")]
    baseline: Option<String>,
}

/// Packages every crate, and builds it from the package. Cargo cannot package `xtask`, which depends on a crate that is
/// not published.
pub(crate) fn package() -> Verdict {
    let arguments = ["package", "--workspace", "--exclude", "xtask", "--locked", "--allow-dirty"];
    let mut command = step::cargo(&arguments);
    step::run(command.env("CARGO_TARGET_DIR", workspace::target().join("xtask/package")))
}

/// Compares the interfaces of the libraries with those of a release: what breaks callers needs another minor version
/// (`docs/versions.md`).
pub(crate) fn semver(options: &SemverOptions) -> Verdict {
    let Some(baseline) = options.baseline.clone().or_else(released) else {
        let why = "no release is tagged (v*); --baseline REV compares with a commit";
        return Verdict::Skipped(why.to_owned());
    };
    let program = match tools::find(SEMVER_CHECKS) {
        Ok(program) => program,
        Err(why) => return Verdict::Skipped(why),
    };
    let mut check = Command::new(program);
    check.current_dir(workspace::root()).args(["semver-checks", "--baseline-rev", &baseline]);
    check.args(LIBRARIES.iter().flat_map(|library| ["--package", library]));
    match step::run(&mut check) {
        Verdict::Passed(_) => Verdict::Passed(format!("beside {baseline}")),
        other => other,
    }
}

/// The newest release before this commit.
fn released() -> Option<String> {
    let mut describe = Command::new("git");
    describe.current_dir(workspace::root()).args([
        "describe",
        "--tags",
        "--abbrev=0",
        "--match",
        "v*",
    ]);
    let told = describe.output().ok().filter(|told| told.status.success())?;
    Some(String::from_utf8(told.stdout).ok()?.trim().to_owned())
}

/// Checks licences, known vulnerabilities and sources of our dependencies, by `deny.toml`.
pub(crate) fn deny() -> Verdict {
    let program = match tools::find(DENY) {
        Ok(program) => program,
        Err(why) => return Verdict::Skipped(why),
    };
    let mut check = Command::new(program);
    check.current_dir(workspace::root()).args(["--locked", "check"]);
    // The database of vulnerabilities must be fetched. Checks that need no network always run.
    if step::succeeds(Command::new("git").args([
        "ls-remote",
        "https://github.com/rustsec/advisory-db",
        "HEAD",
    ])) {
        return step::run(&mut check);
    }
    match step::run(check.args(["bans", "licenses", "sources"])) {
        Verdict::Passed(_) => {
            Verdict::Passed("without known faults, whose list cannot be fetched".to_owned())
        }
        other => other,
    }
}
