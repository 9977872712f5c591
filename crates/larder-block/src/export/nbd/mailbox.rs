//! What other threads have for a worker, and what wakes it.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use larder_device::sockets::Inbox;

/// See the module.
pub(super) struct Mailbox {
    inbox: Inbox<Letter>,
    /// Something was woken since the worker looked last.
    is_woken: AtomicBool,
}

/// An order to a worker.
pub(super) enum Letter {
    /// A connection, whose load is counted already.
    Arrived(OwnedFd),
    /// Read nothing more, answer what has begun, and end.
    Drain,
    /// End at once.
    End,
}

impl Mailbox {
    pub(super) fn new() -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self { inbox: Inbox::new()?, is_woken: AtomicBool::new(false) }))
    }

    /// Whether something was woken since this was asked last.
    pub(super) fn take_woken(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Deref for Mailbox {
    type Target = Inbox<Letter>;

    fn deref(&self) -> &Self::Target {
        &self.inbox
    }
}

impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.inbox.signal_from_elsewhere();
    }
}
