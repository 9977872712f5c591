//! Counts the calls inside the cache, and decides whether new ones may enter.
//!
//! ```text
//!            clear, all are out            clear has ended
//!   Open ─────────────────────────► Held ──────────────────► Open
//!     └──────────── close ──────────► Closed
//! ```
//!
//! A call that may touch the device is inside while it does. A clear or a close keeps new calls out and waits until
//! no call is inside. So no call sees half of a clear, and nothing is written after a close. While the gate is Held,
//! calls wait; when it is Closed, they are refused.
//!
//! Calls inside are counted in stripes of a cache line each, one per thread. A call that enters first counts itself
//! and then reads the state; a task that shuts the gate first changes the state and then reads the counts. One of the
//! two sees the other: all four accesses are `SeqCst`. A caller that is inside must not enter again: the task that
//! shuts the gate would wait for it, and it for the gate.

use std::future::poll_fn;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use event_listener::Event;

use crate::base::error::{Error, ErrorKind};
use crate::base::signal::ALL;
use crate::base::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use crate::base::sync::{Mutex, STRIPES, stripe};

const OPEN: u8 = 0;
const HELD: u8 = 1;
const CLOSED: u8 = 2;
const _: () = assert!(
    align_of::<CallStripe>() == 64,
    "threads that come in do not wait for each other's cache line"
);

#[repr(align(64))]
#[derive(Debug, Default)]
struct CallStripe(AtomicUsize);

/// The gate of a cache.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: AtomicU8,
    inside: [CallStripe; STRIPES],
    /// Held by the task that keeps others out. Whether a close has completed.
    shut: async_lock::Mutex<bool>,
    /// The waker of the task that waits until all are out: the holder of `shut`.
    waiting: Mutex<Option<Waker>>,
    /// Notified when a task starts to shut the gate.
    pub(super) wanted: Event,
}

/// A call inside the gate.
#[derive(Debug)]
pub(crate) struct GateEntry<'a> {
    gate: &'a Gate,
    stripe: usize,
}

/// No call is inside, and none can enter until this is dropped.
#[derive(Debug)]
pub(crate) struct GateHold<'a> {
    gate: &'a Gate,
    _shut: async_lock::MutexGuard<'a, bool>,
}

/// No call is inside, and none can enter any more.
#[derive(Debug)]
pub(crate) struct Closing<'a>(async_lock::MutexGuard<'a, bool>);

impl Gate {
    /// Whether the cache was closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::SeqCst) == CLOSED
    }

    /// Whether a task waits until all are out: long-running calls should leave.
    pub(super) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::SeqCst) != OPEN
    }

    /// Returns an error if the cache was closed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Enters, or waits until that is possible.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(crate) async fn enter(&self) -> Result<GateEntry<'_>, Error> {
        loop {
            let stripe = stripe();
            self.inside[stripe].0.fetch_add(1, Ordering::SeqCst);
            let inside = GateEntry { gate: self, stripe };
            match self.state.load(Ordering::SeqCst) {
                OPEN => return Ok(inside),
                CLOSED => return Err(closed()),
                _ => drop(inside),
            }
            drop(self.shut.lock().await);
        }
    }

    /// Enters, if that is possible without a wait.
    pub(super) fn try_enter(&self) -> Option<GateEntry<'_>> {
        let stripe = stripe();
        self.inside[stripe].0.fetch_add(1, Ordering::SeqCst);
        let inside = GateEntry { gate: self, stripe };
        (self.state.load(Ordering::SeqCst) == OPEN).then_some(inside)
    }

    /// Keeps others out, and waits until no call is inside.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(crate) async fn hold(&self) -> Result<GateHold<'_>, Error> {
        let shut = self.shut.lock().await;
        self.check()?;
        let before = self.state.swap(HELD, Ordering::SeqCst);
        assert_eq!(before, OPEN, "no other call holds the gate while this one has `shut`");
        let held = GateHold { gate: self, _shut: shut };
        self.wanted.notify(ALL);
        self.all_out().await;
        Ok(held)
    }

    /// Keeps others out for ever, and waits until no call is inside.
    pub(crate) async fn close(&self) -> Closing<'_> {
        let shut = self.shut.lock().await;
        let before = self.state.swap(CLOSED, Ordering::SeqCst);
        assert_ne!(before, HELD, "a caller that holds the gate has `shut`");
        self.wanted.notify(ALL);
        self.all_out().await;
        Closing(shut)
    }

    async fn all_out(&self) {
        poll_fn(|context| {
            // Register before the check: a call that leaves afterwards wakes this task.
            *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(context.waker().clone());
            let nobody = self.inside.iter().all(|stripe| stripe.0.load(Ordering::SeqCst) == 0);
            if nobody { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Drop for GateEntry<'_> {
    fn drop(&mut self) {
        let gate = self.gate;
        let before = gate.inside[self.stripe].0.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "a call that leaves was counted in its stripe");
        if gate.state.load(Ordering::SeqCst) != OPEN {
            let waiting = gate.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for GateHold<'_> {
    fn drop(&mut self) {
        // Before `shut` is released, because tasks that wait for it read the state next.
        let before = self.gate.state.swap(OPEN, Ordering::SeqCst);
        debug_assert_eq!(before, HELD, "no other call changes the state of a held gate");
    }
}

impl Closing<'_> {
    /// Whether an earlier close has completed.
    pub(crate) fn is_done(&self) -> bool {
        *self.0
    }

    /// Records that this close has completed.
    pub(crate) fn done(mut self) {
        *self.0 = true;
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the cache was closed; open it again to use it")
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use larder_device::block_on;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn no_call_is_inside_while_the_gate_is_held() {
        let (gate, value) = (Gate::default(), AtomicU64::new(0));
        let work = || {
            for _ in 0..3_000 {
                let inside = block_on(gate.enter()).unwrap();
                value.fetch_add(1, Ordering::SeqCst);
                std::hint::spin_loop();
                value.fetch_sub(1, Ordering::SeqCst);
                drop(inside);
            }
        };
        std::thread::scope(|scope| {
            (0..3).for_each(|_| _ = scope.spawn(work));
            for _ in 0..300 {
                let held = block_on(gate.hold()).unwrap();
                assert_eq!(value.load(Ordering::SeqCst), 0, "a call is inside");
                drop(held);
            }
        });
        block_on(gate.close()).done();
        assert_eq!(block_on(gate.enter()).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(block_on(gate.hold()).unwrap_err().kind(), ErrorKind::Closed);
        assert!(block_on(gate.close()).is_done());
    }

    #[test]
    fn a_holder_that_gives_up_shutting_lets_others_in() {
        let gate = Gate::default();
        let inside = block_on(gate.enter()).unwrap();
        let mut holding = Box::pin(gate.hold());
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert!(holding.as_mut().poll(&mut context).is_pending());
        let mut entering = Box::pin(gate.enter());
        assert!(entering.as_mut().poll(&mut context).is_pending(), "it is held");
        drop(holding);
        assert!(entering.as_mut().poll(&mut context).is_ready());
        drop(inside);
    }
}
