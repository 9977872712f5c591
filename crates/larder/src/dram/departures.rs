//! Records that DRAM has evicted and that are not on flash yet.
//!
//! They stay in their segments and in the index until their flash write has ended: a `get` in
//! between must neither miss nor see an older version, and a `set` or `delete` in between makes the
//! write pointless. A departing segment is freed when the last of its records was dealt with.

use std::collections::VecDeque;
use std::sync::PoisonError;

use super::index::Location;
use super::pins::Share;
use super::segment::Frozen;
use crate::key::{KeyHash, KeyHasher};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::value::ItemRef;

/// A record on its way to flash. It pins its segment.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(super) segment: Frozen,
    pub(super) location: Location,
    pub(crate) hash: KeyHash,
}

impl Departure {
    /// The item, as far as its record knows it: whether it is clean, the index says.
    pub(crate) fn item(&self, clean: bool) -> ItemRef<'_> {
        self.segment.record_and_end(self.location.at).0.item(self.hash, clean)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Departures {
    state: Mutex<State>,
    /// Segments and records that wait, to ask without the lock.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    segments: VecDeque<Departing>,
    given_back: VecDeque<Departure>,
}

/// A segment whose records depart, from the `next` one on.
#[derive(Debug)]
pub(super) struct Departing {
    pub(super) segment: Frozen,
    pub(super) slot: u32,
    pub(super) next: usize,
}

impl Departures {
    pub(crate) fn add(&self, segment: Frozen, slot: u32) {
        // One for the segment itself, until all its records were given out.
        segment.set_outstanding(1);
        let mut state = self.lock();
        state.segments.push_back(Departing { segment, slot, next: 0 });
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether [`Departures::next`] may have something to give.
    pub(crate) fn wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn requeue(&self, departure: Departure) {
        self.lock().given_back.push_back(departure);
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// The next record that `is_current` says is still the newest of its key, and the segments that
    /// turned out to be done with.
    pub(crate) fn next(
        &self,
        hasher: KeyHasher,
        is_current: impl Fn(KeyHash, Location) -> bool,
    ) -> (Option<Departure>, Vec<Share>) {
        let mut ended = Vec::new();
        if !self.wait() {
            return (None, ended);
        }
        let mut state = self.lock();
        if let Some(departure) = state.given_back.pop_front() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return (Some(departure), ended);
        }
        while let Some(departing) = state.segments.front_mut() {
            if let Some(departure) = departing.next_record(hasher, &is_current) {
                return (Some(departure), ended);
            }
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let Some(Departing { segment, .. }) = state.segments.pop_front() else { break };
            if segment.one_settled() {
                ended.push(segment.thaw());
            }
        }
        (None, ended)
    }

    /// Lets `work` go on with the segment that comes first. `None` if there is none, or something was given
    /// back, which comes before it.
    pub(super) fn with_first<T>(&self, work: impl FnOnce(&mut Departing) -> T) -> Option<T> {
        let mut state = self.lock();
        let State { segments, given_back } = &mut *state;
        let first = segments.front_mut().filter(|_| given_back.is_empty());
        first.map(work)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Departing {
    fn next_record(
        &mut self,
        hasher: KeyHasher,
        is_current: impl Fn(KeyHash, Location) -> bool,
    ) -> Option<Departure> {
        while self.next < self.segment.end() {
            let (record, end) = self.segment.record_and_end(self.next);
            let location = Location { slot: self.slot, at: self.next };
            self.next = end;
            let hash = hasher.hash(record.key);
            if is_current(hash, location) {
                return Some(self.give_out(location, hash));
            }
        }
        None
    }

    pub(super) fn give_out(&self, location: Location, hash: KeyHash) -> Departure {
        self.segment.one_more();
        Departure { segment: self.segment.clone(), location, hash }
    }
}
