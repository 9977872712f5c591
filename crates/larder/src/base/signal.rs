//! Waiting for a change, for futures of any executor.
//!
//! A waiter listens first and checks its condition afterwards. The other side changes the state first and notifies
//! afterwards, behind a fence of the event. So one of the two sees the other, and no wake-up is lost.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use event_listener::Event;

/// All listeners, for [`Event::notify`].
pub(crate) const ALL: usize = usize::MAX;

/// Waits until `holds` is true. Checks it again after each notification of one of the events.
pub(crate) async fn until_any<const N: usize>(
    events: [&Event; N],
    mut holds: impl FnMut() -> bool,
) {
    while !holds() {
        let mut listeners = events.map(Event::listen);
        if holds() {
            return;
        }
        poll_fn(|context| {
            let mut told = false;
            for listener in &mut listeners {
                told |= Pin::new(listener).poll(context).is_ready();
            }
            if told { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use larder_device::block_on;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_change_is_missed() {
        let (events, turn) = ([Event::new(), Event::new()], AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for player in 0..2 {
                let (events, turn) = (&events, &turn);
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let mine = 2 * round + player;
                        let is_mine = || turn.load(Ordering::Acquire) == mine;
                        block_on(until_any([&events[0], &events[1]], is_mine));
                        turn.store(mine + 1, Ordering::Release);
                        events[round % 2].notify(ALL);
                    }
                });
            }
        });
        assert_eq!(turn.into_inner(), 40_000);
    }
}
