//! Which requests belong to a stream: those that begin where another of their direction ended.

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::layout::{CoreId, Span};

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the user.
    Read,
    /// From the user.
    Write,
}

/// Runs of requests that follow each other, by core, direction and where the next one would begin. Costs one look-up
/// and one insertion a request.
#[derive(Debug)]
pub(crate) struct Streams {
    runs: FxHashMap<(CoreId, Direction, u64), Run>,
    /// Runs that are remembered whatever comes.
    runs_min: usize,
    turn: u64,
}

/// What is known of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    /// Bytes so far.
    pub(crate) bytes: u64,
    /// The sector up to which it was read ahead, if it was; 0 if not.
    pub(crate) ahead: u64,
    /// When it was last continued.
    turn: u64,
}

impl Streams {
    /// One that remembers the `runs` that were continued last, and up to twice as many.
    pub(crate) fn remembering(runs: usize) -> Self {
        assert!(runs > 0, "a run is remembered until its next request");
        let held = FxHashMap::with_capacity_and_hasher(2 * runs, FxBuildHasher);
        Self { runs: held, runs_min: runs, turn: 0 }
    }

    /// Bytes of the run that a request goes on with: 0 where nothing ended that is remembered.
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

    /// The run of a request that was seen and that none has gone on with.
    pub(crate) fn run_mut(&mut self, span: Span, direction: Direction) -> Option<&mut Run> {
        self.runs.get_mut(&(span.core, direction, span.end()))
    }

    /// In halves, so that a request need not look for the oldest.
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
            // Full already, of others.
            (0..127)
                .for_each(|other| _ = saw(&mut streams, Direction::Read, (1 << 40) + other * 64));
            saw(&mut streams, Direction::Read, 0);
            (0..others)
                .for_each(|other| _ = saw(&mut streams, Direction::Read, (1 << 30) + other * 64));
            assert_eq!(saw(&mut streams, Direction::Read, 8) > 0, is_remembered, "{others}");
        }
    }
}
