//! Limits the number of values of a tier that may be kept without a copy.
//!
//! A kept value pins its whole segment, which the tier cannot reuse until then. So each kept value takes a permit.
//! The number of permits is an eighth of the number of segments. A caller that finds none gets a copy. A value that
//! is only looked at takes none.
//!
//! Every hit that is kept takes a permit and gives it back. So free permits lie in stripes, as pins do: a thread
//! takes from its own stripe and gives back to it. If that is empty, the thread takes half of another stripe. So
//! every free permit can be found, and a thread that only takes and one that only gives back access each other's
//! stripe once for many values. Permits need no memory ordering: nothing is read depending on the counts.
//!
//! When the budget becomes smaller, permits are removed: free ones at once, the others, which are `owed`, when they
//! are given back.

use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{STRIPES, stripe};
use crate::observe::stats::Counter;

/// One permit for this number of segments.
const SEGMENTS_PER_PERMIT: usize = 8;

/// The permits of a tier. Its segments share them, for values that outlive the tier.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    /// Free permits.
    free: [PermitStripe; STRIPES],
    /// Permits to be removed when they are given back. Every thread that gives back reads it, and it hardly ever
    /// changes.
    owed: PermitStripe,
    /// Intended number of permits.
    limit: AtomicUsize,
    /// Values that were copied because no permit was free.
    pub(crate) copied: Counter,
}

/// A number of permits.
#[repr(align(64))]
#[derive(Debug, Default)]
struct PermitStripe(AtomicUsize);

impl Permits {
    /// The permits of a tier of `bytes` bytes.
    pub(crate) fn of_budget(bytes: usize, segment_bytes: usize) -> Self {
        let permits = Self::default();
        permits.follow(bytes, segment_bytes);
        permits
    }

    /// Adjusts the number of permits to a new budget.
    pub(crate) fn follow(&self, budget_bytes: usize, segment_bytes: usize) {
        assert!(segment_bytes > 0, "permits are counted by segments");
        self.set_limit(budget_bytes / segment_bytes / SEGMENTS_PER_PERMIT);
    }

    /// Concurrent changes add up, in any order.
    fn set_limit(&self, limit: usize) {
        let before = self.limit.swap(limit, Ordering::Relaxed);
        let more = limit.saturating_sub(before);
        let paid = self.owed.take(|owed| owed.min(more));
        self.free[stripe()].give(more - paid);
        let mut fewer = before.saturating_sub(limit);
        for stripe in &self.free {
            fewer -= stripe.take(|free| free.min(fewer));
        }
        self.owed.give(fewer);
    }

    /// Takes a permit, if one is free.
    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        let own = &self.free[stripe()];
        own.take(|free| free.min(1)) == 1 || self.take_from_others(own)
    }

    #[cold]
    fn take_from_others(&self, own: &PermitStripe) -> bool {
        self.free.iter().any(|other| {
            let taken = other.take(|free| free.div_ceil(2));
            own.give(taken.saturating_sub(1));
            taken > 0
        })
    }

    /// Gives a permit back, on any thread.
    #[inline]
    pub(crate) fn give_back(&self) {
        if self.owed.take(|owed| owed.min(1)) == 0 {
            self.free[stripe()].give(1);
        }
    }

    /// Intended number of permits.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Number of free permits without those owed. Exact only without concurrent use.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        let free: usize = self.free.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum();
        free - self.owed.0.load(Ordering::Relaxed)
    }
}

impl PermitStripe {
    #[inline]
    fn give(&self, permits: usize) {
        if permits > 0 {
            self.0.fetch_add(permits, Ordering::Relaxed);
        }
    }

    /// Takes a number of free permits that `how_many` computes. Returns that number.
    #[inline]
    fn take(&self, how_many: impl Fn(usize) -> usize) -> usize {
        let mut free = self.0.load(Ordering::Relaxed);
        loop {
            let taken = how_many(free);
            if taken == 0 {
                return 0;
            }
            debug_assert!(taken <= free, "no more is taken than is there");
            let left = free - taken;
            match self.0.compare_exchange_weak(free, left, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return taken,
                Err(now) => free = now,
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    fn take_all(permits: &Permits) -> usize {
        std::iter::from_fn(|| permits.try_take().then_some(())).count()
    }

    #[test]
    fn there_are_an_eighth_as_many_as_segments() {
        let permits = Permits::of_budget(64 << 20, 128 << 10);
        assert_eq!((permits.limit(), take_all(&permits)), (64, 64));
        assert_eq!(take_all(&Permits::of_budget(7000, 1000)), 0, "too few segments to lend any");
    }

    #[test]
    fn those_that_other_threads_gave_back_are_found() {
        let permits = Permits::of_budget(17 * 8, 1);
        for _ in 0..100 {
            assert_eq!(take_all(&permits), 17);
            std::thread::scope(|scope| {
                for _ in 0..17 {
                    scope.spawn(|| permits.give_back());
                }
            });
        }
        assert_eq!(permits.free(), 17);
    }

    #[test]
    fn a_smaller_budget_takes_back_what_is_lent_as_it_is_given_back() {
        let permits = Permits::of_budget(80, 1);
        (0..6).for_each(|_| assert!(permits.try_take()));
        permits.follow(8 * 3, 1); // four of the kept ones are too many
        assert!(!permits.try_take());
        (0..3).for_each(|_| permits.give_back());
        assert!(!permits.try_take(), "they were owed");
        permits.follow(8 * 5, 1); // pays what is still owed, and allows two more than are kept
        assert_eq!(take_all(&permits), 2);
        (0..5).for_each(|_| permits.give_back());
        assert_eq!((permits.free(), take_all(&permits)), (5, 5));
    }
}
