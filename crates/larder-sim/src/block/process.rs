//! `larder block start` from its start to its end.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// A server that takes longer than this to start hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// See the module. It is killed when this is dropped.
pub(super) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Started, and ready; what it says it has found.
    pub(super) fn start(command: &mut Command) -> Result<(Self, String), String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(|why| format!("larder block start: {why}"))?;
        let (say, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                // What nobody waits for any more has somewhere to go.
                lines.for_each(|line| drop(say.send(line)));
            });
        }
        let own = Self { child, lines };
        let mut found = String::new();
        loop {
            let line = own.lines.recv_timeout(PATIENCE);
            let line = line.map_err(|why| format!("larder block start is not ready: {why}"))?;
            if let Some(what) = line.strip_prefix("found") {
                what.trim().clone_into(&mut found);
            }
            if line.starts_with("ready") {
                return Ok((own, found));
            }
        }
    }

    /// Kills it; it must have lived until now.
    pub(super) fn kill(mut self) -> Result<(), String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("larder block start ended by itself: {status}"));
        }
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|why| format!("cannot kill larder block start: {why}"))
    }

    /// Tells it by a signal to end.
    pub(super) fn terminate(&self) -> Result<(), String> {
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        match told {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("cannot tell larder block start to end: {other:?}")),
        }
    }

    /// It was told to end, and ends well.
    pub(super) fn ended(mut self) -> Result<(), String> {
        let status: ExitStatus =
            self.child.wait().map_err(|why| format!("larder block start: {why}"))?;
        let said: Vec<String> = self.lines.iter().collect();
        let is_good =
            status.success() && said.last().is_some_and(|line| line.starts_with("stopped"));
        is_good.then_some(()).ok_or_else(|| format!("larder block start: {status}, {said:?}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `larder block WORDS`, run to its end in silence; an error is what it says.
pub(super) fn command(larder: &Path, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(larder);
    let output = command.arg("block").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|why| format!("{}: {why}", larder.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("larder block {}: {}: {said}", words.join(" "), output.status))
}
