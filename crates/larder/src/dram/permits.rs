//! How many values of a tier may be kept at a time as they lie there.
//!
//! A value that somebody keeps pins its whole segment, which the tier can do nothing with meanwhile. So each
//! takes a permit, of which there are an eighth as many as segments; whoever finds none left gets a copy of its
//! own. Who only looks at a value takes none.
//!
//! Every hit that is kept takes a permit and gives it back. So free ones lie in stripes, as pins do: a thread
//! takes from its own stripe and gives back to it. If that is empty it takes half of what another one has: so a
//! permit that is free is found, wherever it lies, and threads of which one only takes and another one only gives back
//! meet once for many values. A permit is taken without order: nothing is read by what the counts say.
//!
//! When the budget becomes smaller, permits go: those that are free at once, the others, which are `owed`, as
//! they are given back.

use crate::stats::Counter;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{STRIPES, stripe};

/// One for so many segments.
const SEGMENTS_PER_PERMIT: usize = 8;

/// The permits of a tier. Segments share it, for values that outlive the tier.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    /// Those that are free.
    free: [Stripe; STRIPES],
    /// Not to be free again. Every thread that gives back looks at it, and it hardly ever changes.
    owed: Stripe,
    /// How many there are to be.
    limit: AtomicUsize,
    /// Values that were copied for want of a permit.
    pub(crate) copied: Counter,
}

/// So many permits.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Stripe(AtomicUsize);

impl Permits {
    /// As many as a tier of so many bytes has.
    pub(crate) fn of_budget(bytes: usize, segment_bytes: usize) -> Self {
        let permits = Self::default();
        permits.follow(bytes, segment_bytes);
        permits
    }

    /// From now on they are those of such a tier.
    pub(crate) fn follow(&self, budget_bytes: usize, segment_bytes: usize) {
        assert!(segment_bytes > 0, "permits are counted by segments");
        self.set_limit(budget_bytes / segment_bytes / SEGMENTS_PER_PERMIT);
    }

    /// Changes of several threads add up, in whatever order they come.
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
    fn take_from_others(&self, own: &Stripe) -> bool {
        self.free.iter().any(|other| {
            let taken = other.take(|free| free.div_ceil(2));
            own.give(taken.saturating_sub(1));
            taken > 0
        })
    }

    /// Gives a permit back, on whatever thread.
    #[inline]
    pub(crate) fn give_back(&self) {
        if self.owed.take(|owed| owed.min(1)) == 0 {
            self.free[stripe()].give(1);
        }
    }

    /// How many there are to be.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// How many are free, but for those that are owed. Only right while nobody else is at it.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        let free: usize = self.free.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum();
        free - self.owed.0.load(Ordering::Relaxed)
    }
}

impl Stripe {
    #[inline]
    fn give(&self, permits: usize) {
        if permits > 0 {
            self.0.fetch_add(permits, Ordering::Relaxed);
        }
    }

    /// Takes as many of those that are free as `how_many` says. Returns how many that were.
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
        permits.follow(8 * 3, 1); // four of those that are kept are too many
        assert!(!permits.try_take());
        (0..3).for_each(|_| permits.give_back());
        assert!(!permits.try_take(), "they were owed");
        permits.follow(8 * 5, 1); // pays what is left to pay, and is two more than are kept
        assert_eq!(take_all(&permits), 2);
        (0..5).for_each(|_| permits.give_back());
        assert_eq!((permits.free(), take_all(&permits)), (5, 5));
    }
}
