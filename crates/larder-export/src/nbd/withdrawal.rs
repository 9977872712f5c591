//! Removes an export from a running server: its connections complete the requests that they have begun, and close.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use event_listener::{Event, EventListener};

/// Whether an export was removed.
#[derive(Debug, Default)]
pub(super) struct Withdrawal {
    is_withdrawn: AtomicBool,
    told: Event,
    /// Dropped with the export, which all of its connections hold.
    lasts: Mutex<Option<Sender<()>>>,
}

/// An export that was removed, while its connections end ([`Exports::remove`](super::Exports::remove)).
#[derive(Debug)]
pub struct Withdrawn(Receiver<()>);

impl Withdrawal {
    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn.load(Ordering::SeqCst)
    }

    /// A listener for a removal after this call. Then [check](Self::is_withdrawn) whether it was removed before.
    pub(super) fn listen(&self) -> EventListener {
        self.told.listen()
    }

    /// Notifies all connections.
    pub(super) fn withdraw(&self) -> Withdrawn {
        let (lasts, ended) = mpsc::channel();
        *self.lasts.lock().unwrap_or_else(PoisonError::into_inner) = Some(lasts);
        self.is_withdrawn.store(true, Ordering::SeqCst);
        self.told.notify(usize::MAX);
        Withdrawn(ended)
    }
}

impl Withdrawn {
    /// Waits until its connections have closed and no longer use the volume, for at most `longest`. Returns whether
    /// that is so.
    pub fn wait(&self, longest: Duration) -> bool {
        self.0.recv_timeout(longest) == Err(RecvTimeoutError::Disconnected)
    }
}
