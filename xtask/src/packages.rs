//! `cargo xtask package` and `cargo xtask deny`: what others get when they depend on us.

use crate::step::{self, Verdict};
use crate::{tools, workspace};

const DENY: &str = "cargo-deny";

/// Every crate is packed, and built from what was packed.
pub(crate) fn package() -> Verdict {
    let arguments = ["package", "--workspace", "--locked", "--allow-dirty"];
    let mut command = step::cargo(&arguments);
    step::run(command.env("CARGO_TARGET_DIR", workspace::target().join("xtask/package")))
}

/// Licences, known faults and origins of what we depend on, by `deny.toml`.
pub(crate) fn deny() -> Verdict {
    let program = match tools::find(DENY) {
        Ok(program) => program,
        Err(why) => return Verdict::Skipped(why),
    };
    let mut check = std::process::Command::new(program);
    check.current_dir(workspace::root()).args(["--locked", "check"]);
    // The database of faults is fetched; what needs no network is checked in any case.
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
