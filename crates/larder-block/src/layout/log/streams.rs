//! Which writes belong to a stream: those that begin where another ended, several times.

use std::collections::HashMap;

use crate::layout::{CoreId, Span};

/// Bytes that a run of writes must have before it counts as a stream.
const STREAM_BYTES: u64 = 128 << 10;
/// Runs that are remembered.
const RUNS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Streams {
    /// By where the next write would begin: bytes so far, and when it was last continued.
    runs: HashMap<(CoreId, u64), (u64, u64)>,
    turn: u64,
}

impl Streams {
    /// Whether a write is part of a stream.
    pub(super) fn saw(&mut self, span: Span) -> bool {
        self.turn += 1;
        let before = self.runs.remove(&(span.core, span.first)).map_or(0, |(bytes, _)| bytes);
        if self.runs.len() >= RUNS_MAX {
            self.forget_older_half();
        }
        let bytes = before + span.bytes() as u64;
        self.runs.insert((span.core, span.end()), (bytes, self.turn));
        before >= STREAM_BYTES
    }

    fn forget_older_half(&mut self) {
        let mut turns: Vec<u64> = self.runs.values().map(|(_, turn)| *turn).collect();
        let middle = turns.len() / 2;
        let (_, &mut median, _) = turns.select_nth_unstable(middle);
        self.runs.retain(|_, (_, turn)| *turn >= median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(streams: &mut Streams, first: u64) -> bool {
        streams.saw(Span { core: CoreId::new(0).unwrap(), first, sectors: 8 })
    }

    #[test]
    fn two_streams_side_by_side_are_seen_and_random_writes_are_none() {
        let mut streams = Streams::default();
        let mut rng = fastrand::Rng::with_seed(1);
        for number in 0..100 {
            let is_stream = number >= 32; // 128 KiB of 4 KiB each
            assert_eq!(write(&mut streams, number * 8), is_stream);
            assert_eq!(write(&mut streams, (1 << 30) + number * 8), is_stream);
            assert!(!write(&mut streams, (1 << 31) + rng.u64(0..1 << 20) * 8));
        }
    }
}
