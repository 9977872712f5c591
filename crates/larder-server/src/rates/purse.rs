//! A worker's stock of a tenant's tokens. The worker takes them in lots, and spends them without touching shared state.

use std::cell::Cell;
use std::time::Duration;

use super::Rates;
use super::bucket::Bucket;

/// Longest delay of a request.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(1);

/// A worker's stock of a tenant's tokens.
#[derive(Default)]
pub(crate) struct Purse {
    requests: Lot,
    bytes: Lot,
}

/// Tokens of one kind.
#[derive(Default)]
struct Lot {
    left: Cell<u64>,
    /// When they are there.
    at_ns: Cell<u64>,
}

/// When a request may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Now,
    /// At this time; its token is taken already.
    At(Duration),
    /// Not within the longest delay.
    Never,
}

impl Purse {
    /// When the next request of the tenant may begin.
    pub(crate) fn admit(&self, rates: &Rates, now: Duration) -> Admission {
        let now_ns = nanoseconds(now);
        let wait_max_ns = if rates.refuses_at_once() { 0 } else { nanoseconds(DELAY_MAX) };
        let bytes_at = if rates.bytes.has_limit() { self.bytes.at_ns.get() } else { 0 };
        if bytes_at > now_ns.saturating_add(wait_max_ns) {
            return Admission::Never;
        }
        let requests_at = match rates.requests.has_limit() {
            false => Some(0),
            true => self.requests.take_one(&rates.requests, now_ns, wait_max_ns),
        };
        match requests_at.map(|at| at.max(bytes_at)) {
            None => Admission::Never,
            Some(at) if at <= now_ns => Admission::Now,
            Some(at) => Admission::At(Duration::from_nanos(at)),
        }
    }

    /// Charges bytes that were received or sent.
    pub(crate) fn spend_bytes(&self, rates: &Rates, bytes: u64, now: impl FnOnce() -> Duration) {
        if rates.bytes.has_limit() {
            self.bytes.spend(&rates.bytes, bytes, now);
        }
    }
}

impl Lot {
    fn take_one(&self, bucket: &Bucket, now_ns: u64, wait_max_ns: u64) -> Option<u64> {
        if self.left.get() == 0 {
            let lot = bucket.lot();
            self.at_ns.set(bucket.take(lot, now_ns, wait_max_ns)?);
            self.left.set(lot);
        }
        self.left.set(self.left.get() - 1);
        Some(self.at_ns.get())
    }

    fn spend(&self, bucket: &Bucket, tokens: u64, now: impl FnOnce() -> Duration) {
        let missing = tokens.saturating_sub(self.left.get());
        if missing == 0 {
            return self.left.set(self.left.get() - tokens);
        }
        let taken = missing.max(bucket.lot());
        self.at_ns.set(bucket.spend(taken, nanoseconds(now())));
        self.left.set(taken - missing);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{OverLimit, TenantPolicy};

    const SECOND: Duration = Duration::from_secs(1);

    fn rates(requests_per_second: u64, bytes_per_second: u64, over_limit: OverLimit) -> Rates {
        let policy = TenantPolicy::new("");
        let policy = TenantPolicy { requests_per_second, bytes_per_second, over_limit, ..policy };
        let rates = Rates::default();
        rates.set(&policy);
        rates
    }

    #[test]
    fn workers_together_keep_to_the_rate() {
        let rates = rates(10_000, 0, OverLimit::Error);
        let purses: [Purse; 4] = Default::default();
        let mut admitted = 0;
        for step in 0..50_000_u64 {
            // Five seconds; one worker asks much more often than the others.
            let now = SECOND * 10 + Duration::from_micros(step * 100);
            for purse in purses.iter().take(if step % 10 == 0 { 4 } else { 1 }) {
                for _ in 0..3 {
                    admitted += u64::from(purse.admit(&rates, now) == Admission::Now);
                }
            }
        }
        // The rate for five seconds, and the burst of one second.
        assert!((59_000..=60_000).contains(&admitted), "{admitted}");
    }

    #[test]
    fn a_delayed_request_gets_its_turn_and_one_that_would_wait_too_long_is_refused() {
        let rates = rates(10, 0, OverLimit::Delay);
        let purse = Purse::default();
        let now = SECOND * 10;
        let all: Vec<Admission> = (0..30).map(|_| purse.admit(&rates, now)).collect();
        assert!(all[..10].iter().all(|it| *it == Admission::Now), "{all:?}");
        for (number, it) in (1..).zip(&all[10..20]) {
            assert_eq!(*it, Admission::At(now + number * SECOND / 10));
        }
        assert!(all[20..].iter().all(|it| *it == Admission::Never), "{all:?}");
        assert_eq!(purse.admit(&rates, now + SECOND * 3), Admission::Now, "it goes on");
    }

    #[test]
    fn bytes_are_paid_for_before_the_next_request() {
        let rates = rates(0, 1000, OverLimit::Delay);
        let purse = Purse::default();
        let now = SECOND * 10;
        assert_eq!(purse.admit(&rates, now), Admission::Now);
        purse.spend_bytes(&rates, 1500, || now);
        assert_eq!(purse.admit(&rates, now), Admission::At(now + SECOND / 2));
        purse.spend_bytes(&rates, 5000, || now);
        assert_eq!(purse.admit(&rates, now), Admission::Never);
        assert_eq!(purse.admit(&rates, now + SECOND * 6), Admission::Now);
    }
}
