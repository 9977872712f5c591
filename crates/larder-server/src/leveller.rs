//! A thread that levels the wear of the drives of a set of shards: it looks at them each hour, by the clock of the
//! caches.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use larder::{ErrorKind, block_on};

use crate::shared::ServerState;

/// How often it asks whether an hour is over; an operator, or a test, may have moved the clock.
const INTERVAL: Duration = Duration::from_secs(1);

/// The thread's handle. The thread ends when this is dropped.
pub(crate) struct Leveller {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Leveller {
    /// `None` if the server has no set of shards.
    pub(crate) fn begin(shared: &Arc<ServerState>) -> io::Result<Option<Self>> {
        if shared.default_tenant().shards().is_none() {
            return Ok(None);
        }
        let (stop, stopped) = channel();
        let shared = Arc::clone(shared);
        let run = move || {
            // The first look is at once: it is the begin of the time over which rates are taken.
            loop {
                look(&shared);
                if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("larder-levelling".to_owned()).spawn(run)?;
        Ok(Some(Self { stop: Some(stop), thread: Some(thread) }))
    }
}

/// All tenants share the set, so that of the first one will do.
fn look(shared: &ServerState) {
    let Some(shards) = shared.default_tenant().shards() else { return };
    match block_on(shards.level_drives(shared.drive_levelling())) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Closed => {}
        Err(error) => tracing::warn!(%error, "keys cannot be moved to level the wear of drives"),
    }
}

impl Drop for Leveller {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}
