//! A child process: its output, line by line, and its end.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// Dropping it kills the process.
pub(crate) struct Spawned {
    /// Its name in error messages.
    name: &'static str,
    pub(crate) child: Child,
    lines: Receiver<String>,
}

impl Spawned {
    /// Starts `command`; only its standard output is read.
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|why| format!("cannot start {name}: {why}"))?;
        let (say, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                // Keep reading after the receiver is gone, or the process would block on a full pipe.
                lines.for_each(|line| drop(say.send(line)));
            });
        }
        Ok(Self { name, child, lines })
    }

    /// The next line of its output, while waiting for it to become ready.
    pub(crate) fn line(&mut self, patience: Duration) -> Result<String, String> {
        self.lines.recv_timeout(patience).map_err(|why| {
            let status = self.child.try_wait();
            format!("{} does not say that it is ready ({why}; {status:?})", self.name)
        })
    }

    /// The remaining lines of its output, until its end.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.lines.iter().collect()
    }

    /// Kills it, and waits until it is gone; it must have been alive until now.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        let name = self.name;
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("{name} ended by itself: {status}"));
        }
        self.child.kill().map_err(|why| format!("cannot kill {name}: {why}"))?;
        self.child.wait().map(drop).map_err(|why| format!("cannot wait for {name}: {why}"))
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
