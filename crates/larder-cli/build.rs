//! Tells the program the date of the commit that it is built from, as a number: the first seed of `larder lab run`.

use std::path::Path;
use std::process::Command;

/// Where there is no Git, as in a package.
const WITHOUT_GIT: &str = "20261130";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    // Of a file that is not there, cargo would say that it has changed, at every build.
    if let Some(log) = log.filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    let date = git(&["log", "-1", "--format=%cd", "--date=format:%Y%m%d"]);
    let date = date.filter(|date| date.parse::<u64>().is_ok());
    println!("cargo::rustc-env=LARDER_COMMIT_DATE={}", date.as_deref().unwrap_or(WITHOUT_GIT));
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
