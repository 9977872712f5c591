//! Waiting for requests: the waiting thread settles them itself where their backend allows it.
//!
//! A backend whose completions must be fetched (a ring) is the [`Driver`] of its pending requests. A thread in
//! [`block_on`] (or in [`IoFuture::wait`](crate::IoFuture::wait)) fetches completions itself, so no other thread has to
//! run first. A task that polls a request in another executor cannot do that; then the driver takes care of the request
//! with a thread of its own.
//!
//! Invariants:
//!
//! 1. Every polled or dropped request that has not ended is taken care of. Either a thread inside [`block_on`] has
//!    noted it: the thread drives the driver that it has noted whenever it has nothing to poll, and hands it over when
//!    it leaves. Or the driver has adopted it. A thread that hosts a driver ([`set_host`]) drives only that one, and
//!    hands over what it had noted before.
//! 2. A wake-up first sets `woken` and then looks where the thread sleeps. The thread first records where it is about
//!    to sleep and then checks `woken`. One of the two sees the other, so no wake-up is lost.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::driver::{Driver, Parker};
use crate::plug;

/// The state of a thread for [`block_on`].
struct ThreadState {
    parker: Arc<Parker>,
    waker: Waker,
    depth: Cell<u32>,
    noted: RefCell<Option<Arc<dyn Driver>>>,
    /// The driver that this thread hosts.
    host: RefCell<Option<Arc<dyn Driver>>>,
}

thread_local! {
    static HERE: ThreadState = ThreadState::new();
}

/// From now on this thread drives `driver`, and no other thread does. `None`: it hosts none.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn set_host(driver: Option<Arc<dyn Driver>>) {
    let before = HERE.try_with(|here| here.host.replace(driver));
    drop(before);
}

/// Whether this thread hosts the driver at this address.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn is_host(address: usize) -> bool {
    let is_at = |driver: &Arc<dyn Driver>| Arc::as_ptr(driver).addr() == address;
    HERE.try_with(|here| here.host.borrow().as_ref().is_some_and(is_at)).unwrap_or(false)
}

/// Notes `driver`, which drives a pending request that this thread has polled. Returns `false` if the thread will not
/// drive it, because it is not inside [`block_on`] or drives another driver.
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

/// Runs `f` as if this thread were not inside [`block_on`]. The thread does not wait for requests that are polled in
/// `f`, and they may outlive its stay, so the drivers must take care of them.
pub(crate) fn apart<R>(f: impl FnOnce() -> R) -> R {
    struct Back(u32);
    impl Drop for Back {
        fn drop(&mut self) {
            let _ = HERE.try_with(|here| {
                here.depth.set(self.0);
                // An inner wait may have taken a wake-up that was meant for the outer one.
                if self.0 > 0 {
                    here.parker.note_woken();
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
/// While there is nothing to poll, the thread itself fetches the completions of the requests that the future waits for,
/// where the device allows it ([`FileDevice`](crate::FileDevice) with io_uring does). This takes fewer switches between
/// threads than an executor that only sleeps.
pub fn block_on<F: Future>(future: F) -> F::Output {
    // Pinned first: a future may be several KiB long, and a closure that owned it would move it.
    let mut future = pin!(future);
    let waited = HERE.try_with(|here| here.wait_for(future.as_mut()));
    // The thread's variables are gone: `exit` runs the destructors of a C++ program's static objects after those of the
    // main thread. Drivers adopt the requests of such a thread.
    waited.unwrap_or_else(|_| ThreadState::new().wait_for(future))
}

impl ThreadState {
    fn new() -> Self {
        let parker = Arc::new(Parker::new());
        let waker = Waker::from(Arc::clone(&parker));
        let (noted, host) = (RefCell::new(None), RefCell::new(None));
        Self { parker, waker, depth: Cell::new(0), noted, host }
    }

    fn wait_for<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        let _inside = BlockOnEntry::enter(self);
        let mut context = Context::from_waker(&self.waker);
        loop {
            self.parker.woken_no_more();
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            plug::tell_all();
            match self.driver() {
                Some(driver) => driver.drive(&self.parker),
                None => self.parker.park(),
            }
        }
    }

    /// The driver that the thread drives while it has nothing to poll.
    fn driver(&self) -> Option<Arc<dyn Driver>> {
        let host = self.host.borrow().clone();
        if host.is_some() {
            // The thread began to host inside this `block_on`.
            let noted = self.noted.take();
            noted.into_iter().for_each(|noted| noted.left());
            return host;
        }
        self.noted.borrow().clone()
    }
}

/// A stay inside [`block_on`], which may be nested.
struct BlockOnEntry<'a> {
    here: &'a ThreadState,
    outer: Option<Arc<dyn Driver>>,
}

impl<'a> BlockOnEntry<'a> {
    fn enter(here: &'a ThreadState) -> Self {
        here.depth.set(here.depth.get() + 1);
        Self { here, outer: here.noted.take() }
    }
}

impl Drop for BlockOnEntry<'_> {
    fn drop(&mut self) {
        let here = self.here;
        here.depth.set(here.depth.get() - 1);
        let noted = here.noted.replace(self.outer.take());
        if let Some(noted) = noted {
            noted.left();
        }
        let host = here.host.borrow().clone();
        if let Some(host) = host {
            // Requests that the thread has begun but does not wait for must not wait for its next stay.
            host.tell();
        }
        // Wake-ups for the outer stay may have arrived here.
        if here.depth.get() > 0 {
            here.parker.note_woken();
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
