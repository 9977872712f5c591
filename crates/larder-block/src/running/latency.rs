//! How long requests take: from when a cache is asked until it answers, whatever they were held back or waited for
//! between. By what was asked, and for reads by who had the data. One that fails counts too.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Digits that a latency is told to.
const DIGITS: u8 = 2;
const HOUR_NS: u64 = 3_600_000_000_000;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Trim,
    Flush,
    Destage,
}

impl Operation {
    /// As failures call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::Destage => "destaging",
        }
    }
}

/// What is timed. Trims and writes of zeros that go to the cache in pieces are timed by the piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timed {
    /// A read that needed no core.
    CacheRead,
    /// A read that a core has served, all of it or a part.
    CoreRead,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A trim.
    Trim,
}

impl Timed {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::CacheRead, Self::CoreRead, Self::Write, Self::Flush, Self::Trim];

    /// What was asked, in reports.
    pub fn operation(self) -> &'static str {
        match self {
            Self::CacheRead | Self::CoreRead => Operation::Read,
            Self::Write => Operation::Write,
            Self::Flush => Operation::Flush,
            Self::Trim => Operation::Trim,
        }
        .name()
    }

    /// Of reads, who had the data.
    pub fn served_by(self) -> Option<&'static str> {
        match self {
            Self::CacheRead => Some("cache"),
            Self::CoreRead => Some("core"),
            Self::Write | Self::Flush | Self::Trim => None,
        }
    }

    /// `None` of what nobody waits for by the request.
    pub(super) fn of(operation: Operation, needed_core: bool) -> Option<Self> {
        match operation {
            Operation::Read if needed_core => Some(Self::CoreRead),
            Operation::Read => Some(Self::CacheRead),
            Operation::Write => Some(Self::Write),
            Operation::Flush => Some(Self::Flush),
            Operation::Trim => Some(Self::Trim),
            Operation::Destage => None,
        }
    }
}

/// How long requests of one kind took: up to an hour, told to a hundredth.
#[derive(Clone, Debug)]
pub struct Latency {
    counts: Histogram<u64>,
    sum: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        let empty = Histogram::new_with_bounds(1, HOUR_NS, DIGITS);
        Self { counts: empty.expect("bounds and digits that there are"), sum: Duration::ZERO }
    }
}

impl Latency {
    fn record(&mut self, took: Duration) {
        self.counts.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.sum = self.sum.saturating_add(took);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// How long all of them took together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// What this share of them did not exceed, 0 to 1; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        (!self.counts.is_empty())
            .then(|| Duration::from_nanos(self.counts.value_at_quantile(share)))
    }

    /// The longest; `None` if there are none.
    pub fn longest(&self) -> Option<Duration> {
        (!self.counts.is_empty()).then(|| Duration::from_nanos(self.counts.max()))
    }

    /// How many took so long at most, by the same hundredth.
    pub fn within(&self, most: Duration) -> u64 {
        self.counts.count_between(0, u64::try_from(most.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// How long all requests took. Nothing is timed without a clock
/// ([`RunningCache::set_clock`](super::RunningCache::set_clock)).
#[derive(Clone, Debug, Default)]
pub struct Latencies([Latency; Timed::ALL.len()]);

impl Latencies {
    /// Those of one kind.
    pub fn of(&self, timed: Timed) -> &Latency {
        &self.0[timed as usize]
    }

    pub(super) fn record(&mut self, timed: Timed, took: Duration) {
        self.0[timed as usize].record(took);
    }
}
