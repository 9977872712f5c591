//! Detects sequential streams: requests that begin where an earlier request in the same direction ended.

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::span::{CoreId, Span};

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the cache to the client.
    Read,
    /// From the client to the cache.
    Write,
}

/// Runs of consecutive requests, keyed by core, direction and the sector at which the next request would begin. Costs
/// one look-up and one insertion per request.
#[derive(Debug)]
pub(crate) struct Streams {
    runs: FxHashMap<(CoreId, Direction, u64), Run>,
    /// The number of most recent runs that are always remembered.
    runs_min: usize,
    turn: u64,
}

/// The state of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    /// Bytes of the run up to now.
    pub(crate) bytes: u64,
    /// The sector up to which the run was read ahead; 0 if it was not read ahead.
    pub(crate) ahead: u64,
    /// The turn in which the run was last continued.
    turn: u64,
}

impl Streams {
    /// Remembers the `runs` most recently continued runs, and up to twice that number.
    pub(crate) fn remembering(runs: usize) -> Self {
        assert!(runs > 0, "a run is remembered until its next request");
        let held = FxHashMap::with_capacity_and_hasher(2 * runs, FxBuildHasher);
        Self { runs: held, runs_min: runs, turn: 0 }
    }

    /// Records a request. Returns the bytes of the run that it continues, or 0 if it continues no remembered run.
    pub(crate) fn saw(&mut self, span: Span, direction: Direction) -> u64 {
        self.turn += 1;
        let before = self.runs.remove(&(span.core, direction, span.first)).unwrap_or_default();
        if self.runs.len() >= 2 * self.runs_min {
            self.forget_older_half();
        }
        let bytes = before.bytes.saturating_add(span.bytes() as u64);
        let run = Run { bytes, turn: self.turn, ..before };
        self.runs.insert((span.core, direction, span.end()), run);
        before.bytes
    }

    /// The run that ends with this request, if no later request has continued it.
    pub(crate) fn run_mut(&mut self, span: Span, direction: Direction) -> Option<&mut Run> {
        self.runs.get_mut(&(span.core, direction, span.end()))
    }

    /// Forgets half of the runs at once, so that no request has to search for the oldest run.
    fn forget_older_half(&mut self) {
        let mut turns: Vec<u64> = self.runs.values().map(|run| run.turn).collect();
        let middle = turns.len() / 2;
        let (_, &mut median, _) = turns.select_nth_unstable(middle);
        self.runs.retain(|_, run| run.turn >= median);
        debug_assert!(self.runs.len() >= self.runs_min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saw(streams: &mut Streams, direction: Direction, first: u64) -> u64 {
        streams.saw(Span { core: CoreId::new(0).unwrap(), first, sectors: 8 }, direction)
    }

    #[test]
    fn two_streams_side_by_side_are_seen_and_random_writes_are_none() {
        let mut streams = Streams::remembering(128);
        let mut rng = fastrand::Rng::with_seed(1);
        for number in 0..100 {
            assert_eq!(saw(&mut streams, Direction::Write, number * 8), number * 4096);
            assert_eq!(saw(&mut streams, Direction::Write, (1 << 30) + number * 8), number * 4096);
            let random = (1 << 31) + rng.u64(0..1 << 20) * 8;
            assert_eq!(saw(&mut streams, Direction::Write, random), 0);
        }
    }

    #[test]
    fn reads_do_not_go_on_with_writes() {
        let mut streams = Streams::remembering(4);
        assert_eq!(saw(&mut streams, Direction::Write, 0), 0);
        assert_eq!(saw(&mut streams, Direction::Read, 8), 0);
        assert_eq!(saw(&mut streams, Direction::Write, 8), 4096);
        assert_eq!(saw(&mut streams, Direction::Read, 16), 4096);
    }

    #[test]
    fn a_run_keeps_how_far_it_was_read_ahead() {
        let mut streams = Streams::remembering(4);
        let span = |first| Span { core: CoreId::new(0).unwrap(), first, sectors: 8 };
        saw(&mut streams, Direction::Read, 0);
        streams.run_mut(span(0), Direction::Read).unwrap().ahead = 64;
        assert!(streams.run_mut(span(0), Direction::Write).is_none());
        saw(&mut streams, Direction::Read, 8);
        assert!(streams.run_mut(span(0), Direction::Read).is_none(), "another has gone on with it");
        let run = *streams.run_mut(span(8), Direction::Read).unwrap();
        assert_eq!((run.bytes, run.ahead), (8192, 64));
    }

    #[test]
    fn the_newest_are_remembered_and_the_oldest_are_not() {
        for (others, is_remembered) in [(63, true), (128, false)] {
            let mut streams = Streams::remembering(64);
            // 127 runs of others fill the list.
            (0..127)
                .for_each(|other| _ = saw(&mut streams, Direction::Read, (1 << 40) + other * 64));
            saw(&mut streams, Direction::Read, 0);
            (0..others)
                .for_each(|other| _ = saw(&mut streams, Direction::Read, (1 << 30) + other * 64));
            assert_eq!(saw(&mut streams, Direction::Read, 8) > 0, is_remembered, "{others}");
        }
    }
}
