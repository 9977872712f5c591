//! A circuit breaker for writes to flash. It limits the damage of an outage and ends the outage when writes work
//! again.
//!
//! One failed write means that the place is bad: it goes out of use for a while ([`Backoff`]). Several failed writes
//! in a row mean that the device fails. Then no write is sent until a back-off is over, so that no further place goes
//! out of use for a fault of the device. After the back-off all writes may try again: the first success ends the
//! outage, the first failure doubles the back-off.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_log::Backoff;

use crate::base::time::CacheClock;
use crate::observe::events;

/// This number of failed writes in a row is an outage.
const FAILURES_MAX: u32 = 4;

/// Closed: all writes pass. Open: no write passes. Half-open, after the back-off: all writes pass again.
pub(crate) struct CircuitBreaker {
    clock: Arc<CacheClock>,
    /// Failed writes in a row.
    failures: AtomicU32,
    outage: Mutex<Outage>,
}

#[derive(Default)]
struct Outage {
    backoff: Backoff,
    /// When the outage began, in seconds of the cache's clock.
    since_s: Option<u32>,
}

impl CircuitBreaker {
    pub(crate) fn new(clock: Arc<CacheClock>) -> Self {
        Self { clock, failures: AtomicU32::new(0), outage: Mutex::default() }
    }

    pub(crate) fn now_s(&self) -> u32 {
        self.clock.now_s()
    }

    /// Whether the caller should try a write now.
    pub(crate) fn allows(&self) -> bool {
        self.failures.load(Ordering::Acquire) < FAILURES_MAX
            || self.lock().backoff.is_due(self.now_s())
    }

    /// Start of the current outage: since then no write was sent, or none has succeeded. `None` without an outage.
    pub(crate) fn open_since_s(&self) -> Option<u32> {
        self.lock().since_s
    }

    /// Records the outcome of a write.
    pub(crate) fn ended(&self, well: bool) {
        if !well {
            self.failed();
        } else if self.failures.load(Ordering::Relaxed) > 0 {
            let mut outage = self.lock();
            *outage = Outage::default();
            let failures = self.failures.swap(0, Ordering::AcqRel);
            drop(outage);
            if failures >= FAILURES_MAX {
                events::writes_resumed();
            }
        }
    }

    fn failed(&self) {
        let now_s = self.now_s();
        let mut outage = self.lock();
        let failures = self.failures.load(Ordering::Relaxed).saturating_add(1);
        // Ignore failures of writes that were in flight when the breaker opened.
        let opens = failures >= FAILURES_MAX && outage.backoff.is_due(now_s);
        if opens {
            outage.backoff.failed(now_s);
            outage.since_s.get_or_insert(now_s);
        }
        self.failures.store(failures, Ordering::Release);
        let waited_s = outage.backoff.waited_s();
        drop(outage);
        if opens {
            events::writes_suspended(waited_s);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use larder_device::VirtualClock;

    use super::*;

    #[test]
    fn several_failures_in_a_row_open_it_and_time_half_opens_it() {
        let wall = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
        let breaker = CircuitBreaker::new(Arc::new(CacheClock::new(Arc::clone(&wall) as _)));
        for ended_well in [false, false, false, true, false, false, false] {
            breaker.ended(ended_well);
            assert!(breaker.allows(), "never four in a row");
        }
        (0..20).for_each(|_| breaker.ended(false));
        assert!(!breaker.allows());
        assert_eq!(breaker.open_since_s(), Some(1000));
        wall.advance_to(Duration::from_secs(1001));
        assert!(breaker.allows(), "20 at once wait for one second, not for 2^20");
        breaker.ended(false);
        wall.advance_to(Duration::from_secs(1002));
        assert!(!breaker.allows(), "the second wait is longer");
        wall.advance_to(Duration::from_secs(1003));
        assert!(breaker.allows());
        assert_eq!(breaker.open_since_s(), Some(1000), "nothing has gone well since");
        breaker.ended(true);
        assert_eq!(breaker.open_since_s(), None);
        breaker.ended(false);
        assert!(breaker.allows(), "it is over");
    }
}
