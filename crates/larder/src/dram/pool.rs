//! The budget, and the segments that are made of it.

use std::sync::PoisonError;

use super::memory::Blocks;
use super::pins::Share;
use super::segment::{Segment, Writer};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Readers who were interrupted may keep this part of the budget, or so many segments, before those wait
/// who free more.
const RETIRED_PART: usize = 8;
const RETIRED_MIN: usize = 4;

/// Takes memory for segments up to a budget.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Size of a segment, except of one that is made for a single long item, or was made before this
    /// was changed.
    segment_bytes: AtomicUsize,
    budget_bytes: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Of segments, wherever they are.
    allocated_bytes: usize,
    /// To be used again: of the usual size.
    free: Vec<Share>,
    /// Of segments that readers may still look at; they are given back in a moment.
    retired_bytes: usize,
    /// Of no use to the tier, but pinned by values that are still in use.
    pinned: Vec<Share>,
    /// Without memory: only their places in blocks are kept, for when the budget grows again.
    hollow: Vec<Share>,
    blocks: Blocks,
}

impl Pool {
    pub(crate) fn new(budget_bytes: usize, segment_bytes: usize) -> Self {
        let budget_bytes = AtomicUsize::new(budget_bytes);
        let segment_bytes = AtomicUsize::new(segment_bytes);
        Self { segment_bytes, budget_bytes, state: Mutex::default() }
    }

    pub(crate) fn segment_bytes(&self) -> usize {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// From now on segments are so long. What is free of others is given back.
    pub(crate) fn set_segment_bytes(&self, bytes: usize) {
        let mut state = self.lock();
        let old = self.segment_bytes();
        if bytes == old {
            return;
        }
        self.segment_bytes.store(bytes, Ordering::Relaxed);
        let free = std::mem::take(&mut state.free);
        let hollow = std::mem::take(&mut state.hollow);
        state.allocated_bytes -= free.len() * old;
        drop(state); // the kernel takes its time
        drop((free, hollow));
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

    /// The same, but for what is given back when readers have left.
    pub(crate) fn kept_bytes(&self) -> usize {
        let state = self.lock();
        state.allocated_bytes - state.retired_bytes
    }

    /// Memory that is free, or not allocated yet.
    pub(crate) fn room_bytes(&self, other_bytes: usize) -> usize {
        let mut state = self.lock();
        let segment_bytes = self.segment_bytes();
        state.look_at_pinned(segment_bytes);
        self.budget_bytes().saturating_sub(state.in_use_bytes(segment_bytes) + other_bytes)
    }

    /// A segment of so many bytes will be given back when readers have left. Until then its memory is
    /// over the budget, so that nobody has to wait for them.
    pub(crate) fn note_retired(&self, bytes: usize) {
        self.lock().retired_bytes += bytes;
    }

    /// Whether as much is retired as may be over the budget.
    pub(crate) fn has_many_retired(&self) -> bool {
        let most = (self.budget_bytes() / RETIRED_PART).max(RETIRED_MIN * self.segment_bytes());
        self.lock().retired_bytes > most
    }

    /// A segment of at least `bytes`. `None` if the budget has no room for it, of which
    /// `other_bytes` are spent on other things. One segment is always left for the evictor.
    pub(crate) fn open(&self, bytes: usize, other_bytes: usize) -> Option<Writer> {
        let mut state = self.lock();
        // Once: it changes while the lock is held, so that free segments are of this size.
        let (segment_bytes, budget) = (self.segment_bytes(), self.budget_bytes());
        state.look_at_pinned(segment_bytes);
        let wanted = bytes.max(segment_bytes);
        if state.in_use_bytes(segment_bytes) + wanted + segment_bytes + other_bytes > budget {
            return None;
        }
        Some(state.take(wanted, segment_bytes, budget - other_bytes))
    }

    /// A segment of at least `bytes`, even if there is no budget for it.
    pub(crate) fn open_anyway(&self, bytes: usize, other_bytes: usize) -> Writer {
        let mut state = self.lock();
        let segment_bytes = self.segment_bytes();
        state.look_at_pinned(segment_bytes);
        let budget = self.budget_bytes().saturating_sub(other_bytes);
        state.take(bytes.max(segment_bytes), segment_bytes, budget)
    }

    /// Takes a segment back that the tier has no use for. What is over the budget is freed.
    pub(crate) fn give_back(&self, segment: Share, other_bytes: usize) {
        let mut state = self.lock();
        state.pinned.push(segment);
        drop(state);
        self.shrink(other_bytes);
    }

    /// The same for one that was noted as retired.
    pub(crate) fn give_back_retired(&self, segment: Share, other_bytes: usize) {
        self.lock().retired_bytes -= segment.capacity();
        self.give_back(segment, other_bytes);
    }

    /// Frees what is over the budget, as far as it is not in use. Says whether something is left over
    /// it.
    pub(crate) fn shrink(&self, other_bytes: usize) -> bool {
        let mut state = self.lock();
        state.look_at_pinned(self.segment_bytes());
        while state.allocated_bytes + other_bytes > self.budget_bytes() {
            if !state.give_up_one() {
                let kept = state.allocated_bytes - state.retired_bytes;
                return kept + other_bytes > self.budget_bytes();
            }
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Memory of segments that are neither free nor will be in a moment.
    fn in_use_bytes(&self, segment_bytes: usize) -> usize {
        self.allocated_bytes - self.retired_bytes - self.free.len() * segment_bytes
    }

    /// A free segment or a new one. Free ones of another size make room for it.
    fn take(&mut self, wanted: usize, segment_bytes: usize, budget: usize) -> Writer {
        if wanted == segment_bytes
            && let Some(segment) = self.free.pop()
            && let Ok(writer) = Writer::recycle(segment)
        {
            return writer;
        }
        while self.allocated_bytes + wanted > budget && self.give_up_one() {}
        self.allocated_bytes += wanted;
        if wanted != segment_bytes {
            return Writer::allocate(wanted);
        }
        let hollow = self.hollow.pop().and_then(|mut segment| {
            segment.get_mut()?.refill();
            Writer::recycle(segment).ok()
        });
        hollow.unwrap_or_else(|| Writer::allocate_in(&mut self.blocks, wanted))
    }

    /// Gives the memory of a free segment back. `false` if there is none.
    fn give_up_one(&mut self) -> bool {
        let Some(mut segment) = self.free.pop() else { return false };
        self.allocated_bytes -= segment.capacity();
        if segment.get_mut().is_some_and(Segment::hollow_out) {
            self.hollow.push(segment);
        }
        true
    }

    /// Keeps those that nobody pins any more for reuse, if they are of the usual size.
    fn look_at_pinned(&mut self, segment_bytes: usize) {
        let State { allocated_bytes, free, pinned, .. } = self;
        for segment in pinned.extract_if(.., |segment| segment.is_alone()) {
            if segment.capacity() == segment_bytes {
                free.push(segment);
            } else {
                *allocated_bytes -= segment.capacity();
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
        assert_eq!((new.segment().capacity(), pool.allocated_bytes()), (500, 1400));
        for writer in old {
            pool.give_back(writer.segment().clone(), 0);
        }
        pool.shrink(0);
        assert_eq!(pool.allocated_bytes(), 500, "what is of no use is not kept");
        let all: Vec<_> = std::iter::from_fn(|| pool.open(1, 0)).collect();
        assert_eq!((all.len(), pool.allocated_bytes()), (6, 3500));
        pool.give_back(all[0].segment().clone(), 0);
        drop(all);
        pool.shrink(0);
        pool.set_segment_bytes(100);
        assert_eq!(pool.open(1, 0).unwrap().segment().capacity(), 100, "not the free one");
    }

    #[test]
    fn a_long_item_gets_a_segment_of_its_own_size() {
        let pool = Pool::new(1300, 300);
        let small = pool.open(1, 0).unwrap();
        assert!(pool.open(800, 0).is_none());
        pool.give_back(small.segment().clone(), 0);
        drop(small);
        let long = pool.open(800, 0).unwrap();
        assert_eq!((long.segment().capacity(), pool.allocated_bytes()), (800, 1100));
        assert_eq!(pool.open_anyway(500, 0).segment().capacity(), 500);
        assert_eq!(pool.allocated_bytes(), 1300, "the free one made room");
        pool.give_back(long.segment().clone(), 0);
        drop(long);
        assert!(pool.open(1, 400).is_none(), "other things count too");
    }
}
