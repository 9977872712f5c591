//! An export that is taken away from a server that runs: its connections end what they have begun, and close.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use event_listener::{Event, EventListener};

/// Whether an export was taken away.
#[derive(Debug, Default)]
pub(super) struct Withdrawal {
    is_withdrawn: AtomicBool,
    told: Event,
    /// Goes with the export, which all of its connections have.
    lasts: Mutex<Option<Sender<()>>>,
}

/// An export that was taken away, whose connections end ([`Exports::remove`](super::Exports::remove)).
#[derive(Debug)]
pub struct Withdrawn(Receiver<()>);

impl Withdrawal {
    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn.load(Ordering::SeqCst)
    }

    /// Hears of it, if it comes after this. What came before is to be [asked](Self::is_withdrawn) for afterwards.
    pub(super) fn listen(&self) -> EventListener {
        self.told.listen()
    }

    /// Tells all connections.
    pub(super) fn withdraw(&self) -> Withdrawn {
        let (lasts, ended) = mpsc::channel();
        *self.lasts.lock().unwrap_or_else(PoisonError::into_inner) = Some(lasts);
        self.is_withdrawn.store(true, Ordering::SeqCst);
        self.told.notify(usize::MAX);
        Withdrawn(ended)
    }
}

impl Withdrawn {
    /// Waits until its connections have closed and nothing has the volume any more, but no longer than this. Whether
    /// they have.
    pub fn wait(&self, longest: Duration) -> bool {
        self.0.recv_timeout(longest) == Err(RecvTimeoutError::Disconnected)
    }
}
