//! A server process from its start to its end.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::spawned::Spawned;

/// Output of a server when it is ready.
const READY: &str = "ready in";
/// Prefix of the output line with its address.
const WHERE: &str = "memcached";

/// Dropping it kills the process.
pub(super) struct Process {
    server: Spawned,
    started: Instant,
}

impl Process {
    pub(super) fn start(command: &mut Command) -> Result<Self, String> {
        let started = Instant::now();
        Ok(Self { server: Spawned::start("the server", command)?, started })
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Waits until the server is ready. Returns its address.
    pub(super) fn address(&mut self, patience: Duration) -> Result<SocketAddr, String> {
        let mut address = None;
        loop {
            let line = self.server.line(patience)?;
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
        self.server.kill()
    }
}
