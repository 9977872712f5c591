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
    /// Bytes so far, and when it was last continued.
    runs: FxHashMap<(CoreId, Direction, u64), (u64, u64)>,
    /// Runs that are remembered whatever comes.
    runs_min: usize,
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
        let before =
            self.runs.remove(&(span.core, direction, span.first)).map_or(0, |(bytes, _)| bytes);
        if self.runs.len() >= 2 * self.runs_min {
            self.forget_older_half();
        }
        let bytes = before.saturating_add(span.bytes() as u64);
        self.runs.insert((span.core, direction, span.end()), (bytes, self.turn));
        before
    }

    /// In halves, so that a request need not look for the oldest.
    fn forget_older_half(&mut self) {
        let mut turns: Vec<u64> = self.runs.values().map(|(_, turn)| *turn).collect();
        let middle = turns.len() / 2;
        let (_, &mut median, _) = turns.select_nth_unstable(middle);
        self.runs.retain(|_, (_, turn)| *turn >= median);
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
