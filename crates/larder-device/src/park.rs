//! A thread that waits for requests: it settles them itself where their backend lets it.
//!
//! A backend whose completions somebody must fetch (a ring) stands behind its pending requests as a
//! [`Driver`]. A thread in [`block_on`] (or in [`IoFuture::wait`](crate::IoFuture::wait)) fetches
//! them on its own: no other thread has to run first. Whoever polls a request from another executor
//! cannot do that, and the driver gives the request to a thread of its own.
//!
//! Invariants:
//!
//! 1. Every polled or dropped request that has not ended is seen to: either it is noted by a thread
//!    inside [`block_on`], which drives the driver that it has noted whenever it has nothing to
//!    poll and hands it over when it leaves; or the driver has adopted it. A thread that hosts a
//!    driver ([`set_host`]) drives that one alone; what it had noted before it hands over.
//! 2. A wake-up sets `woken` first and looks afterwards at where the thread sleeps; the thread says
//!    first where it is about to sleep and looks at `woken` afterwards. One of the two sees the
//!    other: no wake-up is lost.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::plug;

/// What fetches the completions of pending requests.
pub(crate) trait Driver: Send + Sync {
    /// Settles requests on this thread, or sleeps while another thread does, until `parker` is
    /// woken.
    fn drive(self: Arc<Self>, parker: &Arc<Parker>);

    /// Tells the kernel of what a thread has left in the queue while it was [`plugged`](crate::plugged).
    fn tell(&self);

    /// Lets the thread that is inside [`Driver::drive`] look at its parker.
    fn interrupt(&self);

    /// Settles what has ended already. Does not block.
    fn reap(&self);

    /// A thread inside [`block_on`] will see to one more (or one fewer) request.
    fn noted(&self, more: bool);

    /// One more (or one fewer) request that no such thread sees to.
    fn adopted(&self, more: bool);

    /// A thread leaves [`block_on`]; requests that it had noted may be left.
    fn left(&self);

    /// Whether one thread alone drives it, or its heir does: no other takes note of it.
    fn is_hosted(&self) -> bool {
        false
    }
}

/// Where one thread sleeps, and whether it must not.
pub(crate) struct Parker {
    thread: Thread,
    woken: AtomicBool,
    /// The thread has been made the one that drives (the driver's lock orders this).
    promoted: AtomicBool,
    /// The driver that the thread drives just now.
    drives: Mutex<Option<Arc<dyn Driver>>>,
}

// Where there is no ring, nothing drives.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
impl Parker {
    fn new() -> Self {
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

    /// Forgets a wake-up. The thread looks afterwards at what it was woken for.
    fn woken_no_more(&self) {
        // Most futures end at their first poll; they need not pay for a fence.
        if self.is_woken() {
            self.woken.store(false, Ordering::SeqCst);
        }
    }

    /// Says that the thread sleeps in `driver` from now on (`None`: no longer), and returns where
    /// it slept before.
    pub(crate) fn drives(&self, driver: Option<Arc<dyn Driver>>) -> Option<Arc<dyn Driver>> {
        let mut drives = self.drives.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut drives, driver)
    }

    /// Makes the thread the one that drives. Called under the driver's lock.
    pub(crate) fn promote(&self) {
        self.promoted.store(true, Ordering::SeqCst);
    }

    /// Whether the thread was made the one that drives, which it is told once. Called under the
    /// driver's lock.
    pub(crate) fn take_promotion(&self) -> bool {
        self.promoted.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn unpark(&self) {
        self.thread.unpark();
    }

    /// Sleeps until the thread is woken or made the one that drives.
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
        // The thread itself is awake, of course.
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

/// What a thread inside [`block_on`] knows.
struct Here {
    parker: Arc<Parker>,
    waker: Waker,
    depth: Cell<u32>,
    noted: RefCell<Option<Arc<dyn Driver>>>,
    /// The driver that is this thread's alone.
    host: RefCell<Option<Arc<dyn Driver>>>,
}

thread_local! {
    static HERE: Here = {
        let parker = Arc::new(Parker::new());
        let waker = Waker::from(Arc::clone(&parker));
        let (noted, host) = (RefCell::new(None), RefCell::new(None));
        Here { parker, waker, depth: Cell::new(0), noted, host }
    };
}

/// From now on this thread drives `driver`, and nobody else does. `None`: it has none of its own.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn set_host(driver: Option<Arc<dyn Driver>>) {
    let before = HERE.try_with(|here| here.host.replace(driver));
    drop(before);
}

/// Whether the driver at this address is this thread's own.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn is_host(address: usize) -> bool {
    let is_at = |driver: &Arc<dyn Driver>| Arc::as_ptr(driver).addr() == address;
    HERE.try_with(|here| here.host.borrow().as_ref().is_some_and(is_at)).unwrap_or(false)
}

/// Takes note of `driver`, which stands behind a pending request that this thread has polled.
/// `false`: the thread will not drive it, for it is not inside [`block_on`] or drives another one.
pub(crate) fn note(driver: &Arc<dyn Driver>) -> bool {
    HERE.try_with(|here| {
        if here.depth.get() == 0 {
            return false;
        }
        if let Some(host) = &*here.host.borrow() {
            return Arc::ptr_eq(host, driver);
        }
        if driver.is_hosted() {
            return false;
        }
        let mut noted = here.noted.borrow_mut();
        match &*noted {
            Some(other) => Arc::ptr_eq(other, driver),
            None => {
                *noted = Some(Arc::clone(driver));
                true
            }
        }
    })
    .unwrap_or(false)
}

/// Whether this thread is inside [`block_on`], and fetches completions when it has nothing else to do.
pub(crate) fn is_inside_block_on() -> bool {
    HERE.try_with(|here| here.depth.get() > 0).unwrap_or(false)
}

/// Runs `f` as if this thread were not inside [`block_on`]: what is polled in it is not what the thread waits for, and
/// may outlive its stay, so the drivers have to see to it.
pub(crate) fn apart<R>(f: impl FnOnce() -> R) -> R {
    struct Back(u32);
    impl Drop for Back {
        fn drop(&mut self) {
            let _ = HERE.try_with(|here| {
                here.depth.set(self.0);
                // An inner wait may have taken a wake-up that was meant for the outer one.
                if self.0 > 0 {
                    here.parker.woken.store(true, Ordering::SeqCst);
                }
            });
        }
    }
    let depth = HERE.try_with(|here| here.depth.replace(0)).unwrap_or(0);
    let _back = Back(depth);
    f()
}

/// Runs `future` to its end on this thread, without a runtime.
///
/// While there is nothing to poll, the thread itself fetches the completions of the requests that
/// the future waits for, where the device lets it ([`FileDevice`](crate::FileDevice) through
/// io_uring does): this costs fewer switches between threads than any executor that only sleeps.
pub fn block_on<F: Future>(future: F) -> F::Output {
    HERE.with(|here| {
        let _inside = Inside::enter(here);
        let mut future = pin!(future);
        let mut context = Context::from_waker(&here.waker);
        loop {
            here.parker.woken_no_more();
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            plug::tell_all();
            match here.driver() {
                Some(driver) => driver.drive(&here.parker),
                None => here.parker.park(),
            }
        }
    })
}

impl Here {
    /// What the thread drives while it has nothing to poll.
    fn driver(&self) -> Option<Arc<dyn Driver>> {
        let host = self.host.borrow().clone();
        if host.is_some() {
            // It began to host inside.
            let noted = self.noted.take();
            noted.into_iter().for_each(|noted| noted.left());
            return host;
        }
        self.noted.borrow().clone()
    }
}

/// A stay inside [`block_on`], which may be inside another one.
struct Inside<'a> {
    here: &'a Here,
    outer: Option<Arc<dyn Driver>>,
}

impl<'a> Inside<'a> {
    fn enter(here: &'a Here) -> Self {
        here.depth.set(here.depth.get() + 1);
        Self { here, outer: here.noted.take() }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let here = self.here;
        here.depth.set(here.depth.get() - 1);
        let noted = here.noted.replace(self.outer.take());
        if let Some(noted) = noted {
            noted.left();
        }
        let host = here.host.borrow().clone();
        if let Some(host) = host {
            // What it has begun and does not wait for must not wait for its next stay.
            host.tell();
        }
        // Wake-ups of the outer one may have ended up here.
        if here.depth.get() > 0 {
            here.parker.woken.store(true, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::IoBuffer;
    use crate::io::IoFuture;

    #[test]
    fn waits_for_another_thread() {
        for _ in 0..100 {
            let (future, completer) = IoFuture::pending();
            let other = std::thread::spawn(move || completer.complete(Ok(IoBuffer::zeroed(8))));
            assert_eq!(block_on(future).unwrap().len(), 8);
            other.join().unwrap();
        }
    }

    #[test]
    fn an_inner_wait_takes_no_wake_up_from_the_outer_one() {
        let (outer, completer) = IoFuture::pending();
        let mut outer = pin!(outer);
        let mut completer = Some(completer);
        let result = block_on(std::future::poll_fn(|context| {
            let polled = outer.as_mut().poll(context);
            if let Some(completer) = completer.take() {
                assert!(polled.is_pending());
                // Ends the outer request while the inner one is waited for.
                let (inner, inner_completer) = IoFuture::pending();
                let other = std::thread::spawn(move || {
                    completer.complete(Ok(IoBuffer::zeroed(8)));
                    inner_completer.complete(Ok(IoBuffer::zeroed(16)));
                });
                assert_eq!(inner.wait().unwrap().len(), 16);
                other.join().unwrap();
            }
            polled
        }));
        assert_eq!(result.unwrap().len(), 8);
    }
}
