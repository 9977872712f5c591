//! Connections of a worker that wait for requests: who is called when the server ends, or when it has waited too long.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};
use std::time::Duration;

use slab::Slab;

/// How often connections are looked at that may have waited too long.
const SWEEP: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Idle {
    waiting: RefCell<Slab<Waiting>>,
    /// So long at most; `None` for ever.
    timeout: Option<Duration>,
    /// When they are looked at next, on the clock of the worker.
    next_sweep: Cell<Duration>,
    /// All are over: the server ends.
    draining: Cell<bool>,
}

struct Waiting {
    waker: Waker,
    /// Sweeps that have seen it waiting, at most so many as make it too long.
    sweeps: u32,
}

impl Idle {
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        let (waiting, next_sweep, draining) = Default::default();
        Self { waiting, timeout, next_sweep, draining }
    }

    /// Whether whoever waits, at `place` or nowhere yet, may go on waiting: then the place where it is called when that
    /// changes.
    pub(crate) fn waits(&self, place: Option<usize>, cx: &Context<'_>) -> Option<usize> {
        let mut waiting = self.waiting.borrow_mut();
        let Some(place) = place else {
            let entry = Waiting { waker: cx.waker().clone(), sweeps: 0 };
            return (!self.draining.get()).then(|| waiting.insert(entry));
        };
        if self.draining.get() || self.is_too_long(waiting[place].sweeps) {
            waiting.remove(place);
            return None;
        }
        waiting[place].waker.clone_from(cx.waker());
        Some(place)
    }

    /// It waits at `place` no more.
    pub(crate) fn waits_no_more(&self, place: Option<usize>) {
        if let Some(place) = place {
            self.waiting.borrow_mut().remove(place);
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// All are over from now on.
    pub(crate) fn drain(&self) {
        self.draining.set(true);
        self.look_again();
    }

    /// Wakes all that wait: each looks whether it may go on.
    pub(crate) fn look_again(&self) {
        self.waiting.borrow().iter().for_each(|(_, one)| one.waker.wake_by_ref());
    }

    /// Calls those that have waited too long, if it is time to look. Says after how long to call again.
    pub(crate) fn sweep(&self, now: Duration) -> Option<Duration> {
        self.timeout?;
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            return None;
        }
        if now >= self.next_sweep.get() {
            self.next_sweep.set(now + SWEEP);
            for (_, one) in waiting.iter_mut() {
                one.sweeps += 1;
                if self.is_too_long(one.sweeps) {
                    one.waker.wake_by_ref();
                }
            }
        }
        Some(self.next_sweep.get().saturating_sub(now))
    }

    /// One sweep more than the time has, since it may have begun just before the first.
    fn is_too_long(&self, sweeps: u32) -> bool {
        let seconds = self.timeout.map(|timeout| timeout.as_secs_f64().ceil());
        seconds.is_some_and(|seconds| f64::from(sweeps) > seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_waits_longer_than_it_may_is_over() {
        let idle = Idle::new(Some(2 * SECOND));
        let cx = Context::from_waker(Waker::noop());
        assert_eq!(idle.sweep(SECOND), None, "nobody waits");
        let place = idle.waits(None, &cx);
        for now in 1..=2 {
            assert_eq!(idle.sweep(now * SECOND), Some(SECOND));
            assert_eq!(idle.sweep(now * SECOND + SECOND / 2), Some(SECOND / 2));
            assert_eq!(idle.waits(place, &cx), place);
        }
        idle.sweep(3 * SECOND);
        let other = idle.waits(None, &cx);
        assert!(other.is_some() && other != place);
        assert_eq!(idle.waits(place, &cx), None);
        idle.waits_no_more(other);
        assert_eq!(idle.sweep(4 * SECOND), None);
    }

    #[test]
    fn without_a_timeout_one_waits_for_ever_but_not_over_the_end() {
        let idle = Idle::new(None);
        let cx = Context::from_waker(Waker::noop());
        let place = idle.waits(None, &cx);
        assert_eq!(idle.sweep(1000 * SECOND), None);
        assert_eq!(idle.waits(place, &cx), place);
        idle.drain();
        assert_eq!(idle.waits(place, &cx), None);
        assert_eq!(idle.waits(None, &cx), None);
    }
}
