//! A thread that returns free memory to the system some seconds after clients have released it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use larder_device::give_back_free_memory;

use crate::shared::ServerState;

/// How often it checks.
const INTERVAL: Duration = Duration::from_secs(3);
/// Freed bytes that make a return worth while.
const WORTH_BYTES: usize = 2 << 20;
/// About how many bytes a connection leaves free when it ends.
const CONNECTION_BYTES: usize = 4 << 10;

/// The thread's handle. The thread ends when this is dropped.
pub(crate) struct Housekeeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Estimates the free memory that the allocator holds.
struct FreeMemoryEstimate {
    connections_ever: u64,
    peak: usize,
    /// The last return gave back much: memory freed while it ran may still be with the allocator.
    looks_again: bool,
}

impl FreeMemoryEstimate {
    /// Whether clients have released [`WORTH_BYTES`] or more. What they still hold is not counted.
    fn is_much(&mut self, shared: &ServerState) -> bool {
        let (used, ever) = (shared.account.used(), shared.connections_ever());
        self.peak = self.peak.max(shared.account.take_peak());
        let come = usize::try_from(ever - self.connections_ever).unwrap_or(usize::MAX);
        let gone = come.min(shared.connections_max()).saturating_sub(shared.connections());
        let freed = self.peak.saturating_sub(used) + gone * CONNECTION_BYTES;
        self.looks_again || freed >= WORTH_BYTES
    }

    /// Everything freed so far was given back: `bytes`.
    fn was_given_back(&mut self, bytes: usize, shared: &ServerState) {
        self.looks_again = bytes >= WORTH_BYTES;
        self.peak = shared.account.used();
        self.connections_ever = shared.connections_ever() - shared.connections() as u64;
    }
}

impl Housekeeper {
    pub(crate) fn begin(shared: &Arc<ServerState>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let shared = Arc::clone(shared);
        let mut freed = FreeMemoryEstimate { connections_ever: 0, peak: 0, looks_again: false };
        let run = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                shared.listens();
                if freed.is_much(&shared) {
                    let bytes = give_back_free_memory();
                    shared.memory_returns.fetch_add(1, Ordering::Relaxed);
                    freed.was_given_back(bytes, &shared);
                }
            }
        };
        let thread = std::thread::Builder::new().name("larder-memory".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}
