//! Detection of sequential streams in a mixed flow of writes, as in drives without FDP.
//!
//! A short table holds the end of each recent stream. A write that starts at such an end continues that stream; once a
//! stream is long enough, its writes count as sequential. A new stream replaces the entry that has been idle for
//! longest. But each random write looks like the start of a stream, so an entry survives as many other writes as its
//! stream has pages, up to a limit.

use super::options::SaveSequential;

/// Upper limit of the writes that a long stream may be idle for longer than others without being dropped.
const REST_WRITES_MAX: u64 = 1024;

#[derive(Debug)]
pub(crate) struct Detector {
    tails: Vec<Tail>,
    pages_min: u64,
    now: u64,
}

#[derive(Debug, Clone, Copy)]
struct Tail {
    /// The page after the last page of the stream.
    next: u64,
    run_pages: u64,
    used: u64,
}

impl Tail {
    fn forgotten_at(self) -> u64 {
        self.used + self.run_pages.min(REST_WRITES_MAX)
    }
}

impl Detector {
    pub(crate) fn new(habit: SaveSequential) -> Self {
        let nowhere = Tail { next: u64::MAX, run_pages: 0, used: 0 };
        Self {
            tails: vec![nowhere; usize::from(habit.streams)],
            pages_min: u64::from(habit.pages_min),
            now: 0,
        }
    }

    /// Whether a write of `pages` pages at `lpn` belongs to a sequential stream. The writes before the stream was
    /// recognised went where random writes go.
    pub(crate) fn is_sequential(&mut self, lpn: u64, pages: u64) -> bool {
        self.now += 1;
        let known = self.tails.iter().position(|tail| tail.next == lpn);
        let oldest = || (0..self.tails.len()).min_by_key(|&i| self.tails[i].forgotten_at());
        let Some(slot) = known.or_else(oldest) else { return false };
        let tail = &mut self.tails[slot];
        let run_before = if known.is_some() { tail.run_pages } else { 0 };
        *tail = Tail { next: lpn + pages, run_pages: run_before + pages, used: self.now };
        tail.run_pages >= self.pages_min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_found_among_random_writes() {
        let mut detector = Detector::new(SaveSequential { streams: 4, pages_min: 12 });
        let mut answers = Vec::new();
        for i in 0..5 {
            answers.push(detector.is_sequential(1000 + i * 4, 4));
            assert!(!detector.is_sequential(i * 7919 % 500, 1));
        }
        assert_eq!(answers, [false, false, true, true, true]);
    }

    #[test]
    fn a_stream_that_rests_too_long_starts_over() {
        let mut detector = Detector::new(SaveSequential { streams: 2, pages_min: 2 });
        assert!(detector.is_sequential(0, 2));
        for lpn in [100, 200, 300, 400] {
            detector.is_sequential(lpn, 1);
        }
        assert!(!detector.is_sequential(2, 1));
    }
}
