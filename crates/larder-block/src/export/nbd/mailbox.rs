//! What other threads have for a worker, and how they end its sleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Wake, Waker};
use std::thread::ThreadId;

use rustix::event::{EventfdFlags, eventfd};

/// See the module.
pub(super) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    /// Something was woken since the worker looked last.
    is_woken: AtomicBool,
    /// Readable when there is something.
    event: OwnedFd,
    /// Whether it is readable already, or will be.
    is_signalled: AtomicBool,
    owner: OnceLock<ThreadId>,
    /// Connections that the worker has, or that are on their way to it.
    pub(super) load: AtomicUsize,
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
        Ok(Arc::new(Self {
            letters: Mutex::default(),
            is_woken: AtomicBool::new(false),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_signalled: AtomicBool::new(false),
            owner: OnceLock::new(),
            load: AtomicUsize::new(0),
        }))
    }

    /// The thread that calls is the worker.
    pub(super) fn belongs_here(&self) {
        self.owner.set(std::thread::current().id()).expect("a mailbox has one worker");
    }

    pub(super) fn send(&self, letter: Letter) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        self.signal();
    }

    /// All letters. What is sent from now on signals again.
    pub(super) fn take(&self) -> Vec<Letter> {
        if self.is_signalled.load(Ordering::Relaxed) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
            // Before anything is taken: what comes behind what is taken finds it so.
            self.is_signalled.store(false, Ordering::SeqCst);
        }
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether something was woken since this was asked last.
    pub(super) fn take_woken(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Ends the worker's sleep, or the next one.
    fn signal(&self) {
        if !self.is_signalled.swap(true, Ordering::SeqCst) {
            let _ = rustix::io::write(&self.event, &1_u64.to_le_bytes());
        }
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        // The worker itself looks before it sleeps.
        if self.owner.get() != Some(&std::thread::current().id()) {
            self.signal();
        }
    }
}
