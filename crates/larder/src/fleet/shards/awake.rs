//! Measures the time in which the host was awake. In a process that was stopped, or on a host that slept, requests
//! seem slow and deadlines have passed, but that is no fault of the devices.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use larder_device::Clock;

/// A task that is called later than this was not awake.
const LATE: Duration = Duration::from_millis(500);
/// A wait is divided into this number of pieces; a pause of the host uses up only one.
const PIECES: u32 = 20;

/// The time at which a task expects its next call.
#[derive(Debug, Default)]
pub(super) struct Beat(Mutex<Option<Duration>>);

impl Beat {
    /// Records a call; the next one is due at `next`. Returns how long the host has slept, if it has.
    pub(super) fn at(&self, now: Duration, next: Duration) -> Option<Duration> {
        let mut expected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let late = expected.replace(next).map_or(Duration::ZERO, |at| now.saturating_sub(at));
        (late > LATE).then_some(late)
    }
}

/// The result of `future`, if it takes no longer than `time` while the host is awake.
pub(super) async fn with_timeout<T>(
    clock: &dyn Clock,
    time: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..PIECES {
        let piece = time / PIECES;
        let mut sleep = clock.sleep_until(clock.monotonic().saturating_add(piece));
        let ended = poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => sleep.as_mut().poll(context).map(|()| None),
        });
        if let Some(value) = ended.await {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Waker};

    use larder_device::VirtualClock;

    use super::*;

    #[test]
    fn a_beat_that_comes_late_tells_for_how_long() {
        let beat = Beat::default();
        let ms = Duration::from_millis;
        assert_eq!(beat.at(ms(5000), ms(5250)), None, "nothing was expected yet");
        assert_eq!(beat.at(ms(5750), ms(6000)), None, "a busy processor");
        assert_eq!(beat.at(ms(5800), ms(6050)), None, "it was woken before its time");
        assert_eq!(beat.at(ms(10_050), ms(10_300)), Some(ms(4000)));
        assert_eq!(beat.at(ms(10_300), ms(10_550)), None);
    }

    #[test]
    fn a_pause_counts_as_one_piece_of_a_wait() {
        let clock = Arc::new(VirtualClock::starting_at(Duration::ZERO));
        let waits = with_timeout(&*clock, Duration::from_secs(1), std::future::pending::<()>());
        let mut waits = pin!(waits);
        let mut context = Context::from_waker(Waker::noop());
        let mut polls = 0;
        assert!(waits.as_mut().poll(&mut context).is_pending());
        clock.advance_to(Duration::from_secs(60));
        while waits.as_mut().poll(&mut context).is_pending() {
            clock.advance_to_next();
            polls += 1;
        }
        assert_eq!(polls, PIECES - 1, "one piece was slept through");
    }
}
