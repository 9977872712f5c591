//! The clock of a trace: turns its times into seconds since the first request.

/// Turns times of a trace into seconds since its first request. Never steps back.
#[derive(Debug, Default)]
pub(super) struct TraceClock {
    first: Option<u64>,
    last_s: u32,
}

impl TraceClock {
    /// Seconds since the first request at time `time`, at most [`u32::MAX`].
    pub(super) fn seconds(&mut self, time: u64) -> u32 {
        let since = time.saturating_sub(*self.first.get_or_insert(time));
        self.last_s = self.last_s.max(u32::try_from(since).unwrap_or(u32::MAX));
        self.last_s
    }
}

#[cfg(test)]
mod tests {
    use super::TraceClock;

    #[test]
    fn starts_at_zero_and_never_steps_back() {
        let mut clock = TraceClock::default();
        assert_eq!([100, 105, 103, 99, u64::MAX].map(|t| clock.seconds(t)), [0, 5, 5, 5, u32::MAX]);
    }
}
