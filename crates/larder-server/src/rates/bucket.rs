//! A token bucket that all threads share. Its state is one number: the time at which it is full again if no thread
//! takes more.

use std::sync::atomic::{AtomicU64, Ordering};

/// At the full rate, threads take at most this number of lots a second. So they rarely write the shared cache line.
const LOTS_A_SECOND: u64 = 128;
/// Most debt, as the time to pay it off. Beyond that it is forgiven, so that a tenant with long values and a small rate
/// is not shut out.
const DEBT_MAX_NS: u64 = 60 * NS;
const NS: u64 = 1_000_000_000;

/// A token bucket. Times are nanoseconds of one clock.
#[derive(Default)]
pub(super) struct Bucket {
    /// Tokens a second; 0: no limit.
    rate: AtomicU64,
    /// How long an empty bucket takes to fill.
    burst_ns: AtomicU64,
    full_at: Line,
}

/// The cache line that threads write; nothing that they only read shares it.
#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

impl Bucket {
    /// Sets the rate and the burst.
    pub(super) fn set(&self, rate: u64, burst_ns: u64) {
        self.rate.store(rate, Ordering::Relaxed);
        // The bucket holds at least one lot, and at least one token; otherwise a request could never be met.
        let lot_ns = if rate == 0 { 0 } else { cost_ns(self.lot(), rate) };
        self.burst_ns.store(burst_ns.max(lot_ns), Ordering::Relaxed);
    }

    pub(super) fn has_limit(&self) -> bool {
        self.rate.load(Ordering::Relaxed) > 0
    }

    /// How many tokens a thread takes at a time.
    pub(super) fn lot(&self) -> u64 {
        (self.rate.load(Ordering::Relaxed) / LOTS_A_SECOND).max(1)
    }

    /// Takes `tokens` if they are there within `wait_max_ns`. Returns the time when they are.
    pub(super) fn take(&self, tokens: u64, now_ns: u64, wait_max_ns: u64) -> Option<u64> {
        let (cost_ns, burst_ns) = self.cost_and_burst(tokens);
        let latest_ns = now_ns.saturating_add(burst_ns).saturating_add(wait_max_ns);
        let after = |full_at: u64| full_at.max(now_ns).saturating_add(cost_ns);
        let taken = self.full_at.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            Some(after(full_at)).filter(|after| *after <= latest_ns)
        });
        taken.ok().map(|before| after(before).saturating_sub(burst_ns))
    }

    /// Takes `tokens` that were used already. Returns the time when they are there.
    pub(super) fn spend(&self, tokens: u64, now_ns: u64) -> u64 {
        let (cost_ns, burst_ns) = self.cost_and_burst(tokens);
        let latest_ns = now_ns.saturating_add(burst_ns).saturating_add(DEBT_MAX_NS);
        let after = |full_at: u64| full_at.max(now_ns).saturating_add(cost_ns).min(latest_ns);
        let before = self.full_at.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            Some(after(full_at).max(full_at))
        });
        let before = before.unwrap_or_else(|before| before);
        after(before).saturating_sub(burst_ns)
    }

    fn cost_and_burst(&self, tokens: u64) -> (u64, u64) {
        let rate = self.rate.load(Ordering::Relaxed).max(1);
        (cost_ns(tokens, rate), self.burst_ns.load(Ordering::Relaxed))
    }
}

/// How long the bucket takes to produce `tokens`.
fn cost_ns(tokens: u64, rate: u64) -> u64 {
    let cost = u128::from(tokens) * u128::from(NS) / u128::from(rate);
    u64::try_from(cost).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(rate: u64, burst_ns: u64) -> Bucket {
        let bucket = Bucket::default();
        bucket.set(rate, burst_ns);
        bucket
    }

    #[test]
    fn a_burst_comes_at_once_and_then_what_the_rate_brings() {
        let bucket = bucket(10, NS);
        let begin = 5 * NS;
        for _ in 0..10 {
            assert!(bucket.take(1, begin, 0).is_some_and(|at| at <= begin));
        }
        assert_eq!(bucket.take(1, begin, 0), None);
        assert_eq!(bucket.take(1, begin, NS / 10), Some(begin + NS / 10), "the waiter is next");
        assert_eq!(bucket.take(1, begin, NS / 10), None, "and others behind it");
        assert!(bucket.take(2, begin + 3 * NS / 10, 0).is_some());
        assert_eq!(bucket.take(1, begin + 3 * NS / 10, 0), None);
        // Not more than the burst is saved up.
        let later = begin + 100 * NS;
        assert!(bucket.take(10, later, 0).is_some());
        assert_eq!(bucket.take(1, later, 0), None);
    }

    #[test]
    fn in_any_time_there_is_the_rate_and_the_burst() {
        let bucket = bucket(1000, NS / 2);
        let taken = (0..10_000).filter(|ms| {
            let now_ns = ms * NS / 1000;
            (0..3).filter(|_| bucket.take(1, now_ns, 0).is_some()).count() > 0
        });
        let first: usize = taken.count();
        assert_eq!(first, 10_000, "one a millisecond is the rate");
        let more = (0..600).filter(|_| bucket.take(1, 10 * NS, 0).is_some()).count();
        assert!(more <= 500, "{more}");
    }

    #[test]
    fn what_was_spent_is_waited_for_but_not_for_ever() {
        let bucket = bucket(1000, NS);
        assert_eq!(bucket.spend(3000, 0), 2 * NS);
        assert_eq!(bucket.take(1, NS, NS / 2), None);
        assert!(bucket.take(1, 2 * NS + NS / 1000, 0).is_some());
        assert_eq!(bucket.spend(u64::MAX, 10 * NS), 70 * NS);
        assert_eq!(bucket.spend(u64::MAX, 10 * NS), 70 * NS, "it grows no further");
    }

    #[test]
    fn a_rate_below_one_burst_has_a_token() {
        let bucket = bucket(1, 0);
        assert!(bucket.take(1, 0, 0).is_some());
        assert_eq!(bucket.take(1, NS / 2, 0), None);
        assert!(bucket.take(1, NS, 0).is_some());
    }
}
