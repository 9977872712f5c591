//! Records that DRAM has evicted and that are not on flash yet.
//!
//! They stay in their segments and in the index until their flash write has ended: a `get` in between must neither
//! miss nor see an older version, and a `set` or `delete` in between makes the write unnecessary. A demoting segment
//! is freed when the last of its records was dealt with.
//!
//! Segments within the budget are demoted ahead of need, up to a part of the budget, if a thread or task sends them;
//! otherwise one after the other, as callers send them. Objects that DRAM has no place for are demoted above the
//! budget: their bytes are taken from the [`Allowance`] first, and given back with their segment.

use std::collections::VecDeque;
use std::sync::PoisonError;

use event_listener::Event;

use super::allowance::{Allowance, TakenBytes};
use super::index::Location;
use super::segment::Share;
use super::segment::{Frozen, Segment};
use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::signal::ALL;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::sync::{Mutex, MutexGuard};

/// A record on its way to flash. It pins its segment.
#[derive(Debug)]
pub(crate) struct Demotion {
    pub(super) segment: Frozen,
    pub(super) location: Location,
    pub(crate) hash: KeyHash,
}

impl Demotion {
    /// The item of the record. The caller knows from the index whether it is clean.
    pub(crate) fn item(&self, clean: bool) -> ItemRef<'_> {
        self.segment.record_and_end(self.location.at).0.item(self.hash, clean)
    }
}

/// Default limit of bytes demoted above the budget.
const ABOVE_BYTES: usize = 16 << 20;
/// This fraction of the budget (reciprocal) is demoted ahead of need.
const AHEAD_PART: usize = 4;

#[derive(Debug)]
pub(crate) struct Demotions {
    state: Mutex<DemotionsState>,
    /// Number of segments and records that wait, to be read without the lock.
    waiting: AtomicUsize,
    /// Bytes of demoting segments within the budget.
    within_bytes: AtomicUsize,
    /// Number of segments that have finished demoting.
    freed_segments: AtomicUsize,
    /// Whether segments are demoted ahead of need.
    ahead: AtomicBool,
    above: Allowance,
    /// Number of senders that take everything that comes.
    attended: AtomicUsize,
    /// Notified when a record has come that waits: for senders that take everything.
    pub(crate) added: Event,
    /// Notified when a record waits and there is no such sender.
    pub(crate) unattended: Event,
    /// Notified when a segment has been freed. It wakes one caller that waits for room, which wakes the next if there
    /// is more room.
    pub(crate) freed: Event,
    /// Notified when a record has been dealt with.
    pub(crate) demoted: Event,
}

impl Default for Demotions {
    fn default() -> Self {
        Self::new(false, ABOVE_BYTES)
    }
}

#[derive(Debug, Default)]
struct DemotionsState {
    segments: VecDeque<Demoting>,
    given_back: VecDeque<Demotion>,
}

/// A segment whose records are demoted; `next` is the offset of the next record.
#[derive(Debug)]
pub(super) struct Demoting {
    pub(super) segment: Frozen,
    pub(super) slot: u32,
    pub(super) next: usize,
}

impl Demotions {
    pub(crate) fn new(ahead: bool, above_bytes: usize) -> Self {
        Self {
            state: Mutex::default(),
            waiting: AtomicUsize::new(0),
            within_bytes: AtomicUsize::new(0),
            freed_segments: AtomicUsize::new(0),
            ahead: AtomicBool::new(ahead),
            above: Allowance::of_bytes(above_bytes),
            attended: AtomicUsize::new(0),
            added: Event::new(),
            unattended: Event::new(),
            freed: Event::new(),
            demoted: Event::new(),
        }
    }

    /// Sets whether segments are demoted ahead of need.
    pub(crate) fn set_ahead(&self, ahead: bool) {
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    /// The allowance for demotions above the budget.
    pub(crate) fn above(&self) -> &Allowance {
        &self.above
    }

    /// Bytes of all demoting segments.
    pub(crate) fn bytes(&self) -> usize {
        self.within_bytes.load(Ordering::Relaxed) + self.above.used_bytes()
    }

    /// Whether no further segment of a budget of `budget` bytes should be demoted now.
    pub(crate) fn are_enough(&self, budget: usize) -> bool {
        match self.ahead.load(Ordering::Relaxed) {
            true => self.within_bytes.load(Ordering::Relaxed) > budget / AHEAD_PART,
            false => self.wait(),
        }
    }

    /// Urgency of demotions, from 0 to `most`: `most` means that as many bytes of the budget are demoting as may
    /// ahead of need.
    pub(crate) fn urgency(&self, most: usize, budget: usize) -> usize {
        let ahead = (budget / AHEAD_PART).max(1);
        (self.bytes().min(ahead) / ahead.div_ceil(most.max(1))).min(most)
    }

    /// Whether there will be room when current demotions have ended.
    pub(crate) fn will_make_room(&self) -> bool {
        let ahead = self.ahead.load(Ordering::Relaxed);
        if ahead { self.within_bytes.load(Ordering::Relaxed) > 0 } else { self.wait() }
    }

    /// Adds a segment of the budget.
    pub(crate) fn add(&self, segment: Frozen, slot: u32) {
        self.within_bytes.fetch_add(segment.capacity(), Ordering::Relaxed);
        self.push(segment, slot);
    }

    /// Adds a segment above the budget.
    pub(crate) fn add_above(&self, segment: Frozen, slot: u32, taken: TakenBytes<'_>) {
        let before = segment.note_above(taken.spend());
        assert_eq!(before, 0, "bytes are taken for a segment once");
        self.push(segment, slot);
    }

    /// Number of segments freed so far.
    pub(crate) fn freed_segments(&self) -> usize {
        self.freed_segments.load(Ordering::SeqCst)
    }

    /// Records that a demoting segment has been freed.
    pub(crate) fn has_left(&self) {
        self.freed_segments.fetch_add(1, Ordering::SeqCst);
        // If no segment is left, wake all: no later one would wake the rest.
        self.freed.notify(if self.bytes() == 0 { ALL } else { 1 });
    }

    /// Registers a sender that takes everything that comes, until the result is dropped.
    pub(crate) fn attend(&self) -> Attends<'_> {
        self.attended.fetch_add(1, Ordering::SeqCst);
        Attends(self)
    }

    /// Notifies senders that a record waits that did not before.
    fn tell_of_more(&self) {
        self.added.notify(ALL);
        // A sender that leaves first decrements the count and then notifies `unattended`.
        if self.attended.load(Ordering::SeqCst) == 0 {
            self.unattended.notify(ALL);
        }
    }

    /// A demoting segment is about to be freed.
    pub(crate) fn leaves(&self, segment: &Segment) {
        match segment.note_above(0) {
            0 => {
                let before = self.within_bytes.fetch_sub(segment.capacity(), Ordering::Relaxed);
                debug_assert!(before >= segment.capacity(), "a segment leaves that has come");
            }
            above => self.above.give_back(above),
        }
    }

    fn push(&self, segment: Frozen, slot: u32) {
        // One for the segment itself, until all of its records were given out.
        segment.set_outstanding(1);
        let mut state = self.lock();
        state.segments.push_back(Demoting { segment, slot, next: 0 });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        drop(state);
        self.tell_of_more();
    }

    /// Whether [`Demotions::next`] may return a record.
    pub(crate) fn wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn requeue(&self, demotion: Demotion) {
        let mut state = self.lock();
        state.given_back.push_back(demotion);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        drop(state);
        self.tell_of_more();
    }

    /// The next record that is still the newest of its key according to `is_current`, and the segments that turned
    /// out to be finished.
    pub(crate) fn next(
        &self,
        hasher: KeyHasher,
        is_current: impl Fn(KeyHash, Location) -> bool,
    ) -> (Option<Demotion>, Vec<Share>) {
        let mut ended = Vec::new();
        if !self.wait() {
            return (None, ended);
        }
        let mut state = self.lock();
        if let Some(demotion) = state.given_back.pop_front() {
            let before = self.waiting.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "what is here is counted as waiting");
            return (Some(demotion), ended);
        }
        while let Some(demoting) = state.segments.front_mut() {
            if let Some(demotion) = demoting.next_record(hasher, &is_current) {
                return (Some(demotion), ended);
            }
            let before = self.waiting.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "what is here is counted as waiting");
            let Some(Demoting { segment, .. }) = state.segments.pop_front() else { break };
            if segment.one_demoted() {
                ended.push(segment.thaw());
            }
        }
        (None, ended)
    }

    /// Calls `work` with the first segment. `None` if there is none, or if records were given back, which come first.
    pub(super) fn with_first<T>(&self, work: impl FnOnce(&mut Demoting) -> T) -> Option<T> {
        let mut state = self.lock();
        let DemotionsState { segments, given_back } = &mut *state;
        let first = segments.front_mut().filter(|_| given_back.is_empty());
        first.map(work)
    }

    fn lock(&self) -> MutexGuard<'_, DemotionsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered sender that takes everything that comes.
pub(crate) struct Attends<'a>(&'a Demotions);

impl Drop for Attends<'_> {
    fn drop(&mut self) {
        let before = self.0.attended.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "this caller was counted as attending");
        self.0.unattended.notify(ALL);
    }
}

impl Demoting {
    fn next_record(
        &mut self,
        hasher: KeyHasher,
        is_current: impl Fn(KeyHash, Location) -> bool,
    ) -> Option<Demotion> {
        while self.next < self.segment.end() {
            let (record, end) = self.segment.record_and_end(self.next);
            let location = Location { slot: self.slot, at: self.next };
            debug_assert!(
                end > self.next && end <= self.segment.end(),
                "records lie one after the other"
            );
            self.next = end;
            let hash = hasher.hash(record.key);
            if is_current(hash, location) {
                return Some(self.give_out(location, hash));
            }
        }
        None
    }

    pub(super) fn give_out(&self, location: Location, hash: KeyHash) -> Demotion {
        debug_assert!(location.at < self.next, "what is given out is not given out again");
        self.segment.one_more();
        Demotion { segment: self.segment.clone(), location, hash }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    fn told(listeners: &mut [event_listener::EventListener]) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        let polled = listeners.iter_mut().map(|one| Pin::new(one).poll(&mut context));
        polled.filter(Poll::is_ready).count()
    }

    #[test]
    fn one_is_told_of_room_and_all_of_the_last_one() {
        let demotions = Demotions::new(true, 1000);
        demotions.within_bytes.store(100, Ordering::Relaxed);
        let mut waiting: Vec<_> = (0..3).map(|_| demotions.freed.listen()).collect();
        demotions.has_left();
        assert_eq!(told(&mut waiting[..1]), 1);
        assert_eq!(told(&mut waiting[1..]), 0);
        demotions.within_bytes.store(0, Ordering::Relaxed);
        demotions.has_left();
        assert_eq!(told(&mut waiting[1..]), 2, "there is no next one that would tell them");
    }

    #[test]
    fn urgency_grows_with_what_is_demoted() {
        let demotions = Demotions::new(true, 1000);
        let part_with = |bytes| {
            demotions.within_bytes.store(bytes, Ordering::Relaxed);
            demotions.urgency(60, 4 << 20)
        };
        assert_eq!([0, 512 << 10, 1 << 20, 3 << 20].map(part_with), [0, 29, 59, 59]);
        assert_eq!(demotions.urgency(0, 0), 0);
    }

    #[test]
    fn helpers_are_told_only_while_no_thread_attends() {
        let demotions = Demotions::default();
        let mut waiting = [demotions.unattended.listen()];
        let attends = demotions.attend();
        demotions.tell_of_more();
        assert_eq!(told(&mut waiting), 0);
        drop(attends);
        assert_eq!(told(&mut waiting), 1, "no thread attends");
        let mut waiting = [demotions.unattended.listen()];
        demotions.tell_of_more();
        assert_eq!(told(&mut waiting), 1);
    }
}
