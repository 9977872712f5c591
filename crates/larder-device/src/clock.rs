//! Time, injected: the wall clock in production, a number that a simulation sets in tests and
//! replays.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time. Engines ask it, never the operating system.
pub trait Clock: Send + Sync {
    /// Time since the Unix epoch (or since the start of a simulation).
    fn now(&self) -> Duration;

    /// Time since some moment, which nobody sets: to measure how long something takes. As
    /// [`Clock::now`], unless the clock knows better.
    fn monotonic(&self) -> Duration {
        self.now()
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

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub struct VirtualClock {
    nanoseconds: AtomicU64,
}

impl VirtualClock {
    /// A clock at `start`.
    pub fn starting_at(start: Duration) -> Self {
        let clock = Self::default();
        clock.advance_to(start);
        clock
    }

    /// Moves the clock on to `now`; an earlier time is ignored.
    pub fn advance_to(&self, now: Duration) {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_max(now, Ordering::Relaxed);
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
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.store(now, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}
