//! Connections of a worker that wait for requests, and must be woken when the server ends or when they have waited too
//! long.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};
use std::time::Duration;

use slab::Slab;

/// How often connections with a time limit are checked.
const SWEEP: Duration = Duration::from_secs(1);
const _: () = assert!(SWEEP.as_nanos() == 1_000_000_000, "limits are counted in whole seconds");

/// The waiting connections.
#[derive(Default)]
pub(crate) struct Idle {
    waiting: RefCell<Slab<IdleConnection>>,
    /// How many of them have a time limit.
    limited: Cell<usize>,
    /// When they are checked next, on the clock of the worker.
    next_sweep: Cell<Duration>,
    /// The server ends, so all waits are over.
    draining: Cell<bool>,
}

struct IdleConnection {
    waker: Waker,
    /// A request has begun: the connection may go on while the server drains.
    is_amid: bool,
    /// Sweeps that may still see it waiting; `None`: no limit.
    sweeps_left: Option<u64>,
}

impl Idle {
    /// Whether a connection may go on waiting; `place` is its place, if it waits already. It may wait for at most
    /// `limit`, and while the server drains only in the middle of a request (`is_amid`). Returns the place at which the
    /// task is registered to be woken; `None`: the wait is over.
    pub(crate) fn waits(
        &self,
        place: Option<usize>,
        (limit, is_amid): (Option<Duration>, bool),
        cx: &Context<'_>,
    ) -> Option<usize> {
        let mut waiting = self.waiting.borrow_mut();
        let Some(place) = place else {
            if self.draining.get() && !is_amid {
                return None;
            }
            let sweeps_left = limit.map(sweeps);
            self.limited.set(self.limited.get() + usize::from(sweeps_left.is_some()));
            return Some(waiting.insert(IdleConnection {
                waker: cx.waker().clone(),
                sweeps_left,
                is_amid,
            }));
        };
        let IdleConnection { is_amid, sweeps_left, .. } = waiting[place];
        if self.draining.get() && !is_amid || sweeps_left == Some(0) {
            drop(waiting);
            self.waits_no_more(Some(place));
            return None;
        }
        waiting[place].waker.clone_from(cx.waker());
        Some(place)
    }

    /// The connection at `place` has done something: its time begins anew.
    pub(crate) fn waits_anew(&self, place: usize, limit: Option<Duration>) {
        self.waiting.borrow_mut()[place].sweeps_left = limit.map(sweeps);
    }

    /// The connection at `place` no longer waits.
    pub(crate) fn waits_no_more(&self, place: Option<usize>) {
        let Some(place) = place else { return };
        let gone = self.waiting.borrow_mut().remove(place);
        self.limited.set(self.limited.get() - usize::from(gone.sweeps_left.is_some()));
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// The server ends: ends all waits, except in the middle of a request.
    pub(crate) fn drain(&self) {
        self.draining.set(true);
        self.look_again();
    }

    /// Wakes all waiting connections; each checks whether it may go on.
    pub(crate) fn look_again(&self) {
        self.waiting.borrow().iter().for_each(|(_, one)| one.waker.wake_by_ref());
    }

    /// If a sweep is due, wakes the connections that have waited too long. Returns the time until the next sweep.
    pub(crate) fn sweep(&self, now: Duration) -> Option<Duration> {
        if self.limited.get() == 0 {
            return None;
        }
        if now >= self.next_sweep.get() {
            self.next_sweep.set(now + SWEEP);
            for (_, one) in self.waiting.borrow_mut().iter_mut() {
                let Some(left) = &mut one.sweeps_left else { continue };
                *left = left.saturating_sub(1);
                if *left == 0 {
                    one.waker.wake_by_ref();
                }
            }
        }
        Some(self.next_sweep.get().saturating_sub(now))
    }
}

/// The sweeps that a wait of `limit` may see: one more than its seconds, since it may have begun just before the first.
fn sweeps(limit: Duration) -> u64 {
    limit.as_secs() + u64::from(limit.subsec_nanos() > 0) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_connection_that_waits_longer_than_it_may_is_over() {
        let (idle, limit) = (Idle::default(), (Some(2 * SECOND), false));
        let cx = Context::from_waker(Waker::noop());
        assert_eq!(idle.sweep(SECOND), None, "no connection waits");
        let place = idle.waits(None, limit, &cx);
        for now in 1..=2 {
            assert_eq!(idle.sweep(now * SECOND), Some(SECOND));
            assert_eq!(idle.sweep(now * SECOND + SECOND / 2), Some(SECOND / 2));
            assert_eq!(idle.waits(place, limit, &cx), place);
        }
        idle.waits_anew(place.unwrap(), limit.0);
        for now in 3..=4 {
            idle.sweep(now * SECOND);
            assert_eq!(idle.waits(place, limit, &cx), place, "it has done something");
        }
        idle.sweep(5 * SECOND);
        let other = idle.waits(None, limit, &cx);
        assert!(other.is_some() && other != place);
        assert_eq!(idle.waits(place, limit, &cx), None);
        idle.waits_no_more(other);
        assert_eq!(idle.sweep(6 * SECOND), None);
    }

    #[test]
    fn without_a_limit_one_waits_for_ever_but_not_over_the_end() {
        let idle = Idle::default();
        let cx = Context::from_waker(Waker::noop());
        let place = idle.waits(None, (None, false), &cx);
        let limited = idle.waits(None, (Some(SECOND), false), &cx);
        for now in 1..100 {
            idle.sweep(now * SECOND);
        }
        assert_eq!(idle.waits(limited, (Some(SECOND), false), &cx), None);
        assert_eq!(idle.sweep(1000 * SECOND), None, "no limit is left to look at");
        assert_eq!(idle.waits(place, (None, false), &cx), place);
        let amid = idle.waits(None, (None, true), &cx);
        idle.drain();
        assert_eq!(idle.waits(amid, (None, true), &cx), amid, "its request is to be answered");
        assert_eq!(idle.waits(place, (None, false), &cx), None);
        assert_eq!(idle.waits(None, (None, false), &cx), None);
    }
}
