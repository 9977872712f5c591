//! When to try again after a failure: each wait is twice as long as the one before.

/// The first wait and the longest wait, in seconds.
const BACKOFF_S_MIN: u32 = 1;
const BACKOFF_S_MAX: u32 = 64;

/// Exponential back-off, from 1 to 64 seconds. A new one is due.
///
/// ```
/// let mut backoff = larder_log::Backoff::default();
/// backoff.failed(1000);
/// assert!(!backoff.is_due(1000) && backoff.is_due(1001));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backoff {
    due_s: u32,
    /// Length of the last wait; 0 if nothing has failed.
    waited_s: u32,
}

impl Backoff {
    /// Whether it is time for another try.
    pub fn is_due(&self, now_s: u32) -> bool {
        now_s >= self.due_s
    }

    /// Notes that a try failed in this second.
    pub fn failed(&mut self, now_s: u32) {
        self.waited_s = (self.waited_s * 2).clamp(BACKOFF_S_MIN, BACKOFF_S_MAX);
        self.due_s = now_s.saturating_add(self.waited_s);
        debug_assert!(!self.is_due(now_s) || self.due_s == u32::MAX, "it waits at least a second");
    }

    /// Length of the last wait, in seconds; 0 if nothing has failed.
    pub fn waited_s(&self) -> u32 {
        self.waited_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_up_to_a_minute() {
        let mut backoff = Backoff::default();
        assert!(backoff.is_due(0));
        let mut now_s = 1000;
        for wait_s in [1, 2, 4, 8, 16, 32, 64, 64] {
            backoff.failed(now_s);
            assert!(!backoff.is_due(now_s + wait_s - 1) && backoff.is_due(now_s + wait_s));
            now_s += wait_s;
        }
    }
}
