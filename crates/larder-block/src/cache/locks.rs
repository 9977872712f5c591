//! Range locks: they decide which requests may be in flight together.
//!
//! Reads share a lock; all other requests exclude each other. An earlier overlapping request goes first, whether it
//! has begun or not, so no request starves. A read whose data is to be cached makes its lock exclusive without losing
//! its place ([`RangeLocks::keep`]), so no write comes in between.
//!
//! *Always:* a request waits for earlier ones, and for later ones that already hold their lock. Only reads get their
//! lock before an earlier request, and a holder waits for no lock. So there is no deadlock.

use crate::layout::Span;

/// The key of the request that wants or holds a lock.
pub(super) type Holder = usize;

#[derive(Debug)]
struct LockEntry {
    holder: Holder,
    span: Span,
    is_exclusive: bool,
    is_held: bool,
}

/// All range locks of a cache.
#[derive(Debug, Default)]
pub(super) struct RangeLocks {
    /// In order of arrival.
    entries: Vec<LockEntry>,
}

impl RangeLocks {
    /// Requests a lock. Returns whether it is held at once; if not, a later [`release`](Self::release) reports it.
    pub(super) fn acquire(&mut self, holder: Holder, span: Span, is_exclusive: bool) -> bool {
        let is_held = !self
            .entries
            .iter()
            .any(|one| one.span.overlaps(span) && (is_exclusive || one.is_exclusive));
        self.entries.push(LockEntry { holder, span, is_exclusive, is_held });
        is_held
    }

    /// Whether no request holds or wants a lock of any part of the span.
    pub(super) fn is_free(&self, span: Span) -> bool {
        !self.entries.iter().any(|one| one.span.overlaps(span))
    }

    /// Turns the lock of a read into an exclusive lock of `span`, a part of it. Returns whether it is held at once.
    /// Appends the requests that get their lock because of the released rest.
    pub(super) fn keep(&mut self, holder: Holder, span: Span, freed: &mut Vec<Holder>) -> bool {
        let number = self.number_of(holder);
        let one = &mut self.entries[number];
        let before = std::mem::replace(&mut one.span, span);
        (one.is_exclusive, one.is_held) = (true, false);
        self.begin_overlapping(before, freed);
        let is_held = freed.contains(&holder);
        freed.retain(|one| *one != holder);
        is_held
    }

    /// Releases a lock, held or not. Appends the requests that get their lock now, in order of arrival.
    pub(super) fn release(&mut self, holder: Holder, freed: &mut Vec<Holder>) {
        let number = self.number_of(holder);
        let one = self.entries.remove(number);
        self.begin_overlapping(one.span, freed);
    }

    /// The number of locks that are held or wanted.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn number_of(&self, holder: Holder) -> usize {
        let number = self.entries.iter().position(|one| one.holder == holder);
        number.expect("it has asked for a lock and not let go of it")
    }

    fn begin_overlapping(&mut self, span: Span, freed: &mut Vec<Holder>) {
        for number in 0..self.entries.len() {
            let one = &self.entries[number];
            if !one.is_held && one.span.overlaps(span) && self.may_hold(number) {
                self.entries[number].is_held = true;
                freed.push(self.entries[number].holder);
            }
        }
    }

    fn may_hold(&self, number: usize) -> bool {
        let one = &self.entries[number];
        !self.entries.iter().enumerate().any(|(other_number, other)| {
            other_number != number
                && (other_number < number || other.is_held)
                && other.span.overlaps(one.span)
                && (one.is_exclusive || other.is_exclusive)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::CoreId;

    fn span(first: u64, sectors: u32) -> Span {
        Span { core: CoreId::new(0).unwrap(), first, sectors }
    }

    fn freed(locks: &mut RangeLocks, holder: Holder) -> Vec<Holder> {
        let mut freed = Vec::new();
        locks.release(holder, &mut freed);
        freed
    }

    #[test]
    fn readers_share_and_writers_wait_in_order() {
        let mut locks = RangeLocks::default();
        assert!(locks.acquire(0, span(0, 8), false) && locks.acquire(1, span(4, 8), false));
        assert!(!locks.acquire(2, span(6, 4), true));
        assert!(!locks.acquire(3, span(8, 2), false), "a writer is before it");
        assert!(locks.acquire(4, span(16, 8), true), "it overlaps no other");
        assert_eq!(freed(&mut locks, 0), []);
        assert_eq!(freed(&mut locks, 1), [2]);
        assert_eq!(freed(&mut locks, 2), [3]);
        assert_eq!((freed(&mut locks, 3), freed(&mut locks, 4)), (vec![], vec![]));
        assert_eq!(locks.len(), 0);
    }

    #[test]
    fn a_span_that_a_request_holds_or_waits_for_is_not_free() {
        let mut locks = RangeLocks::default();
        locks.acquire(0, span(0, 8), false);
        locks.acquire(1, span(4, 8), true);
        assert!(!locks.is_free(span(7, 1)) && !locks.is_free(span(11, 4)), "the last waits");
        assert!(locks.is_free(span(12, 4)));
    }

    #[test]
    fn readers_that_keep_what_they_read_do_so_before_later_writers_and_in_order() {
        let mut locks = RangeLocks::default();
        assert!(locks.acquire(0, span(0, 8), false) && locks.acquire(1, span(0, 8), false));
        assert!(!locks.acquire(2, span(0, 8), true));
        let mut freed_by = Vec::new();
        assert!(!locks.keep(1, span(2, 2), &mut freed_by), "another reads still");
        assert!(locks.keep(0, span(2, 2), &mut freed_by), "the other only waits now");
        assert_eq!(freed_by, []);
        assert_eq!(freed(&mut locks, 0), [1]);
        assert_eq!(freed(&mut locks, 1), [2]);
    }

    #[test]
    fn what_a_reader_does_not_keep_is_free() {
        let mut locks = RangeLocks::default();
        assert!(locks.acquire(0, span(0, 8), false));
        assert!(!locks.acquire(1, span(6, 2), true));
        let mut freed_by = Vec::new();
        assert!(locks.keep(0, span(0, 4), &mut freed_by));
        assert_eq!(freed_by, [1]);
    }

    /// Random requests: requests that hold locks together never conflict, and every request gets its lock.
    #[test]
    fn random_requests_never_conflict_and_all_get_their_locks() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut locks = RangeLocks::default();
            let mut held: Vec<Holder> = Vec::new();
            let (mut next, mut begun) = (0, 0);
            while next < 200 || !held.is_empty() {
                if next < 200 && rng.bool() {
                    let one = span(rng.u64(..32), rng.u32(1..8));
                    if locks.acquire(next, one, rng.bool()) {
                        held.push(next);
                        begun += 1;
                    }
                    next += 1;
                } else if !held.is_empty() {
                    let number = rng.usize(..held.len());
                    let (holder, mut freed) = (held[number], Vec::new());
                    let entry = &locks.entries[locks.number_of(holder)];
                    let keeps = !entry.is_exclusive && rng.bool();
                    let part = Span { sectors: rng.u32(1..=entry.span.sectors), ..entry.span };
                    if !keeps {
                        held.swap_remove(number);
                        locks.release(holder, &mut freed);
                    } else if !locks.keep(holder, part, &mut freed) {
                        held.swap_remove(number);
                        begun -= 1;
                    }
                    begun += freed.len();
                    held.extend(freed);
                }
                let entries = locks.entries.iter().filter(|one| one.is_held).collect::<Vec<_>>();
                assert_eq!(entries.len(), held.len(), "seed {seed}");
                for (number, one) in entries.iter().enumerate() {
                    let conflicts = |other: &&LockEntry| {
                        one.span.overlaps(other.span) && (one.is_exclusive || other.is_exclusive)
                    };
                    assert!(
                        !entries[..number].iter().copied().any(|it| conflicts(&it)),
                        "seed {seed}"
                    );
                }
            }
            assert_eq!((begun, locks.len()), (200, 0), "seed {seed}");
        }
    }
}
