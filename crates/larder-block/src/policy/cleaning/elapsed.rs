//! Elapsed time, measured by a clock that may be set.

use std::time::Duration;

/// Longest step: the longest time that anything waits for. A longer step means that the clock was set, not that time
/// passed.
const STEP_MAX: Duration = Duration::from_secs(3600);

/// The elapsed time. Never runs back.
#[derive(Debug)]
pub(super) struct Elapsed {
    last: Option<Duration>,
    elapsed: Duration,
}

impl Elapsed {
    /// Starts with `elapsed` already elapsed.
    pub(super) fn from(elapsed: Duration) -> Self {
        Self { last: None, elapsed }
    }

    /// The elapsed time when the clock shows `now`.
    pub(super) fn at(&mut self, now: Duration) -> Duration {
        // If the clock was set back, continue from there.
        let step = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        self.last = Some(now);
        self.elapsed += step.min(STEP_MAX);
        self.elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_whatever_the_clock_is_set_to() {
        let seconds = Duration::from_secs;
        let mut elapsed = Elapsed::from(seconds(5));
        assert_eq!(elapsed.at(seconds(1_000_000)), seconds(5), "where it begins says nothing");
        assert_eq!(elapsed.at(seconds(1_000_010)), seconds(15));
        assert_eq!(elapsed.at(seconds(3)), seconds(15));
        assert_eq!(elapsed.at(seconds(4)), seconds(16), "it goes on from there");
        assert_eq!(elapsed.at(Duration::MAX), seconds(16 + 3600));
        assert_eq!(elapsed.at(seconds(4)), seconds(16 + 3600));
    }
}
