//! The process `larder block start`, from start to end.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::spawned::Spawned;

/// A server that takes longer than this to start is considered hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// Dropping it kills the process.
pub(super) struct Process(Spawned);

impl Process {
    /// Starts the server and waits until it is ready. Returns what it reports to have found.
    pub(super) fn start(command: &mut Command) -> Result<(Self, String), String> {
        let mut server = Spawned::start("larder block start", command)?;
        let mut found = String::new();
        loop {
            let line = server.line(PATIENCE)?;
            if let Some(what) = line.strip_prefix("found") {
                what.trim().clone_into(&mut found);
            }
            if line.starts_with("ready") {
                return Ok((Self(server), found));
            }
        }
    }

    /// Kills it; it must have been alive until now.
    pub(super) fn kill(mut self) -> Result<(), String> {
        self.0.kill()
    }

    /// Tells it to end, by a signal.
    pub(super) fn terminate(&self) -> Result<(), String> {
        let pid = self.0.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        match told {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("cannot tell larder block start to end: {other:?}")),
        }
    }

    /// Waits for the end of a server that was told to end, and checks its status.
    pub(super) fn ended(mut self) -> Result<(), String> {
        let status: ExitStatus =
            self.0.child.wait().map_err(|why| format!("larder block start: {why}"))?;
        let said = self.0.rest();
        let is_good =
            status.success() && said.last().is_some_and(|line| line.starts_with("stopped"));
        is_good.then_some(()).ok_or_else(|| format!("larder block start: {status}, {said:?}"))
    }
}

/// Runs `larder block WORDS` to its end. Returns its standard output, or its error message.
pub(super) fn said(larder: &Path, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(larder);
    let output = command.arg("block").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|why| format!("{}: {why}", larder.display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("larder block {}: {}: {said}", words.join(" "), output.status))
}
