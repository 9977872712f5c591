//! The highest rate that a server keeps under a latency limit.

use std::time::Duration;

use serde::Serialize;

use crate::Error;
use crate::run::{Load, Measurement, Pace, Progress, measure};
use crate::target::Target;

/// A rate that was tried.
#[derive(Debug, Clone, Serialize)]
pub struct RateTrial {
    /// Requests a second that were sent.
    pub rate: f64,
    /// Whether the server stayed under the limit.
    pub kept: bool,
    /// The measurement.
    pub measured: Measurement,
}

/// A rate counts as kept only if this part of the requests was answered in time. Otherwise the queue grows, and a
/// longer run would show higher latencies.
const ANSWERED: f64 = 0.98;

/// Tries `tries` rates between 0 and twice the rate of the closed pace: each is the middle of the highest rate that was
/// kept and the lowest that was not.
///
/// # Errors
/// As [`measure`].
pub fn search(
    target: &Target,
    load: &Load,
    (p99, tries): (Duration, usize),
    progress: &Progress,
    mut tell: impl FnMut(&RateTrial),
) -> Result<Vec<RateTrial>, Error> {
    let closed = measure(target, &Load { pace: Pace::Closed, ..load.clone() }, progress)?;
    let (mut kept, mut lost) = (0.0, closed.requests_per_second * 2.0);
    let mut all = Vec::new();
    for number in 0..tries {
        // Begin below what the server can do at all: with open arrivals it can do less.
        let rate = if number == 0 { lost * 0.4 } else { f64::midpoint(kept, lost) };
        let measured = measure(target, &Load { pace: Pace::Open(rate), ..load.clone() }, progress)?;
        if progress.stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        let is_kept = keeps(&measured, rate, p99);
        *if is_kept { &mut kept } else { &mut lost } = rate;
        let tried = RateTrial { rate, kept: is_kept, measured };
        tell(&tried);
        all.push(tried);
    }
    Ok(all)
}

fn keeps(measured: &Measurement, rate: f64, p99: Duration) -> bool {
    let within = measured.p99_us.is_some_and(|p99_us| p99_us <= p99.as_secs_f64() * 1e6);
    within && measured.requests_per_second >= rate * ANSWERED && measured.refused == 0
}

/// The highest rate that was kept.
pub fn highest(tried: &[RateTrial]) -> Option<&RateTrial> {
    tried.iter().filter(|tried| tried.kept).max_by(|a, b| a.rate.total_cmp(&b.rate))
}
