//! `cargo xtask package` and `cargo xtask deny`: check what users get when they depend on our crates.

use larder_harness::step::{self, Verdict};
use larder_harness::{tools, workspace};

const DENY: &str = "cargo-deny";

/// Packages every crate, and builds it from the package. Cargo cannot package `xtask`, which depends on a crate that is
/// not published.
pub(crate) fn package() -> Verdict {
    let arguments = ["package", "--workspace", "--exclude", "xtask", "--locked", "--allow-dirty"];
    let mut command = step::cargo(&arguments);
    step::run(command.env("CARGO_TARGET_DIR", workspace::target().join("xtask/package")))
}

/// Checks licences, known vulnerabilities and sources of our dependencies, by `deny.toml`.
pub(crate) fn deny() -> Verdict {
    let program = match tools::find(DENY) {
        Ok(program) => program,
        Err(why) => return Verdict::Skipped(why),
    };
    let mut check = std::process::Command::new(program);
    check.current_dir(workspace::root()).args(["--locked", "check"]);
    // The database of vulnerabilities must be fetched. Checks that need no network always run.
    if step::succeeds(std::process::Command::new("git").args([
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
