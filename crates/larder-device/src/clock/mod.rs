//! Time, injected: the wall clock in production, a number that a simulation sets in tests and
//! replays. Timers are the clock's too, so whoever brings the clock decides who looks after them: a thread beside
//! ([`RealClock`]), the loop that a server runs anyway ([`LoopClock`]), or a simulation ([`VirtualClock`]).

mod agenda;
mod loop_clock;
mod sleeper;
mod virtual_clock;

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use loop_clock::LoopClock;
pub use virtual_clock::VirtualClock;

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

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
