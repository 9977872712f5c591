//! Messages from other threads to a serving thread, and its waker.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use larder_device::sockets::Inbox;

/// Messages to one thread, which polls futures and sleeps.
pub(crate) struct Mailbox<L> {
    inbox: Inbox<L>,
    /// Whether a waker was called since the thread last checked.
    is_woken: AtomicBool,
}

impl<L: Send + 'static> Mailbox<L> {
    pub(crate) fn new() -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self { inbox: Inbox::new()?, is_woken: AtomicBool::new(false) }))
    }

    /// Whether a waker was called since the last call.
    pub(crate) fn take_woken(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl<L> Deref for Mailbox<L> {
    type Target = Inbox<L>;

    fn deref(&self) -> &Self::Target {
        &self.inbox
    }
}

impl<L: Send + 'static> Wake for Mailbox<L> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.inbox.signal_from_elsewhere();
    }
}
