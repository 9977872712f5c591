//! A server from its start to its end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// What a server says when it answers.
const READY: &str = "ready in";
/// What it says where.
const WHERE: &str = "memcached";

/// See the module. It is killed when this is dropped.
pub(super) struct Process {
    child: Child,
    started: Instant,
    lines: Receiver<String>,
}

impl Process {
    pub(super) fn start(command: &mut Command) -> Result<Self, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().map_err(|why| format!("cannot start a server: {why}"))?;
        let (say, lines) = mpsc::channel();
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.map_while(|line| say.send(line).ok()).for_each(drop);
            });
        }
        Ok(Self { child, started, lines })
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Waits until it is ready, and says where it answers.
    pub(super) fn address(&mut self, patience: Duration) -> Result<SocketAddr, String> {
        let mut address = None;
        loop {
            let line = self.lines.recv_timeout(patience).map_err(|why| {
                let status = self.child.try_wait();
                format!("the server does not say that it is ready ({why}; {status:?})")
            })?;
            if line.starts_with(READY) {
                return address.ok_or_else(|| "the server does not say where it is".to_owned());
            }
            if let Some(place) = line.strip_prefix(WHERE) {
                address = place.trim().parse().ok();
            }
        }
    }

    /// Kills it, and waits until it is gone.
    pub(super) fn kill(&mut self) -> Result<(), String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("the server ended by itself: {status}"));
        }
        self.child.kill().map_err(|why| format!("cannot kill the server: {why}"))?;
        self.child.wait().map(drop).map_err(|why| format!("cannot wait for the server: {why}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
