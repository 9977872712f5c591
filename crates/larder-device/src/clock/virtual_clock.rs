//! Time that stands still until it is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::agenda::Agenda;
use super::{Clock, Sleep, nanoseconds, sleeper};
use crate::driver::{Driver, Parker};

/// A clock that stands still until it is set, with an agenda of events. The thread that sets the clock wakes the tasks
/// that sleep by it.
///
/// As the clock moves on, events happen in the order of their times, and those of the same time in the order in which
/// they were added. So with one thread every run is the same.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
/// use larder_device::{Clock, VirtualClock};
///
/// let clock = VirtualClock::default();
/// let rings = Arc::new(AtomicU32::new(0));
/// for second in [3, 1] {
///     let rings = Arc::clone(&rings);
///     clock.call_at(Duration::from_secs(second), move || _ = rings.fetch_add(1, Ordering::SeqCst));
/// }
/// assert_eq!(clock.advance_to_next(), Some(Duration::from_secs(1)));
/// assert_eq!((rings.load(Ordering::SeqCst), clock.next_due()), (1, Some(Duration::from_secs(3))));
/// ```
#[derive(Debug, Default)]
pub struct VirtualClock {
    nanoseconds: AtomicU64,
    agenda: Arc<Agenda>,
}

impl VirtualClock {
    /// A clock at `start`.
    pub fn starting_at(start: Duration) -> Self {
        Self { nanoseconds: AtomicU64::new(nanoseconds(start)), agenda: Arc::default() }
    }

    /// Moves the clock on to `now`; an earlier time is ignored. Events that are due until then happen on the way, each
    /// at its time.
    pub fn advance_to(&self, now: Duration) {
        let now_ns = nanoseconds(now);
        while let Some((due_ns, event)) = self.agenda.take_due(now_ns) {
            self.nanoseconds.fetch_max(due_ns, Ordering::SeqCst);
            event();
        }
        self.nanoseconds.fetch_max(now_ns, Ordering::SeqCst);
        // Another thread may have added an event in the meantime.
        self.catch_up();
    }

    /// Moves the clock on to the next due time, and runs all events that are due then. Returns that time, or `None` if
    /// there are no events.
    pub fn advance_to_next(&self) -> Option<Duration> {
        let due = self.next_due()?;
        self.advance_to(due);
        Some(due)
    }

    /// Due time of the next event.
    pub fn next_due(&self) -> Option<Duration> {
        self.agenda.next_due_ns().map(Duration::from_nanos)
    }

    /// Calls `event` when the clock has reached `at`, on the thread that moves it there; at once if it is already
    /// there. The event should be short: other due events wait for it.
    pub fn call_at(&self, at: Duration, event: impl FnOnce() + Send + 'static) {
        let _ = self.agenda.note(nanoseconds(at), Box::new(event));
        // The clock may have been there already, or have been set in the meantime.
        self.catch_up();
    }

    /// Sets the clock, also to an earlier time, as an administrator or a time server does. Events that are due until
    /// then happen late, with the clock already set, in the order in which they were added.
    ///
    /// ```
    /// use std::time::Duration;
    /// use larder_device::{Clock, VirtualClock};
    ///
    /// let clock = VirtualClock::starting_at(Duration::from_secs(90));
    /// clock.set(Duration::from_secs(30));
    /// assert_eq!(clock.now(), Duration::from_secs(30));
    /// ```
    pub fn set(&self, now: Duration) {
        self.nanoseconds.store(nanoseconds(now), Ordering::SeqCst);
        self.catch_up();
    }

    fn catch_up(&self) {
        let now_ns = self.nanoseconds.load(Ordering::SeqCst);
        self.agenda.take_overdue(now_ns).into_iter().for_each(|event| event());
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let sleep = sleeper::sleep_until(&self.agenda, nanoseconds(at));
        // The clock may have been there already, or have been set in the meantime.
        self.catch_up();
        sleep
    }
}

/// A thread in [`block_on`](crate::block_on) that waits for something that ends by the clock moves the clock on itself.
impl Driver for VirtualClock {
    fn drive(self: Arc<Self>, parker: &Arc<Parker>) {
        while !parker.is_woken() {
            if self.advance_to_next().is_none() {
                return parker.park();
            }
        }
    }

    fn tell(&self) {}

    /// The driving thread sleeps in its parker, which can wake it.
    fn interrupt(&self) {}

    /// Nothing ends before the clock says so.
    fn reap(&self) {}

    fn noted(&self, _more: bool) {}

    /// A task that polls elsewhere must move the clock itself or have it moved.
    fn adopted(&self, _more: bool) {}

    fn left(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::block_on;
    use std::sync::Mutex;

    #[test]
    fn setting_a_virtual_clock_wakes_its_sleepers() {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(100)));
        block_on(clock.sleep_until(Duration::from_secs(100)));
        let sleeps = [101, 105, 103].map(|at| clock.sleep_until(Duration::from_secs(at)));
        let beside = Arc::clone(&clock);
        let setter = std::thread::spawn(move || {
            for at in 101..=105 {
                std::thread::sleep(Duration::from_millis(1));
                beside.advance_to(Duration::from_secs(at));
            }
        });
        for (sleep, least_s) in sleeps.into_iter().zip([101, 105, 103]) {
            block_on(sleep);
            assert!(clock.now() >= Duration::from_secs(least_s));
        }
        setter.join().unwrap();
        assert_eq!(clock.next_due(), None);
    }

    #[test]
    fn what_is_due_happens_in_the_order_of_its_time_and_then_as_it_was_noted() {
        let clock = Arc::new(VirtualClock::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        for (number, at_ns) in [30, 10, 20, 10, 30, 10].into_iter().enumerate() {
            let (seen, beside) = (Arc::clone(&seen), Arc::clone(&clock));
            clock.call_at(Duration::from_nanos(at_ns), move || {
                seen.lock().unwrap().push((beside.now().as_nanos(), number));
            });
        }
        clock.advance_to(Duration::from_nanos(25));
        assert_eq!(*seen.lock().unwrap(), [(10, 1), (10, 3), (10, 5), (20, 2)]);
        assert_eq!(clock.now(), Duration::from_nanos(25));
        assert_eq!(clock.advance_to_next(), Some(Duration::from_nanos(30)));
        assert_eq!(seen.lock().unwrap()[4..], [(30, 0), (30, 4)]);
        assert_eq!(clock.advance_to_next(), None);
    }

    #[test]
    fn what_is_noted_for_now_happens_at_once_also_from_an_event() {
        let clock = Arc::new(VirtualClock::default());
        let seen = Arc::new(AtomicU64::new(0));
        let (beside, again) = (Arc::clone(&clock), Arc::clone(&seen));
        clock.call_at(Duration::from_nanos(5), move || {
            beside
                .call_at(Duration::from_nanos(5), move || _ = again.fetch_add(1, Ordering::SeqCst));
        });
        assert_eq!(clock.advance_to_next(), Some(Duration::from_nanos(5)));
        assert_eq!((seen.load(Ordering::SeqCst), clock.next_due()), (1, None));
    }
}
