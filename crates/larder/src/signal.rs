//! Waiting until something has changed, for futures of any executor.
//!
//! Who waits notes its waker first and looks at what it waits for afterwards; who changes that changes it
//! first and looks for wakers afterwards. Between the two steps of each stands a fence, so one of the two
//! sees the other: no wake-up is lost. A waiter that is dropped takes its waker with it.

use std::future::poll_fn;
use std::sync::PoisonError;
use std::task::{Poll, Waker};

use crate::sync::atomic::{AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};

/// Tells who waits that something has changed. With nobody waiting that costs a fence and a load.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// Length of the list, to ask without its lock.
    waiting: AtomicUsize,
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    next_number: u64,
    list: Vec<(u64, Waker)>,
}

/// Somebody who may wait.
#[derive(Debug)]
pub(crate) struct Waiter<'a> {
    signal: &'a Signal,
    number: Option<u64>,
}

impl Signal {
    /// Something has changed: wakes all who wait. They look, and wait anew if it was nothing to them.
    #[inline]
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let woken = {
            let mut waiters = self.lock();
            self.waiting.store(0, Ordering::Relaxed);
            std::mem::take(&mut waiters.list)
        };
        woken.into_iter().for_each(|(_, waker)| waker.wake());
    }

    pub(crate) fn waiter(&self) -> Waiter<'_> {
        Waiter { signal: self, number: None }
    }

    /// Waits until `holds`, which is asked again after each change.
    #[cfg(test)]
    pub(crate) async fn until(&self, holds: impl FnMut() -> bool) {
        until_any([self], holds).await;
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until `holds`, which is asked again after each change that one of the signals tells of.
pub(crate) async fn until_any<const N: usize>(
    signals: [&Signal; N],
    mut holds: impl FnMut() -> bool,
) {
    let mut waiters = signals.map(|signal| signal.waiter());
    poll_fn(|context| {
        if holds() {
            return Poll::Ready(());
        }
        waiters.iter_mut().for_each(|waiter| waiter.note(context.waker()));
        if holds() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Waiter<'_> {
    /// From here on a change wakes this waker, once. Whoever waits looks after this.
    pub(crate) fn note(&mut self, waker: &Waker) {
        let mut waiters = self.signal.lock();
        let known = self.number.and_then(|number| {
            waiters.list.iter_mut().find(|(other, _)| *other == number).map(|(_, waker)| waker)
        });
        match known {
            Some(known) => known.clone_from(waker),
            None => {
                let number = waiters.next_number;
                waiters.next_number += 1;
                waiters.list.push((number, waker.clone()));
                self.number = Some(number);
            }
        }
        self.signal.waiting.store(waiters.list.len(), Ordering::Relaxed);
        drop(waiters);
        fence(Ordering::SeqCst);
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut waiters = self.signal.lock();
        waiters.list.retain(|(other, _)| *other != number);
        self.signal.waiting.store(waiters.list.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use larder_device::block_on;

    #[test]
    fn no_change_is_missed() {
        let (signal, turn) = (Signal::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for player in 0..2 {
                let (signal, turn) = (&signal, &turn);
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let mine = 2 * round + player;
                        block_on(signal.until(|| turn.load(Ordering::Acquire) == mine));
                        turn.store(mine + 1, Ordering::Release);
                        signal.notify();
                    }
                });
            }
        });
        assert_eq!(turn.into_inner(), 40_000);
    }

    #[test]
    fn who_gives_up_leaves_no_waker_behind() {
        let signal = Signal::default();
        let mut context = std::task::Context::from_waker(Waker::noop());
        for _ in 0..100 {
            let mut waiting = Box::pin(signal.until(|| false));
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            assert_eq!(signal.lock().list.len(), 1);
        }
        assert_eq!((signal.lock().list.len(), signal.waiting.load(Ordering::Relaxed)), (0, 0));
    }
}
