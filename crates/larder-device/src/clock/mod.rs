//! Time, injected: the wall clock in production, and a number that a simulation sets in tests and replays. Timers
//! belong to the clock too, so the choice of the clock decides what runs them: a thread of its own ([`RealClock`]), the
//! loop that a server runs anyway ([`LoopClock`]), or a simulation ([`VirtualClock`]).

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

/// A future that ends at a time of a clock, or soon after.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time. Engines ask it, never the operating system.
pub trait Clock: Send + Sync {
    /// Time since the Unix epoch (or since the start of a simulation).
    fn now(&self) -> Duration;

    /// Time since an arbitrary moment, unaffected by setting the clock: for measuring durations. The same as
    /// [`Clock::now`], unless the clock overrides it.
    fn monotonic(&self) -> Duration {
        self.now()
    }

    /// Ends when [`Clock::monotonic`] has reached `at`. By default this waits on the operating system's timers.
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
