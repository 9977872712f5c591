//! What other threads have for a worker: connections, orders, and tasks that they have woken.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Wake, Waker};
use std::thread::ThreadId;

use rustix::event::{EventfdFlags, eventfd};

use crate::listener::Entrance;
use larder_device::sockets::Peer;

/// See the module.
pub(crate) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    woken: Mutex<Vec<async_task::Runnable>>,
    /// Readable when there is something.
    event: OwnedFd,
    /// Whether it is readable already, or will be.
    is_signalled: AtomicBool,
    owner: OnceLock<ThreadId>,
    /// Connections that the worker has, or that are on their way to it.
    pub(crate) load: AtomicUsize,
}

/// An order to a worker.
pub(crate) enum Letter {
    /// A connection, whose load is counted already.
    Arrived(Arrived),
    /// The server ends: answer what has come, and close.
    Drain,
    /// End at once.
    End,
}

/// A connection that was accepted.
pub(crate) struct Arrived {
    pub(crate) fd: OwnedFd,
    /// Where it came in.
    pub(crate) entrance: Arc<Entrance>,
    pub(crate) peer: Peer,
}

impl Mailbox {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            letters: Mutex::default(),
            woken: Mutex::default(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_signalled: AtomicBool::new(false),
            owner: OnceLock::new(),
            load: AtomicUsize::new(0),
        })
    }

    /// The thread that calls is the worker.
    pub(crate) fn belongs_here(&self) {
        self.owner.set(std::thread::current().id()).expect("a mailbox has one worker");
    }

    pub(crate) fn send(&self, letter: Letter) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        self.signal();
    }

    /// A task was woken, on whichever thread.
    pub(crate) fn wake(&self, task: async_task::Runnable) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        // The worker looks before it sleeps.
        if self.owner.get() != Some(&std::thread::current().id()) {
            self.signal();
        }
    }

    /// Ends the worker's sleep, or the next one.
    fn signal(&self) {
        if !self.is_signalled.swap(true, Ordering::SeqCst) {
            let _ = rustix::io::write(&self.event, &1_u64.to_le_bytes());
        }
    }

    /// For clocks and rings: wakes the worker.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::new(Signals(Arc::clone(self))))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// All letters. What is sent from now on signals again.
    pub(crate) fn take(&self) -> Vec<Letter> {
        if self.is_signalled.load(Ordering::Relaxed) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
            // Before anything is taken: what comes behind what is taken finds it so.
            self.is_signalled.store(false, Ordering::SeqCst);
        }
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Exchanges tasks that were woken for `none`, which is empty.
    pub(crate) fn take_woken(&self, none: &mut Vec<async_task::Runnable>) {
        debug_assert!(none.is_empty(), "nothing is lost");
        std::mem::swap(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner), none);
    }

    /// Whether nobody was woken. Letters signal.
    pub(crate) fn is_empty(&self) -> bool {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

struct Signals(Arc<Mailbox>);

impl Wake for Signals {
    fn wake(self: Arc<Self>) {
        self.0.signal();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.signal();
    }
}
