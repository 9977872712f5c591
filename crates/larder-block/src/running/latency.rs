//! Latencies of requests: from the submission to the cache until its answer, including all time spent held back or
//! waiting. Grouped by operation, and for reads also by the device that had the data. Failed requests count too.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Significant digits of a recorded latency.
const DIGITS: u8 = 2;
const HOUR_NS: u64 = 3_600_000_000_000;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Trim,
    Flush,
    Destage,
}

impl Operation {
    /// Its name in error messages.
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

/// A kind of request that is timed. Trims and writes of zeros that go to the cache in pieces are timed per piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LatencyKind {
    /// A read that needed no core.
    CacheRead,
    /// A read that a core served, at least in part.
    CoreRead,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A trim.
    Trim,
}

impl LatencyKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::CacheRead, Self::CoreRead, Self::Write, Self::Flush, Self::Trim];

    /// The name of the operation in reports.
    pub fn operation(self) -> &'static str {
        match self {
            Self::CacheRead | Self::CoreRead => Operation::Read,
            Self::Write => Operation::Write,
            Self::Flush => Operation::Flush,
            Self::Trim => Operation::Trim,
        }
        .name()
    }

    /// Of reads: the device that had the data.
    pub fn served_by(self) -> Option<&'static str> {
        match self {
            Self::CacheRead => Some("cache"),
            Self::CoreRead => Some("core"),
            Self::Write | Self::Flush | Self::Trim => None,
        }
    }

    /// `None` for operations whose latency no client sees.
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

/// Latencies of one kind of request: up to an hour, with a resolution of one hundredth.
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

    /// The number of requests.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The sum of all latencies.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The latency that this share of the requests (0 to 1) did not exceed; `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        (!self.counts.is_empty())
            .then(|| Duration::from_nanos(self.counts.value_at_quantile(share)))
    }

    /// The longest latency; `None` if there are none.
    pub fn longest(&self) -> Option<Duration> {
        (!self.counts.is_empty()).then(|| Duration::from_nanos(self.counts.max()))
    }

    /// The number of requests that took at most `most`, with the same resolution of one hundredth.
    pub fn within(&self, most: Duration) -> u64 {
        self.counts.count_between(0, u64::try_from(most.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Latencies of all requests. Nothing is timed without a clock
/// ([`RunningCache::set_clock`](super::RunningCache::set_clock)).
#[derive(Clone, Debug, Default)]
pub struct Latencies([Latency; LatencyKind::ALL.len()]);

impl Latencies {
    /// The latencies of one kind.
    pub fn of(&self, timed: LatencyKind) -> &Latency {
        &self.0[timed as usize]
    }

    pub(super) fn record(&mut self, timed: LatencyKind, took: Duration) {
        self.0[timed as usize].record(took);
    }
}
