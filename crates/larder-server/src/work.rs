//! Units of work: what a connection does before the others of its worker have their turns.
//!
//! A unit is a key that is looked up, a KiB that is copied, or [`STEPS_A_UNIT`] steps of something smaller: about a
//! microsecond. Whatever a client can make long counts its units and rests between two of them. Units are counted, and
//! not time alone, so that a test says of each kind of request how long it keeps others waiting, on any machine.

use std::cell::Cell;
use std::time::{Duration, Instant};

use larder_device::sockets::yield_now;

/// Units that a connection does, about, before others have their turns.
pub(crate) const UNITS_A_TURN: usize = 1000;
/// Steps that take no longer than a comparison.
pub(crate) const STEPS_A_UNIT: usize = 256;

/// Whatever was counted, a turn ends after so long: what a request does to a value is not counted by every command.
const TURN_MAX: Duration = Duration::from_millis(2);
/// The clock is looked at once in 16 requests.
const REQUESTS_A_LOOK: usize = 16;

/// What a connection has done since others had their turns.
#[derive(Debug, Default)]
pub(crate) struct Work {
    units: Cell<usize>,
    requests: Cell<usize>,
    begun: Cell<Option<Instant>>,
    /// Most that it has done in a turn since it was asked ([`Work::take_longest`]).
    longest: Cell<usize>,
}

impl Work {
    /// Units of work were done.
    #[inline]
    pub(crate) fn does(&self, units: usize) {
        self.units.set(self.units.get() + units);
    }

    /// Something was done to `bytes` bytes.
    #[inline]
    pub(crate) fn does_bytes(&self, bytes: usize) {
        self.does(bytes >> 10);
    }

    /// Steps that may still be done in this turn, at least one unit of them.
    pub(crate) fn steps_left(&self) -> usize {
        UNITS_A_TURN.saturating_sub(self.units.get()).max(1) * STEPS_A_UNIT
    }

    /// Others have their turns, if it is time. Says whether they had.
    #[inline]
    pub(crate) async fn rests(&self) -> bool {
        let is_time = self.units.get() >= UNITS_A_TURN || self.has_taken_long();
        if is_time {
            self.begins_anew();
            yield_now().await;
        }
        is_time
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

    /// Others have had their turns.
    pub(crate) fn begins_anew(&self) {
        self.begun.set(None);
        let units = self.units.take();
        self.longest.set(self.longest.get().max(units));
    }

    /// Most units of a turn since this was called last.
    pub(crate) fn take_longest(&self) -> usize {
        self.longest.take()
    }
}
