//! A server process from its start to its end.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::spawned::Spawned;

/// Output of a server when it is ready.
const READY: &str = "ready in";
/// Dropping it kills the process.
pub(in crate::kills) struct Process {
    server: Spawned,
    /// Prefix of the output line with its address.
    protocol: &'static str,
    started: Instant,
}

impl Process {
    /// Starts a server, to speak `protocol` with it.
    pub(in crate::kills) fn start(
        command: &mut Command,
        protocol: &'static str,
    ) -> Result<Self, String> {
        let started = Instant::now();
        Ok(Self { server: Spawned::start("the server", command)?, protocol, started })
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Waits until the server is ready. Returns its address.
    pub(in crate::kills) fn address(&mut self, patience: Duration) -> Result<SocketAddr, String> {
        let mut address = None;
        loop {
            let line = self.server.line(patience)?;
            if line.starts_with(READY) {
                return address.ok_or_else(|| "the server does not say where it is".to_owned());
            }
            if let Some(place) = line.strip_prefix(self.protocol) {
                address = place.trim().parse().ok();
            }
        }
    }

    /// Kills it, and waits until it is gone.
    pub(in crate::kills) fn kill(&mut self) -> Result<(), String> {
        self.server.kill()
    }
}
