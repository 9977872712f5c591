//! Units of work: how much a connection does before the other connections of its worker get their turns.
//!
//! A unit is one key looked up, one KiB copied, or [`STEPS_A_UNIT`] steps of something smaller: about a microsecond.
//! All work whose length a client controls counts its units and yields between two of them. We count units, and not
//! only time, so that a test can tell on any machine how long each kind of request keeps others waiting.

use std::cell::Cell;
use std::time::{Duration, Instant};

use larder_net::sockets::yield_now;

/// About how many units a connection does before others get their turns.
pub(crate) const UNITS_A_TURN: usize = 1000;
/// Steps in one unit; a step takes no longer than a comparison.
pub(crate) const STEPS_A_UNIT: usize = 256;

/// A turn ends after this time, whatever was counted: not every command counts what it does to a value.
const TURN_MAX: Duration = Duration::from_millis(2);
/// We look at the clock once in 16 requests.
const REQUESTS_A_LOOK: usize = 16;

/// What a connection has done in this turn.
#[derive(Debug, Default)]
pub(crate) struct Work {
    units: Cell<usize>,
    requests: Cell<usize>,
    begun: Cell<Option<Instant>>,
    /// Most units that it has done in one turn since the last [`Work::take_longest`].
    longest: Cell<usize>,
}

impl Work {
    /// Adds units of work.
    #[inline]
    pub(crate) fn does(&self, units: usize) {
        self.units.set(self.units.get() + units);
    }

    /// Adds the work for `bytes` bytes.
    #[inline]
    pub(crate) fn does_bytes(&self, bytes: usize) {
        self.does(bytes >> 10);
    }

    /// Steps left in this turn, at least one unit of them.
    pub(crate) fn steps_left(&self) -> usize {
        UNITS_A_TURN.saturating_sub(self.units.get()).max(1) * STEPS_A_UNIT
    }

    /// Yields to other connections, if it is time. Returns whether it did.
    #[inline]
    pub(crate) async fn rests(&self) -> bool {
        let is_time = self.is_time();
        if is_time {
            self.begins_anew();
            yield_now().await;
        }
        is_time
    }

    /// Whether it is time to yield.
    #[inline]
    pub(crate) fn is_time(&self) -> bool {
        self.units.get() >= UNITS_A_TURN || self.has_taken_long()
    }

    fn has_taken_long(&self) -> bool {
        let requests = self.requests.get().wrapping_add(1);
        self.requests.set(requests);
        if !requests.is_multiple_of(REQUESTS_A_LOOK) {
            return false;
        }
        let now = Instant::now();
        match self.begun.get() {
            Some(begun) => now - begun >= TURN_MAX,
            None => {
                self.begun.set(Some(now));
                false
            }
        }
    }

    /// Begins a new turn.
    pub(crate) fn begins_anew(&self) {
        self.begun.set(None);
        let units = self.units.take();
        self.longest.set(self.longest.get().max(units));
    }

    /// Most units of one turn since the last call.
    pub(crate) fn take_longest(&self) -> usize {
        self.longest.take()
    }
}
