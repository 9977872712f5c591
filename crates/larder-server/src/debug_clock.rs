//! A clock that clients may move with memcached's `debugtime`, for tests of lifetimes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use larder::{Clock, RealClock};

/// The wall clock, which can be moved and held. The caller that opens the caches passes it to them and to the server
/// ([`ServerConfig::debug_clock`](crate::ServerConfig::debug_clock)). Then memcached's `debugtime N` moves it by N
/// seconds, `debugtime p` holds it, and `debugtime r` lets it run again, for all tenants. Timers are not affected: they
/// follow [`Clock::monotonic`], which always runs.
#[derive(Debug, Default)]
pub struct DebugClock {
    state: Mutex<DebugClockState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct DebugClockState {
    ahead_ms: i64,
    held_at: Option<Duration>,
}

impl DebugClock {
    /// A clock that shows the real time.
    pub fn new() -> Self {
        Self::default()
    }

    /// The clock for the caches: `clock` where clients may move one, else the operating system's.
    pub fn or_real(clock: Option<&Arc<Self>>) -> Arc<dyn Clock> {
        match clock {
            Some(clock) => Arc::clone(clock) as _,
            None => Arc::new(RealClock),
        }
    }

    /// Moves the clock by `seconds`, backwards if negative. A forward move adds 1 ms, so that a lifetime of `seconds`
    /// is over: lifetimes are rounded up to milliseconds.
    pub fn move_by(&self, seconds: i64) {
        let beyond_ms = i64::from(seconds > 0);
        let by_ms = seconds.saturating_mul(1000).saturating_add(beyond_ms);
        let mut state = self.lock();
        state.ahead_ms = state.ahead_ms.saturating_add(by_ms);
    }

    /// Holds the clock, or lets it run again from the time that it would show by now.
    pub fn hold(&self, holds: bool) {
        let mut state = self.lock();
        state.held_at = holds.then(|| state.held_at.unwrap_or_else(|| RealClock.now()));
    }

    fn lock(&self) -> MutexGuard<'_, DebugClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for DebugClock {
    fn now(&self) -> Duration {
        let DebugClockState { ahead_ms, held_at } = *self.lock();
        let now = held_at.unwrap_or_else(|| RealClock.now());
        let moved = Duration::from_millis(ahead_ms.unsigned_abs());
        if ahead_ms < 0 { now.saturating_sub(moved) } else { now.saturating_add(moved) }
    }

    fn monotonic(&self) -> Duration {
        RealClock.monotonic()
    }
}

/// Equal only to itself.
impl PartialEq for DebugClock {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_moved_and_held() {
        let clock = DebugClock::new();
        let start = clock.now();
        clock.move_by(100);
        assert!(clock.now() > start + Duration::from_secs(100), "beyond what was rounded up");
        clock.move_by(-300);
        assert!(clock.now() < start);
        clock.hold(true);
        let held = clock.now();
        std::thread::sleep(Duration::from_millis(2));
        clock.hold(true);
        assert_eq!(clock.now(), held, "held twice, it is held since the first");
        clock.hold(false);
        assert!(clock.now() > held);
        clock.move_by(i64::MIN);
        assert_eq!(clock.now(), Duration::ZERO);
        clock.move_by(i64::MAX);
        clock.move_by(i64::MAX);
        assert!(clock.now() > start);
    }
}
