//! Latencies of calls, by operation and by the tier that answered. The histograms have four buckets for each power of
//! two of nanoseconds, so a quantile is at most a quarter too high.
//!
//! A thread records with two additions in its own stripe, without a lock. Time is
//! [`Clock::monotonic`](larder_device::Clock::monotonic) of the cache's clock. Without
//! [`Config::latency_histograms`](crate::Config::latency_histograms) the clock is not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_device::Clock;

use crate::base::sync::{STRIPES, stripe};

/// The first bucket ends at 2^7 ns, the last but one at 2^36 ns, 69 s.
const FIRST_OCTAVE: u32 = 7;
const OCTAVES: usize = 29;
const PER_OCTAVE: usize = 4;
const BUCKETS: usize = 1 + OCTAVES * PER_OCTAVE + 1;

/// What is measured: the operation and the tier that answered, if one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimedCall {
    GetDram,
    GetFlash,
    GetMiss,
    Set,
    Delete,
    Fetch,
}

const NAMES: [(&str, Option<&str>); 6] = [
    ("get", Some("dram")),
    ("get", Some("flash")),
    ("get", Some("miss")),
    ("set", None),
    ("delete", None),
    ("fetch", None),
];

/// Latencies of one kind of call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// `get`, `set`, `delete` or `fetch`.
    pub operation: &'static str,
    /// The tier that answered a `get`: `dram`, `flash` or `miss`.
    pub tier: Option<&'static str>,
    /// The latencies.
    pub histogram: Histogram,
}

/// A histogram of latencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<u64>,
    sum_ns: u64,
}

impl Histogram {
    /// Number of calls.
    ///
    /// ```
    /// assert_eq!(larder::Stats::default().latencies.len(), 0, "they are off");
    /// # let histogram = larder::Histogram::default();
    /// assert_eq!(histogram.count(), 0);
    /// ```
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Total time of all calls.
    ///
    /// ```
    /// # let histogram = larder::Histogram::default();
    /// assert_eq!(histogram.sum(), std::time::Duration::ZERO);
    /// ```
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// The time within which this share (0 to 1) of the calls ended: at most a quarter too high. `None` without
    /// calls. Longer than 69 s is reported as 69 s.
    ///
    /// ```
    /// # let histogram = larder::Histogram::default();
    /// assert_eq!(histogram.quantile(0.99), None);
    /// ```
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    #[allow(clippy::cast_sign_loss)] // the conversion saturates
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let at = self.buckets.iter().position(|calls| {
            seen += calls;
            seen >= rank
        })?;
        Some(Duration::from_nanos(bound_ns(at.min(BUCKETS - 2))))
    }

    /// The buckets with calls, ascending: the upper bound of each in nanoseconds, and its number of calls. The
    /// difference of two such lists covers the time between them. Longer than 69 s is reported as 69 s.
    ///
    /// ```
    /// # let histogram = larder::Histogram::default();
    /// assert_eq!(histogram.buckets().count(), 0);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let numbered = self.buckets.iter().enumerate().filter(|(_, calls)| **calls > 0);
        numbered.map(|(at, calls)| (bound_ns(at.min(BUCKETS - 2)), *calls))
    }

    /// For each power of two of nanoseconds: the bound, and the number of calls that took at most that long.
    pub(crate) fn octaves(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..=OCTAVES).map(|octave| {
            let last = octave * PER_OCTAVE;
            (bound_ns(last), self.buckets[..=last].iter().sum())
        })
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, more)| *sum += more);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], sum_ns: 0 }
    }
}

/// The bucket of a latency: it is at most the bucket's bound, and more than the bound of the bucket before.
fn bucket_of(ns: u64) -> usize {
    let below = ns.saturating_sub(1);
    let Some(octave) = below.checked_ilog2().filter(|octave| *octave >= FIRST_OCTAVE) else {
        return 0;
    };
    let quarter = usize::try_from(below >> (octave - 2) & 3).unwrap_or(0);
    let octave = (octave - FIRST_OCTAVE) as usize;
    (1 + octave * PER_OCTAVE + quarter).min(BUCKETS - 1)
}

/// Upper bound of a bucket.
fn bound_ns(bucket: usize) -> u64 {
    let Some(behind) = bucket.checked_sub(1) else { return 1 << FIRST_OCTAVE };
    let (octave, quarter) = (behind / PER_OCTAVE, behind % PER_OCTAVE);
    (5 + quarter as u64) << (FIRST_OCTAVE as usize + octave - 2)
}

#[repr(align(64))]
struct LatencyStripe {
    buckets: [[AtomicU64; BUCKETS]; NAMES.len()],
    sums_ns: [AtomicU64; NAMES.len()],
}

/// Measures latencies, if that is configured.
pub(crate) struct Stopwatch(Option<Box<Running>>);

struct Running {
    clock: Arc<dyn Clock>,
    stripes: Vec<LatencyStripe>,
}

/// Start time of a call; `None` if latencies are not measured.
#[derive(Clone, Copy)]
pub(crate) struct CallStart(Option<Duration>);

impl Stopwatch {
    pub(crate) fn new(wanted: bool, clock: Arc<dyn Clock>) -> Self {
        let stripe = |_| LatencyStripe {
            buckets: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            sums_ns: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        let running = || Box::new(Running { clock, stripes: (0..STRIPES).map(stripe).collect() });
        Self(wanted.then(running))
    }

    #[inline]
    pub(crate) fn begin(&self) -> CallStart {
        CallStart(self.0.as_ref().map(|running| running.clock.monotonic()))
    }

    #[inline]
    pub(crate) fn end(&self, begun: CallStart, what: TimedCall) {
        if let (Some(running), CallStart(Some(began))) = (&self.0, begun) {
            running.record(what, running.clock.monotonic().saturating_sub(began));
        }
    }

    pub(crate) fn latencies(&self) -> Vec<Latency> {
        let Some(running) = &self.0 else { return Vec::new() };
        let named = NAMES.into_iter().enumerate();
        let latency = named.map(|(at, (operation, tier))| {
            let mut histogram = Histogram::default();
            for stripe in &running.stripes {
                for (sum, calls) in histogram.buckets.iter_mut().zip(&stripe.buckets[at]) {
                    *sum += calls.load(Ordering::Relaxed);
                }
                histogram.sum_ns += stripe.sums_ns[at].load(Ordering::Relaxed);
            }
            Latency { operation, tier, histogram }
        });
        latency.collect()
    }
}

impl Running {
    fn record(&self, what: TimedCall, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let stripe = &self.stripes[stripe()];
        stripe.buckets[what as usize][bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
        stripe.sums_ns[what as usize].fetch_add(ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Larder, block_on};

    /// Each reading takes a millisecond.
    #[derive(Default)]
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn now(&self) -> Duration {
            Duration::from_secs(1000)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    #[test]
    fn a_bucket_holds_what_is_at_most_its_bound() {
        for bucket in 0..BUCKETS - 1 {
            let bound = bound_ns(bucket);
            assert_eq!((bucket_of(bound), bucket_of(bound + 1)), (bucket, bucket + 1), "{bound}");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
        assert_eq!(bound_ns(BUCKETS - 2), 1 << 36);
    }

    #[test]
    fn quantiles_are_at_most_a_fourth_too_high() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|n| histogram.buckets[bucket_of(n * 1000)] += 1);
        for (share, exact_us) in [(0.0, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let told = histogram.quantile(share).unwrap().as_nanos();
            assert!((exact_us * 1000..=exact_us * 1250).contains(&told), "{share}: {told}");
        }
        assert_eq!(histogram.octaves().last(), Some((1 << 36, 1000)));
        let (bounds, calls): (Vec<u64>, Vec<u64>) = histogram.buckets().unzip();
        assert!(bounds.is_sorted() && !calls.contains(&0));
        assert_eq!((bounds[0], calls[0], calls.iter().sum::<u64>()), (1024, 1, 1000));
    }

    fn used(latency_histograms: bool) -> (Vec<Latency>, u64, String) {
        let clock = Arc::new(Ticking::default());
        let config = Config { latency_histograms, ..Config::default() };
        let cache = block_on(Larder::open(config, None, Arc::clone(&clock) as _)).unwrap();
        block_on(cache.set(b"a", b"1", None)).unwrap();
        block_on(cache.get(b"a")).unwrap();
        cache.blocking().get(b"a").unwrap();
        block_on(cache.get(b"b")).unwrap();
        block_on(cache.delete(b"a")).unwrap();
        let fetched =
            cache.get_or_fetch(b"c", Default::default(), async || Ok::<_, String>(vec![1]));
        block_on(fetched).unwrap();
        let stats = cache.stats();
        let (text, looks) = (stats.open_metrics().to_string(), clock.0.load(Ordering::Relaxed));
        (stats.latencies, looks, text)
    }

    #[test]
    fn each_call_is_timed_once_and_none_without_histograms() {
        let (latencies, _, text) = used(true);
        let counts: Vec<_> = latencies.iter().map(|it| it.histogram.count()).collect();
        assert_eq!(counts, [2, 0, 2, 1, 1, 1]);
        let hits = &latencies[0].histogram;
        assert_eq!(hits.sum(), Duration::from_millis(2));
        assert!(hits.quantile(0.5).unwrap() >= Duration::from_millis(1));
        let hit = "{operation=\"get\",tier=\"dram\"";
        assert!(text.contains(&format!("larder_latency_seconds_bucket{hit},le=\"+Inf\"}} 2\n")));
        assert!(text.contains(&format!("larder_latency_seconds_count{hit}}} 2\n")));
        assert!(text.contains(&format!("larder_latency_seconds_sum{hit}}} 0.002\n")));

        let (latencies, looks, text) = used(false);
        assert!(latencies.is_empty() && !text.contains("latency"));
        assert_eq!(looks, 0, "no look at the clock");
    }
}
