//! The time of a run: virtual time, and the wall clock that the cache sees, which may be set.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder::VirtualClock;

use super::history::NEVER;

/// The second at which a simulation begins. It is in 2027: versions continue to grow with the time since 2025 if no
/// flash records an opening.
const FIRST_SECOND: u64 = 1_800_000_000;

/// Virtual time, which only advances, and the wall clock.
pub(super) struct RunTime {
    clock: Arc<VirtualClock>,
    now_ns: u64,
    /// Total amounts by which the wall clock was set forward and back.
    forward_ns: u64,
    back_ns: u64,
    /// The earliest time that the cache's clock may show now.
    judged_ns: Rc<Cell<u64>>,
}

impl RunTime {
    pub(super) fn new() -> Self {
        let now_ns = FIRST_SECOND * 1_000_000_000;
        Self {
            clock: Arc::new(VirtualClock::starting_at(Duration::from_secs(FIRST_SECOND))),
            now_ns,
            forward_ns: 0,
            back_ns: 0,
            judged_ns: Rc::new(Cell::new(now_ns)),
        }
    }

    /// The clock of the cache.
    pub(super) fn clock(&self) -> Arc<VirtualClock> {
        Arc::clone(&self.clock)
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The earliest time that the cache's clock may show now; used for the begin of operations.
    pub(super) fn judged_ns(&self) -> u64 {
        self.judged_ns.get()
    }

    /// The same, for a future that asks later.
    pub(super) fn judged(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.judged_ns)
    }

    /// When the next task that sleeps by the clock wakes.
    pub(super) fn next_wake_ns(&self) -> Option<u64> {
        self.clock.next_due().map(nanoseconds)
    }

    /// Advances to `now_ns`, unless that is past.
    pub(super) fn advance_to(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        self.clock.set(Duration::from_nanos(self.now_ns + self.forward_ns - self.back_ns));
        self.judged_ns.set(self.now_ns - self.back_ns);
    }

    /// Lets time pass that no clock shows before the next [`Self::advance_to`].
    pub(super) fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    /// Sets the wall clock, from the next [`Self::advance_to`] on. Returns whether it was set back. The cache's clock
    /// must not go back with it, but it may restart from it if the cache has forgotten its last time.
    pub(super) fn set_wall(&mut self, rng: &mut fastrand::Rng) -> bool {
        let step_ns = rng.u64(1..=20) * 1_000_000_000;
        // Not before the epoch, and not to a time at which epochs of openings would be reused.
        let back = rng.bool() && self.back_ns + step_ns < FIRST_SECOND * 500_000_000;
        *(if back { &mut self.back_ns } else { &mut self.forward_ns }) += step_ns;
        back
    }

    /// The latest expiry of a value that is stored now: the cache rounds up to seconds. Its clock may be ahead by the
    /// total that the wall clock was set forward, and in another fraction of a second since it was set back.
    pub(super) fn expiry_ns(&self, ttl: Option<Duration>) -> u64 {
        let Some(ttl) = ttl else { return NEVER };
        let rounded = if self.back_ns > 0 { 1_000_000_000 } else { 0 };
        let end_ns = self.now_ns + self.forward_ns + nanoseconds(ttl);
        end_ns.div_ceil(1_000_000_000) * 1_000_000_000 + rounded
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
