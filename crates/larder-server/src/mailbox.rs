//! What other threads send to a worker: connections, orders, and woken tasks.

use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use larder_device::sockets::{Inbox, Peer};

use crate::listener::Entrance;

/// The mailbox of a worker.
pub(crate) struct Mailbox {
    inbox: Inbox<Letter>,
    woken: Mutex<Vec<async_task::Runnable>>,
}

/// An order to a worker.
pub(crate) enum Letter {
    /// A connection, whose load is counted already.
    Arrived(Arrived),
    /// Some users may have been revoked: close the connections that wait for requests and hold such a login.
    UsersChanged,
    /// The server ends: answer what has come, and close.
    Drain,
    /// End at once.
    End,
}

/// A connection that was accepted.
pub(crate) struct Arrived {
    pub(crate) fd: OwnedFd,
    /// The listener at which it arrived.
    pub(crate) entrance: Arc<Entrance>,
    pub(crate) peer: Peer,
}

impl Mailbox {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { inbox: Inbox::new()?, woken: Mutex::default() })
    }

    /// Queues a woken task; callable from any thread.
    pub(crate) fn wake(&self, task: async_task::Runnable) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        self.inbox.signal_from_elsewhere();
    }

    /// A waker for clocks and rings that wakes the worker.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::new(Signals(Arc::clone(self))))
    }

    /// Swaps the woken tasks into `none`, which must be empty.
    pub(crate) fn take_woken(&self, none: &mut Vec<async_task::Runnable>) {
        debug_assert!(none.is_empty(), "nothing is lost");
        std::mem::swap(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner), none);
    }

    /// Whether there are no woken tasks. Letters signal by themselves.
    pub(crate) fn is_empty(&self) -> bool {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Deref for Mailbox {
    type Target = Inbox<Letter>;

    fn deref(&self) -> &Self::Target {
        &self.inbox
    }
}

struct Signals(Arc<Mailbox>);

impl Wake for Signals {
    fn wake(self: Arc<Self>) {
        self.0.inbox.signal();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.inbox.signal();
    }
}
