//! Waits for the writes to the cache device that are in flight, without holding back later ones.
//!
//! Each write belongs to a phase. To wait for all current writes, a waiter waits until the current phase was followed
//! by the next one, and the last write of its own phase has ended. Writes of at most two phases are in flight.

#[derive(Debug, Default)]
pub(super) struct Grace {
    phase: u64,
    /// Number of writes in flight that began in even and in odd phases.
    under_way: [usize; 2],
}

/// The phase of a write or of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GracePhase(u64);

impl Grace {
    /// A write begins.
    pub(super) fn begin(&mut self) -> GracePhase {
        self.under_way[parity(self.phase)] += 1;
        GracePhase(self.phase)
    }

    /// A write ends.
    pub(super) fn end(&mut self, GracePhase(phase): GracePhase) {
        let count = &mut self.under_way[parity(phase)];
        *count = count.checked_sub(1).expect("begun before");
    }

    /// The value to pass to [`has_passed`](Self::has_passed), which tells whether all writes now in flight have ended.
    pub(super) fn ask(&self) -> GracePhase {
        GracePhase(self.phase)
    }

    /// Whether all writes that were in flight at the time of `asked` have ended.
    pub(super) fn has_passed(&mut self, GracePhase(asked): GracePhase) -> bool {
        if self.phase == asked && self.under_way[parity(asked + 1)] == 0 {
            self.phase += 1;
        }
        self.phase > asked + 1 || (self.phase > asked && self.under_way[parity(asked)] == 0)
    }
}

fn parity(phase: u64) -> usize {
    usize::from(phase % 2 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_writes_are_waited_for_and_later_ones_are_not() {
        let mut grace = Grace::default();
        let first = grace.begin();
        let asked = grace.ask();
        assert!(!grace.has_passed(asked));
        let second = grace.begin();
        let asked_later = grace.ask();
        assert!(!grace.has_passed(asked_later), "a phase is under way still");
        let third = grace.begin();
        grace.end(first);
        assert!(grace.has_passed(asked));
        assert!(!grace.has_passed(asked_later));
        let fourth = grace.begin();
        grace.end(second);
        assert!(!grace.has_passed(asked_later), "the third came before it was asked again");
        grace.end(third);
        assert!(grace.has_passed(asked_later));
        grace.end(fourth);
    }

    #[test]
    fn with_nothing_under_way_there_is_nothing_to_wait_for() {
        let mut grace = Grace::default();
        for _ in 0..5 {
            let asked = grace.ask();
            assert!(grace.has_passed(asked));
        }
    }
}
