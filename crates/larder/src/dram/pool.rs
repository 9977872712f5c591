//! The budget, and the segments that are allocated from it.

use std::sync::{Arc, PoisonError};

use super::memory::Blocks;
use super::permits::Permits;
use super::segment::Share;
use super::segment::{Spare, Writer};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::sync::{Mutex, MutexGuard};

/// Preempted readers may hold this fraction of the budget (reciprocal), or this number of segments, before threads
/// that free more must wait.
const RETIRED_PART: usize = 8;
const RETIRED_MIN: usize = 4;
/// Address space for this multiple of the budget is kept for when it grows again; each segment takes a little memory.
const HOLLOW_BUDGETS: usize = 4;

/// Allocates segments up to a budget.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Size of a segment, except those made for a single long item, or made before this size was changed.
    segment_bytes: AtomicUsize,
    budget_bytes: AtomicUsize,
    permits: Arc<Permits>,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Memory of all segments.
    allocated_bytes: usize,
    /// Segments for reuse, of the usual size.
    free: Vec<Spare>,
    /// Segments that are not reused. They wait for [`Pool::take_gone`].
    gone: Vec<FreedSegment>,
    /// Memory of segments that are gone but not freed yet.
    retired_bytes: usize,
    /// Segments that the tier has given up but that values still pin: of the usual size, except those that have just
    /// come.
    pinned: Vec<Share>,
    /// Segments without memory: only their address space is kept, for when the budget grows again.
    hollow: Vec<Spare>,
    blocks: Blocks,
}

/// A segment that is not reused.
#[derive(Debug)]
pub(crate) struct FreedSegment {
    pub(crate) segment: Share,
    /// Memory that is freed when it is dropped.
    pub(crate) bytes: usize,
}

impl Pool {
    pub(crate) fn new(budget_bytes: usize, segment_bytes: usize) -> Self {
        assert!(segment_bytes > 0, "a budget is divided into segments");
        let permits = Arc::new(Permits::of_budget(budget_bytes, segment_bytes));
        let budget_bytes = AtomicUsize::new(budget_bytes);
        let segment_bytes = AtomicUsize::new(segment_bytes);
        Self { segment_bytes, budget_bytes, permits, state: Mutex::default() }
    }

    /// The permits for keeping values of its segments.
    pub(crate) fn permits(&self) -> &Permits {
        &self.permits
    }

    pub(crate) fn segment_bytes(&self) -> usize {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// Changes the segment size. Frees the free segments of the old size.
    pub(crate) fn set_segment_bytes(&self, bytes: usize) {
        assert!(bytes > 0, "a budget is divided into segments");
        let mut state = self.lock();
        let old = self.segment_bytes();
        if bytes == old {
            return;
        }
        self.segment_bytes.store(bytes, Ordering::Relaxed);
        let PoolState { allocated_bytes, free, hollow, .. } = &mut *state;
        *allocated_bytes -= free.len() * old;
        let (free, hollow) = (std::mem::take(free), std::mem::take(hollow));
        drop(state); // the kernel may take long
        let gone = |spare: Spare, bytes| FreedSegment { segment: spare.into_share(), bytes };
        let give_up = |spare: Spare| {
            let bytes = if spare.hollow_out() { 0 } else { old };
            gone(spare, bytes)
        };
        let hollow = hollow.into_iter().map(|spare| gone(spare, 0));
        let gone: Vec<FreedSegment> = free.into_iter().map(give_up).chain(hollow).collect();
        let bytes: usize = gone.iter().map(|gone| gone.bytes).sum();
        let mut state = self.lock();
        state.allocated_bytes += bytes;
        state.retired_bytes += bytes;
        state.gone.extend(gone);
    }

    pub(crate) fn budget_bytes(&self) -> usize {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_budget(&self, bytes: usize) {
        self.budget_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Memory of all segments.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.lock().allocated_bytes
    }

    /// The same, without memory that is freed when readers have left.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.lock().kept_bytes()
    }

    /// Memory that is free, or not allocated yet.
    pub(crate) fn room_bytes(&self, other_bytes: usize) -> usize {
        let mut state = self.lock();
        let segment_bytes = self.segment_bytes();
        state.look_at_pinned(segment_bytes);
        self.budget_bytes().saturating_sub(state.in_use_bytes(segment_bytes) + other_bytes)
    }

    /// Segments that are not reused, but that readers may still find. The caller reports when no reader can:
    /// [`Pool::note_freed`]. Until then their memory is above the budget, so that no caller must wait.
    pub(crate) fn take_gone(&self) -> Vec<FreedSegment> {
        std::mem::take(&mut self.lock().gone)
    }

    /// Records that `bytes` bytes of retired segments are freed.
    pub(crate) fn note_freed(&self, bytes: usize) {
        let mut state = self.lock();
        assert!(bytes <= state.retired_bytes, "what is freed was given up before, once");
        state.retired_bytes -= bytes;
        state.allocated_bytes -= bytes;
    }

    /// Whether as much memory is retired as may be above the budget.
    pub(crate) fn has_many_retired(&self) -> bool {
        let most = (self.budget_bytes() / RETIRED_PART).max(RETIRED_MIN * self.segment_bytes());
        self.lock().retired_bytes > most
    }

    /// A segment of at least `bytes`. `None` if the budget has no room for it; `other_bytes` of the budget are used
    /// otherwise. One segment is always left for the evictor.
    pub(crate) fn open(&self, bytes: usize, other_bytes: usize) -> Option<Writer> {
        let mut state = self.lock();
        // Read once: it changes only under the lock, so all free segments have this size.
        let (segment_bytes, budget) = (self.segment_bytes(), self.budget_bytes());
        state.look_at_pinned(segment_bytes);
        let wanted = bytes.max(segment_bytes);
        if state.in_use_bytes(segment_bytes) + wanted + segment_bytes + other_bytes > budget {
            return None;
        }
        Some(state.take(wanted, segment_bytes, budget - other_bytes, &self.permits))
    }

    /// A segment of at least `bytes`, even if it exceeds the budget.
    pub(crate) fn open_anyway(&self, bytes: usize, other_bytes: usize) -> Writer {
        let mut state = self.lock();
        let segment_bytes = self.segment_bytes();
        state.look_at_pinned(segment_bytes);
        let budget = self.budget_bytes().saturating_sub(other_bytes);
        state.take(bytes.max(segment_bytes), segment_bytes, budget, &self.permits)
    }

    /// Takes back a segment that the tier does not need any more. Frees what exceeds the budget.
    pub(crate) fn give_back(&self, segment: Share, other_bytes: usize) {
        let mut state = self.lock();
        state.pinned.push(segment);
        drop(state);
        self.shrink(other_bytes);
    }

    /// Frees unused segments above the budget. Returns whether the rest is still above it.
    pub(crate) fn shrink(&self, other_bytes: usize) -> bool {
        let mut state = self.lock();
        state.look_at_pinned(self.segment_bytes());
        while state.kept_bytes() + other_bytes > self.budget_bytes() {
            if !state.give_up_one(self.budget_bytes()) {
                return true;
            }
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    fn kept_bytes(&self) -> usize {
        debug_assert!(self.retired_bytes <= self.allocated_bytes, "what is given up was allocated");
        self.allocated_bytes - self.retired_bytes
    }

    /// Memory of segments that are neither free nor about to be freed.
    fn in_use_bytes(&self, segment_bytes: usize) -> usize {
        let free_bytes = self.free.len() * segment_bytes;
        debug_assert!(free_bytes <= self.kept_bytes(), "all free segments are of the usual length");
        self.kept_bytes() - free_bytes
    }

    /// Takes a free segment or allocates a new one. Free segments of another size are given up to make room for it.
    fn take(
        &mut self,
        wanted: usize,
        segment_bytes: usize,
        budget: usize,
        permits: &Arc<Permits>,
    ) -> Writer {
        if wanted == segment_bytes
            && let Some(spare) = self.free.pop()
        {
            debug_assert_eq!(spare.capacity(), wanted, "all free segments are of the usual length");
            return Writer::recycle(spare);
        }
        while self.kept_bytes() + wanted > budget && self.give_up_one(budget) {}
        self.allocated_bytes += wanted;
        if wanted != segment_bytes {
            return Writer::allocate(wanted);
        }
        match self.hollow.pop() {
            Some(spare) => {
                debug_assert_eq!(spare.capacity(), wanted, "so are those without memory");
                spare.refill();
                Writer::recycle(spare)
            }
            None => Writer::allocate_in(&mut self.blocks, wanted, Arc::clone(permits)),
        }
    }

    /// Frees the memory of a free segment. `false` if there is none.
    fn give_up_one(&mut self, budget: usize) -> bool {
        let Some(spare) = self.free.pop() else { return false };
        let bytes = spare.capacity();
        if !spare.hollow_out() {
            self.give_up(spare.into_share());
            return true;
        }
        debug_assert!(bytes <= self.kept_bytes(), "a free segment is counted");
        self.allocated_bytes -= bytes;
        if self.hollow.len() < budget / bytes * HOLLOW_BUDGETS {
            self.hollow.push(spare);
        } else {
            self.gone.push(FreedSegment { segment: spare.into_share(), bytes: 0 });
        }
        true
    }

    /// Gives up a segment whose memory is freed with its last pin. From now on it is not part of the budget.
    fn give_up(&mut self, segment: Share) {
        let bytes = segment.capacity();
        self.retired_bytes += bytes;
        debug_assert!(self.retired_bytes <= self.allocated_bytes, "a segment is given up once");
        self.gone.push(FreedSegment { segment, bytes });
    }

    /// Moves pinned segments without pins to the free ones, if they are of the usual size.
    fn look_at_pinned(&mut self, segment_bytes: usize) {
        let mut at = 0;
        while at < self.pinned.len() {
            match Spare::new(self.pinned.swap_remove(at)) {
                Ok(spare) if spare.is_usual(segment_bytes) => self.free.push(spare),
                Ok(spare) => self.give_up(spare.into_share()),
                Err(pinned) if !pinned.is_usual(segment_bytes) => self.give_up(pinned),
                Err(pinned) => {
                    self.pinned.push(pinned);
                    let last = self.pinned.len() - 1;
                    self.pinned.swap(at, last);
                    at += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_kept_and_segments_are_reused() {
        let pool = Pool::new(1300, 300);
        let writers: Vec<_> = (0..3).map(|_| pool.open(1, 0).unwrap()).collect();
        assert!(pool.open(1, 0).is_none(), "the last is the evictor's");
        drop(pool.open_anyway(1, 0));
        let pin = writers[0].segment().clone();
        for writer in writers {
            pool.give_back(writer.segment().clone(), 0);
        }
        assert_eq!(pool.allocated_bytes(), 1200);
        let again: Vec<_> = std::iter::from_fn(|| pool.open(1, 0)).collect();
        assert_eq!(again.len(), 1, "one is pinned, one not given back");
        drop(pin);
        assert!(pool.open(1, 0).is_some());
        assert_eq!(pool.allocated_bytes(), 1200);
    }

    #[test]
    fn a_budget_that_goes_up_and_down_takes_no_new_places() {
        let segment = 128 << 10;
        let pool = Pool::new(40 * segment, segment);
        let mut places = std::collections::HashSet::new();
        for round in 0..50 {
            pool.set_budget(if round % 2 == 0 { 40 } else { 10 } * segment);
            let writers: Vec<_> = std::iter::from_fn(|| pool.open(1, 0)).collect();
            places.extend(writers.iter().map(|writer| writer.segment().address()));
            writers.iter().for_each(|writer| pool.give_back(writer.segment().clone(), 0));
            drop(writers);
            pool.shrink(0);
            assert!(pool.allocated_bytes() <= pool.budget_bytes());
        }
        if !pool.lock().hollow.is_empty() {
            assert_eq!(places.len(), 39);
        }
    }

    #[test]
    fn segments_of_two_sizes_live_side_by_side() {
        let pool = Pool::new(4000, 300);
        let mut old: Vec<_> = (0..4).map(|_| pool.open(1, 0).unwrap()).collect();
        pool.give_back(old.pop().unwrap().segment().clone(), 0);
        pool.room_bytes(0);
        pool.set_segment_bytes(500);
        let new = pool.open(1, 0).unwrap();
        assert_eq!((new.segment().capacity(), pool.kept_bytes()), (500, 1400));
        for writer in old {
            pool.give_back(writer.segment().clone(), 0);
        }
        pool.shrink(0);
        assert_eq!(pool.kept_bytes(), 500, "what is of no use is not kept");
        let all: Vec<_> = std::iter::from_fn(|| pool.open(1, 0)).collect();
        assert_eq!((all.len(), pool.kept_bytes()), (6, 3500));
        pool.give_back(all[0].segment().clone(), 0);
        drop(all);
        pool.shrink(0);
        pool.set_segment_bytes(100);
        assert_eq!(pool.open(1, 0).unwrap().segment().capacity(), 100, "not the free one");
    }

    /// The usual segment size becomes that of an earlier long item.
    #[test]
    fn memory_of_one_long_item_is_never_that_of_many() {
        let pool = Pool::new(4000, 300);
        let long = pool.open(500, 0).unwrap();
        assert!(long.segment().permits().is_none());
        pool.set_segment_bytes(500);
        pool.give_back(long.segment().clone(), 0);
        drop(long);
        assert!(pool.open(1, 0).unwrap().segment().permits().is_some());
        assert_eq!(pool.kept_bytes(), 500);
    }

    #[test]
    fn pins_keep_what_is_used_again_and_nothing_else() {
        let pool = Pool::new(4000, 300);
        let segments = [pool.open(1, 0).unwrap(), pool.open(800, 0).unwrap()];
        let pins: Vec<_> = segments.iter().map(|writer| writer.segment().pin(0)).collect();
        segments.into_iter().for_each(|writer| pool.give_back(writer.segment().clone(), 0));
        assert_eq!((pool.room_bytes(0), pool.kept_bytes()), (3700, 300), "the long one is theirs");
        drop(pins);
        assert_eq!(pool.room_bytes(0), 4000);
    }

    #[test]
    fn a_long_item_gets_a_segment_of_its_own_size() {
        let pool = Pool::new(1300, 300);
        let small = pool.open(1, 0).unwrap();
        assert!(pool.open(800, 0).is_none());
        pool.give_back(small.segment().clone(), 0);
        drop(small);
        let long = pool.open(800, 0).unwrap();
        assert_eq!((long.segment().capacity(), pool.kept_bytes()), (800, 1100));
        assert_eq!(pool.open_anyway(500, 0).segment().capacity(), 500);
        let gone = pool.take_gone();
        assert_eq!((gone.len(), gone[0].bytes, pool.allocated_bytes()), (1, 300, 1600));
        pool.note_freed(300);
        assert_eq!(pool.allocated_bytes(), 1300);
        assert_eq!(pool.kept_bytes(), 1300, "the free one made room");
        pool.give_back(long.segment().clone(), 0);
        drop(long);
        assert!(pool.open(1, 400).is_none(), "other things count too");
    }
}
