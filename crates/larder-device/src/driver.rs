//! The two sides of a wait: the driver that fetches completions, and the parker of the thread that waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;
use std::thread::Thread;

/// Fetches the completions of pending requests.
pub(crate) trait Driver: Send + Sync {
    /// Settles requests on this thread, or sleeps while another thread does, until `parker` is woken.
    fn drive(self: Arc<Self>, parker: &Arc<Parker>);

    /// Tells the kernel of entries that a thread has left in the queue while it was [`plugged`](crate::plugged).
    fn tell(&self);

    /// Makes the thread that is inside [`Driver::drive`] check its parker.
    fn interrupt(&self);

    /// Settles requests that have ended already. Does not block.
    fn reap(&self);

    /// A thread inside [`block_on`](crate::block_on) takes care of one more request, or of one fewer if not `more`.
    fn noted(&self, more: bool);

    /// One more (or one fewer) request that no such thread takes care of.
    fn adopted(&self, more: bool);

    /// A thread leaves [`block_on`](crate::block_on); requests that it had noted may be left.
    fn left(&self);

    /// Whether only one thread, or its heir, drives it: then no other thread notes it.
    fn is_hosted(&self) -> bool {
        false
    }
}

/// Moves virtual time on, for the thread that waits for a request ([`Completer::advanced_by`]).
///
/// [`Completer::advanced_by`]: crate::Completer::advanced_by
pub trait Advance: Send + Sync {
    /// Advances to the next event. A thread inside [`block_on`](crate::block_on) that has nothing to poll calls it
    /// again and again until it is woken; it may block until other threads have had their turns.
    fn advance(&self);
}

impl<A: Advance + 'static> Driver for A {
    fn drive(self: Arc<Self>, parker: &Arc<Parker>) {
        while !parker.is_woken() {
            self.advance();
        }
    }

    fn tell(&self) {}

    fn interrupt(&self) {}

    fn reap(&self) {}

    fn noted(&self, _more: bool) {}

    fn adopted(&self, _more: bool) {}

    fn left(&self) {}
}

/// Where one thread sleeps, and whether it must not.
pub(crate) struct Parker {
    thread: Thread,
    woken: AtomicBool,
    /// The thread was promoted to drive (the driver's lock orders this).
    promoted: AtomicBool,
    /// The driver that the thread is driving.
    drives: Mutex<Option<Arc<dyn Driver>>>,
}

// Without rings there is no driver.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            thread: std::thread::current(),
            woken: AtomicBool::new(false),
            promoted: AtomicBool::new(false),
            drives: Mutex::new(None),
        }
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// Clears a wake-up. The thread must then check what it was woken for.
    pub(crate) fn woken_no_more(&self) {
        // Most futures end at their first poll, and should not pay for a fence.
        if self.is_woken() {
            self.woken.store(false, Ordering::SeqCst);
        }
    }

    /// Sets a wake-up for the thread itself, which is awake.
    pub(crate) fn note_woken(&self) {
        self.woken.store(true, Ordering::SeqCst);
    }

    /// Records that the thread sleeps in `driver` from now on (`None`: no longer). Returns where it slept before.
    pub(crate) fn drives(&self, driver: Option<Arc<dyn Driver>>) -> Option<Arc<dyn Driver>> {
        let mut drives = self.drives.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut drives, driver)
    }

    /// Promotes the thread to drive. Called under the driver's lock.
    pub(crate) fn promote(&self) {
        self.promoted.store(true, Ordering::SeqCst);
    }

    /// Takes a promotion, if there was one. Called under the driver's lock.
    pub(crate) fn take_promotion(&self) -> bool {
        self.promoted.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn unpark(&self) {
        self.thread.unpark();
    }

    /// Sleeps until the thread is woken or promoted.
    pub(crate) fn park(&self) {
        while !self.is_woken() && !self.promoted.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = self.woken.swap(true, Ordering::SeqCst);
        // The thread itself is awake.
        if before || std::thread::current().id() == self.thread.id() {
            return;
        }
        let driver = self.drives.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match driver {
            Some(driver) => driver.interrupt(),
            None => self.thread.unpark(),
        }
    }
}
