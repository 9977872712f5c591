//! Generation numbers of the tables of a set: a table that was written later has a larger number.
//!
//! A writer may not know all numbers: devices that are away have others, and some of those may be the last that a
//! crash let be written. If numbers only went up by one, a device that comes back could have a larger number than the
//! devices that continued without it. Then its table would win, and its old values would be trusted. So numbers
//! follow the wall clock, and an opening continues above all numbers that it finds, even if the clock was set back.

use std::fmt;
use std::sync::Arc;

use larder_device::Clock;

/// Bits of a number that count tables written within a millisecond.
const COUNT_BITS: u32 = 12;

/// Source of the numbers.
pub(super) struct Generations {
    last: u64,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Generations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generations").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Generations {
    /// Starts above `last`, the largest number on any present device.
    pub(super) fn behind(last: u64, clock: &Arc<dyn Clock>) -> Self {
        let next_millisecond = (last >> COUNT_BITS).saturating_add(1);
        // One less than the first number to be used.
        let last = next_millisecond.saturating_mul(1 << COUNT_BITS).saturating_sub(1);
        Self { last, clock: Arc::clone(clock) }
    }

    /// Records that a device has this number.
    pub(super) fn note(&mut self, seen: u64) {
        self.last = self.last.max(seen);
    }

    pub(super) fn next(&mut self) -> u64 {
        let milliseconds = u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX);
        let now = milliseconds.saturating_mul(1 << COUNT_BITS);
        self.last = self.last.saturating_add(1).max(now);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::VirtualClock;
    use std::time::Duration;

    #[test]
    fn a_later_generation_is_greater_than_all_before_it() {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(1000)));
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let mut first = Generations::behind(0, &shared);
        let known = first.next();
        let unknown = (0..100).map(|_| first.next()).last().unwrap();
        clock.advance_to(Duration::from_millis(1_000_001));
        assert!(Generations::behind(known, &shared).next() > unknown);
        // Also if the clock was set back.
        clock.set(Duration::from_secs(1));
        assert!(Generations::behind(known, &shared).next() > unknown);
        first.note(u64::MAX);
        assert_eq!(first.next(), u64::MAX);
    }
}
