//! Time, injected: the wall clock in production, a number that a simulation sets in tests and
//! replays.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Ends at some time of a clock, or soon after.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time. Engines ask it, never the operating system.
pub trait Clock: Send + Sync {
    /// Time since the Unix epoch (or since the start of a simulation).
    fn now(&self) -> Duration;

    /// Time since some moment, which nobody sets: to measure how long something takes. As
    /// [`Clock::now`], unless the clock knows better.
    fn monotonic(&self) -> Duration {
        self.now()
    }

    /// Ends when [`Clock::monotonic`] has come to `at`. Unless the clock knows better, time passes as it
    /// does for the operating system.
    ///
    /// ```
    /// use std::time::Duration;
    /// use larder_device::{Clock, RealClock, block_on};
    ///
    /// let end = RealClock.monotonic() + Duration::from_millis(2);
    /// block_on(RealClock.sleep_until(end));
    /// assert!(RealClock.monotonic() >= end);
    /// ```
    fn sleep_until(&self, at: Duration) -> Sleep {
        Box::pin(futures_timer::Delay::new(at.saturating_sub(self.monotonic())))
    }
}

/// The operating system's wall clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
        FIRST.elapsed()
    }
}

/// A clock that stands still until it is set. Whoever sleeps by it is woken by who sets it.
#[derive(Debug)]
pub struct VirtualClock {
    nanoseconds: AtomicU64,
    /// When the next sleeper is due; most often there is none.
    next_due_ns: AtomicU64,
    sleepers: Mutex<Vec<Arc<Sleeper>>>,
}

#[derive(Debug)]
struct Sleeper {
    due_ns: u64,
    is_due: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::starting_at(Duration::ZERO)
    }
}

impl VirtualClock {
    /// A clock at `start`.
    pub fn starting_at(start: Duration) -> Self {
        Self {
            nanoseconds: AtomicU64::new(nanoseconds(start)),
            next_due_ns: AtomicU64::new(u64::MAX),
            sleepers: Mutex::default(),
        }
    }

    /// Moves the clock on to `now`; an earlier time is ignored.
    pub fn advance_to(&self, now: Duration) {
        self.nanoseconds.fetch_max(nanoseconds(now), Ordering::SeqCst);
        self.wake_due();
    }

    /// Sets the clock, also to an earlier time: as an administrator does, or a time server.
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
        self.wake_due();
    }

    fn wake_due(&self) {
        let now_ns = self.nanoseconds.load(Ordering::SeqCst);
        if now_ns < self.next_due_ns.load(Ordering::SeqCst) {
            return;
        }
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        let due: Vec<_> = sleepers.extract_if(.., |sleeper| sleeper.due_ns <= now_ns).collect();
        let next_due_ns = sleepers.iter().map(|sleeper| sleeper.due_ns).min().unwrap_or(u64::MAX);
        self.next_due_ns.store(next_due_ns, Ordering::SeqCst);
        drop(sleepers);
        due.iter().for_each(|sleeper| sleeper.wake());
    }
}

impl Sleeper {
    fn wake(&self) {
        self.is_due.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_due.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        *waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        let due_ns = nanoseconds(at);
        let is_due = AtomicBool::new(false);
        let sleeper = Arc::new(Sleeper { due_ns, is_due, waker: Mutex::default() });
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        sleepers.push(Arc::clone(&sleeper));
        self.next_due_ns.fetch_min(due_ns, Ordering::SeqCst);
        drop(sleepers);
        // The clock may have been set meanwhile.
        self.wake_due();
        Box::pin(std::future::poll_fn(move |context| sleeper.poll(context)))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::block_on;

    #[test]
    fn who_sets_a_virtual_clock_wakes_who_sleeps_by_it() {
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
        assert!(clock.sleepers.lock().unwrap().is_empty());
    }
}
