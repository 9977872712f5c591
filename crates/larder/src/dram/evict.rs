//! Evicts segments: records with hits are copied onward, dead ones are dropped, and the rest is demoted for flash, or
//! is gone.

use super::evictors::Evictor;
use super::index::{Entry, Location};
use super::lane::{Lane, group_of};
use super::policy::frequency_left;
use super::queues::{Queue, SealedSegment, Victim};
use super::readers::LockProofAlone;
use super::record::{ItemView, record_bytes};
use super::segment::{Frozen, PARTS_MAX};
use super::{DramTier, lock};
use crate::base::item::{ItemRef, is_expired};
use crate::base::key::KeyHash;
use crate::base::removal::RemovalReason;
use crate::base::sync::MutexGuard;
use crate::base::tier::Tier;

/// Number of segments kept free if there is flash.
const HEADROOM: usize = 2;
/// Maximum number of segments demoted per opened segment, so that no caller pays for all.
const DEMOTING_FOR_ONE: usize = 4;
/// Number of records whose index entries are prefetched at a time: about as many memory accesses as a core has in
/// flight.
const FETCHED_AHEAD: usize = 16;
// Each run of a segment gets on with each round.
const _: () = assert!(FETCHED_AHEAD >= PARTS_MAX);

impl DramTier {
    /// Demotes every item, for shutdown.
    pub(crate) fn evict_all(&self) {
        let mut evictors = self.evictors.all();
        self.seal_all(&mut evictors);
        let mut queues = lock(&self.queues);
        while let Some(sealed) = queues.next_of_all() {
            self.demotions.add(Frozen::new(sealed.segment), sealed.slot);
        }
    }

    /// Removes every item that is in the tier at the start of the call. Items added during the call may stay.
    /// Segments without live items are the first to be reused.
    pub(crate) fn clear(&self) {
        self.index.clear(|entry, held| self.note_dead(entry.location(), held));
        self.reclaim(); // the tables
        // Drop demoting segments without live records; records still found there are newer than the clear.
        let mut newer = Vec::new();
        while let Some(demotion) = self.next_demotion() {
            newer.push(demotion);
        }
        newer.into_iter().for_each(|demotion| self.requeue_demotion(demotion));
    }

    /// Demotes segments before their space is needed: flash takes its time, and callers with new items should not all
    /// wait for it at once.
    pub(super) fn keep_headroom(&self, now_s: u32) {
        for _ in 0..DEMOTING_FOR_ONE {
            let room = self.segments.pool().room_bytes(self.other_bytes());
            if room >= HEADROOM * self.segments.pool().segment_bytes() || !self.make_room(now_s) {
                return;
            }
        }
    }

    /// Evicts to compensate for the growth of the index.
    pub(super) fn keep_budget(&self, now_s: u32) {
        while self.segments.pool().shrink(self.other_bytes()) && self.make_room(now_s) {}
    }

    /// Evicts or compacts the segment whose turn it is. `false` if there is none, or if others must be demoted first.
    pub(super) fn make_room(&self, now_s: u32) -> bool {
        let mut evictor = self.evictors.free_one();
        if self.demotions.are_enough(self.segments.pool().budget_bytes()) {
            return false;
        }
        let (budget, segment_bytes) =
            (self.segments.pool().budget_bytes(), self.segments.pool().segment_bytes());
        let next = || lock(&self.queues).next_turn(budget, segment_bytes, now_s);
        let turn = next().or_else(|| {
            // With a small budget all segments may be open.
            self.seal(&mut evictor.lane);
            self.seal_all(&mut self.evictors.idle());
            next()
        });
        match turn {
            Some(Victim::Evict(victim)) => self.evict(&mut evictor, victim, now_s),
            Some(Victim::Compact(sparse)) => self.compact(&mut evictor.lane, sparse, now_s),
            None => return false,
        }
        true
    }

    /// Copies the live records of a sparse segment together with those of others.
    fn compact(&self, evictor: &mut Lane, sparse: SealedSegment, now_s: u32) {
        debug_assert_eq!(sparse.slot, sparse.segment.slot(), "entries name it by its number");
        let mut all_went = true;
        let frozen = Frozen::new(sparse.segment.clone());
        self.each_record(&frozen, &sparse, |from, hash, record| {
            let Some(entry) = self.index.entry_at(hash, from) else { return };
            let item = record.item(hash, entry.is_clean());
            let place = (sparse.queue, group_of(item.expiry_s, now_s));
            all_went = all_went && self.reinsert(evictor, &item, place, (from, entry.frequency()));
        });
        drop(frozen);
        if all_went {
            self.free(sparse.segment);
        } else {
            lock(&self.queues).push(sparse);
        }
    }

    fn evict(&self, evictor: &mut Evictor, victim: SealedSegment, now_s: u32) {
        let mut demote = false;
        let capacity = victim.segment.capacity();
        let mut threshold =
            evictor.seen(victim.queue).threshold(self.policy, victim.queue, capacity);
        let mut to_remember = Vec::with_capacity(FETCHED_AHEAD);
        let frozen = Frozen::new(victim.segment.clone());
        self.each_record(&frozen, &victim, |from, hash, record| {
            let expired = is_expired(record.expiry_s, now_s);
            let stays = |entry: Entry| !expired && threshold.is_passed_by(entry.frequency());
            // Clean items that flash holds need not go there: they leave without a sender, and their segment is free
            // at once.
            let is_below =
                |entry: Entry| entry.is_clean() && self.kept_below.keeps(&record.item(hash, true));
            let mut is_gone = false;
            let leaves = |entry| {
                is_gone = !stays(entry) && (!self.above_flash || is_below(entry));
                is_gone
            };
            let Some(entry) = self.index.remove_at_if(hash, from, leaves) else { return };
            let item = record.item(hash, entry.is_clean());
            let stays = stays(entry);
            if !expired {
                threshold.note(entry.frequency(), record_bytes(&item));
            }
            if stays {
                let frequency = frequency_left(self.policy, victim.queue, entry.frequency());
                let place = (Queue::Main, group_of(item.expiry_s, now_s));
                if self.reinsert(&mut evictor.lane, &item, place, (from, frequency)) {
                    return;
                }
                if !self.above_flash && !self.index.remove_at(hash, from) {
                    return;
                }
            }
            if victim.queue == Queue::Small && !expired {
                to_remember.push(hash);
                if to_remember.len() == FETCHED_AHEAD {
                    self.remember(&mut to_remember);
                }
            }
            if !self.above_flash {
                self.count_gone(&item, expired);
            } else if is_gone {
                self.counters.evicted_clean_objects.add(1);
            } else {
                demote = true;
            }
        });
        self.remember(&mut to_remember);
        *evictor.seen(victim.queue) = threshold.into_seen();
        if demote {
            self.demotions.add(frozen, victim.slot);
        } else {
            drop(frozen);
            self.free(victim.segment);
        }
    }

    /// Adds the hashes of evicted records to the ghost.
    fn remember(&self, left: &mut Vec<KeyHash>) {
        let inside = self.index.readers().enter();
        debug_assert!(
            left.len() <= FETCHED_AHEAD,
            "the prefetch covers at most this number of hashes"
        );
        left.drain(..).for_each(|hash| self.ghost.remember(hash, inside.held()));
    }

    /// Calls `each` for the records of a segment. Follows several runs of them in turn, and prefetches the next records
    /// and the index entries of several at a time, because one after the other each would wait for memory.
    fn each_record(
        &self,
        frozen: &Frozen,
        sealed: &SealedSegment,
        mut each: impl FnMut(Location, KeyHash, &ItemView<'_>),
    ) {
        let mut runs = frozen.runs();
        let mut ahead = Vec::with_capacity(FETCHED_AHEAD);
        while !runs.is_empty() {
            let inside = self.index.readers().enter();
            let of_each = FETCHED_AHEAD / runs.len();
            for run in &mut runs {
                for (at, record) in frozen.take_of(run, of_each) {
                    let hash = self.hasher.hash(record.key);
                    self.index.prefetch(hash);
                    if sealed.queue == Queue::Small {
                        self.ghost.prefetch(hash, inside.held());
                    }
                    ahead.push((at, hash, record));
                }
                frozen.prefetch_head(run.at);
            }
            drop(inside);
            runs.retain(|run| run.at < run.end);
            for (at, hash, record) in ahead.drain(..) {
                each(Location { slot: sealed.slot, at }, hash, &record);
            }
        }
    }

    /// Counts an item that has left for good.
    fn count_gone(&self, item: &ItemRef<'_>, expired: bool) {
        let (counter, reason) = match expired {
            true => (&self.counters.expired, RemovalReason::Expired),
            false => (&self.counters.dram_evicted_objects, RemovalReason::Evicted),
        };
        counter.add(1);
        self.counters.removals.key(reason, Tier::Dram, item.key, item.object_bytes());
    }

    /// Copies a record to the end of a queue. `false` if there is no place for it.
    fn reinsert(
        &self,
        evictor: &mut Lane,
        item: &ItemRef<'_>,
        place: (Queue, usize),
        (from, frequency): (Location, u64),
    ) -> bool {
        loop {
            if let Some((segment, to)) = evictor.append(place, item) {
                debug_assert_ne!(to.slot, from.slot, "what is copied onward leaves its segment");
                let segment = segment.clone();
                // Copy the marks again, since a caller may have won the record after the copy was made.
                let marked = |locked: &LockProofAlone| {
                    let old = self.segments.get(from, locked).segment();
                    segment.take_marks(to.at, (old, from.at), locked);
                };
                if !self.index.relocate(item.hash, from, (to, frequency), marked) {
                    segment.note_dead(record_bytes(item)); // it was replaced during the copy
                }
                return true;
            }
            // The victim is freed or demoted afterwards, so this exceeds the budget only for a moment.
            let writer = self.segments.pool().open_anyway(record_bytes(item), self.other_bytes());
            if self.reopen(evictor, place, writer).is_err() {
                return false;
            }
        }
    }

    /// Seals every open segment, those of these evictors first.
    pub(super) fn seal_all(&self, evictors: &mut [MutexGuard<'_, Evictor>]) {
        evictors.iter_mut().for_each(|evictor| self.seal(&mut evictor.lane));
        self.lanes.iter().for_each(|lane| self.seal(&mut lock(lane)));
    }

    fn seal(&self, lane: &mut Lane) {
        let mut queues = lock(&self.queues);
        lane.seal_all().for_each(|sealed| queues.push(sealed));
    }
}
