//! What all files are made of, and the programs that make them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the files are made of, and where they go.
pub(super) struct Dist {
    pub(super) dir: PathBuf,
    pub(super) version: String,
    /// Seconds since 1970 of the commit.
    pub(super) epoch: String,
}

/// Runs a command. The error is what it said.
pub(super) fn ran(command: &mut Command) -> Result<(), String> {
    told(command).map(|_| ())
}

/// What a command prints.
pub(super) fn told(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|cause| format!("{name}: {cause}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}\n{text}{said}", output.status))
}

/// The length of a file or of all files below a directory, in KiB.
pub(super) fn kib(path: &Path) -> Result<String, String> {
    let told = told(Command::new("du").args(["-k", "-s", "--apparent-size"]).arg(path))?;
    let first = told.split_whitespace().next();
    first.map(str::to_owned).ok_or_else(|| format!("du of {} says nothing", path.display()))
}
