//! A server of others that is started for a test.

use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that does not listen within this time has failed to start.
const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// A process, killed on drop.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts the process, and waits until it listens at `port`.
    pub(crate) fn start(command: &mut Command, port: u16) -> Result<Self, String> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Self(quiet.spawn().map_err(|cause| format!("{command:?}: {cause}"))?);
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if begun.elapsed() > STARTS_WITHIN {
                return Err(format!("{command:?} does not listen at port {port}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(process)
    }
}
