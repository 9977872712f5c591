//! Who is inside the cache, and whether anybody may come in.
//!
//! ```text
//!            clear, all are out            clear has ended
//!   Open ─────────────────────────► Held ──────────────────► Open
//!     └──────────── close ──────────► Closed
//! ```
//!
//! A call that may touch the device is inside while it does. Who clears or closes keeps others out and
//! waits until nobody is inside: so no call sees one half of a clear, and after a close nothing is
//! written any more. While it is Held, others wait; where it is Closed, they are refused.
//!
//! Inside are counted in stripes, a cache line for each thread. Who comes in counts itself first and looks
//! at the state then; who shuts the gate changes the state first and looks at the counts then. One of the
//! two sees the other: all four are `SeqCst`. A caller that is inside must not come in once more: who
//! shuts the gate would wait for it, and it for the gate.

use std::future::poll_fn;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use event_listener::Event;

use crate::error::{Error, ErrorKind};
use crate::signal::ALL;
use crate::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use crate::sync::{Mutex, STRIPES, stripe};

const OPEN: u8 = 0;
const HELD: u8 = 1;
const CLOSED: u8 = 2;
const _: () = assert!(
    align_of::<Stripe>() == 64,
    "threads that come in do not wait for each other's cache line"
);

#[repr(align(64))]
#[derive(Debug, Default)]
struct Stripe(AtomicUsize);

/// The gate of a cache.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: AtomicU8,
    inside: [Stripe; STRIPES],
    /// Held by who keeps others out. Whether a close has come to its end.
    shut: async_lock::Mutex<bool>,
    /// Who waits until all are out: the one who holds `shut`.
    waiting: Mutex<Option<Waker>>,
    /// Somebody has begun to shut it.
    pub(super) wanted: Event,
}

/// Somebody inside.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    gate: &'a Gate,
    stripe: usize,
}

/// Nobody is inside, and nobody comes in until this is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    gate: &'a Gate,
    _shut: async_lock::MutexGuard<'a, bool>,
}

/// Nobody is inside, and nobody comes in any more.
#[derive(Debug)]
pub(crate) struct Closing<'a>(async_lock::MutexGuard<'a, bool>);

impl Gate {
    /// Whether the cache was closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::SeqCst) == CLOSED
    }

    /// Whether somebody waits until all are out: who takes long should leave.
    pub(super) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::SeqCst) != OPEN
    }

    /// Refuses who comes too late.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_closed() { Err(closed()) } else { Ok(()) }
    }

    /// Comes in, or waits until that is possible.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(crate) async fn enter(&self) -> Result<Inside<'_>, Error> {
        loop {
            let stripe = stripe();
            self.inside[stripe].0.fetch_add(1, Ordering::SeqCst);
            let inside = Inside { gate: self, stripe };
            match self.state.load(Ordering::SeqCst) {
                OPEN => return Ok(inside),
                CLOSED => return Err(closed()),
                _ => drop(inside),
            }
            drop(self.shut.lock().await);
        }
    }

    /// Comes in, if that is possible without a wait.
    pub(super) fn try_enter(&self) -> Option<Inside<'_>> {
        let stripe = stripe();
        self.inside[stripe].0.fetch_add(1, Ordering::SeqCst);
        let inside = Inside { gate: self, stripe };
        (self.state.load(Ordering::SeqCst) == OPEN).then_some(inside)
    }

    /// Keeps others out, and waits until nobody is inside.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`].
    pub(crate) async fn hold(&self) -> Result<Held<'_>, Error> {
        let shut = self.shut.lock().await;
        self.check()?;
        let before = self.state.swap(HELD, Ordering::SeqCst);
        assert_eq!(before, OPEN, "who has `shut` finds the gate as it is without anybody");
        let held = Held { gate: self, _shut: shut };
        self.wanted.notify(ALL);
        self.all_out().await;
        Ok(held)
    }

    /// Keeps others out for ever, and waits until nobody is inside.
    pub(crate) async fn close(&self) -> Closing<'_> {
        let shut = self.shut.lock().await;
        let before = self.state.swap(CLOSED, Ordering::SeqCst);
        assert_ne!(before, HELD, "who holds the gate has `shut`");
        self.wanted.notify(ALL);
        self.all_out().await;
        Closing(shut)
    }

    async fn all_out(&self) {
        poll_fn(|context| {
            // Before the look: who leaves after it wakes this task.
            *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(context.waker().clone());
            let nobody = self.inside.iter().all(|stripe| stripe.0.load(Ordering::SeqCst) == 0);
            if nobody { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let gate = self.gate;
        let before = gate.inside[self.stripe].0.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "who leaves was counted where it leaves");
        if gate.state.load(Ordering::SeqCst) != OPEN {
            let waiting = gate.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Before `shut` is given back: who waits for that looks at the state next.
        let before = self.gate.state.swap(OPEN, Ordering::SeqCst);
        debug_assert_eq!(before, HELD, "nobody changes the state of a gate that is held");
    }
}

impl Closing<'_> {
    /// Whether an earlier close has come to its end.
    pub(crate) fn is_done(&self) -> bool {
        *self.0
    }

    /// This one has.
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
    fn nobody_is_inside_while_it_is_held() {
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
                assert_eq!(value.load(Ordering::SeqCst), 0, "somebody is inside");
                drop(held);
            }
        });
        block_on(gate.close()).done();
        assert_eq!(block_on(gate.enter()).unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(block_on(gate.hold()).unwrap_err().kind(), ErrorKind::Closed);
        assert!(block_on(gate.close()).is_done());
    }

    #[test]
    fn who_gives_up_shutting_lets_others_in() {
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
