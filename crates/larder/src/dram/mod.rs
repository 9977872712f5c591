//! The DRAM tier: items in segments, a compact index, and an eviction policy for when the budget is used up.
//!
//! ```text
//!   get ──► index shard (no lock) ──► slot ──► record in its segment ──► Value pins the segment
//!   set ──► the same key, as long, no reader pins its segment: its record is overwritten
//!       └─► lane: append to an open segment ──► index entry points to it; the old record is dead
//!                     │ full
//!                     ▼
//!              sealed, in a queue ──► its turn: records with hits are copied onward, others leave
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `memory` | memory from the kernel |
//! | `segment` | memory that is appended to, overwritten, pinned and reused; `pins`: references that keep it |
//! | `record`, `versions` | one item in a segment, and the version numbers of a key's values |
//! | `permits` | how many values may be kept without a copy |
//! | `slots`, `tier_segments` | numbers for segments, and when a segment is freed |
//! | `readers`, `retired` | readers without a lock, and memory that waits for them |
//! | `published` | a slice that such readers find |
//! | `index`, `table` | from a key's hash to slot and offset, with a lock or without |
//! | `directory` | the shards of the index, whose number grows |
//! | `pool`, `budget` | the budget, and what follows when it changes |
//! | `lane` | open segments, by lifetime |
//! | `queues`, `ghost` | the eviction order |
//! | `put` | how items are inserted |
//! | `evict`, `evictors`, `threshold` | how items are evicted, by which tasks, and which items with hits are |
//! | `demotions`, `allowance`, `together` | records on their way to flash, and the limit of their bytes |
//! | `value` | a value in the hands of a caller: it pins its record |
//! | `iterate` | lists the content, for scans and `flush` |
//!
//! Uses `base`, `observe` and `config`.
//!
//! Lock order: an evictor's, demotions, index shard, lane, queues, pool, retired memory. The lock of an engine that
//! tells without I/O whether it has an item comes after the index's. No lock is held during a wait for flash, and
//! only an evictor's lock may be held during a wait for readers. Holding one evictor lock, take another only with
//! `try_lock` or in ascending order.

mod allowance;
mod budget;
mod demotions;
mod directory;
mod evict;
mod evictors;
mod ghost;
mod index;
mod iterate;
mod lane;
mod memory;
mod permits;
mod policy;
mod pool;
mod published;
mod put;
mod queues;
mod readers;
mod record;
mod retired;
mod segment;
mod slots;
mod sparse;
mod table;
mod threshold;
mod tier_segments;
mod together;
pub(crate) mod value;
pub(crate) mod versions;

use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, PoisonError};

use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::signal::ALL;
use crate::base::sync::{Mutex, MutexGuard};
use crate::config::DramPolicy;
use crate::observe::stats::Counters;
pub(crate) use allowance::TakenBytes;
use budget::{BudgetChange, SEGMENT_BYTES, Shape};
pub(crate) use demotions::{Demotion, Demotions};
use evictors::Evictors;
use ghost::Ghost;
use index::{Entry, Index, IndexMoved, Location, Looking, OFFSETS_END, Records};
use lane::Lane;
pub(crate) use put::OnItsWay;
use queues::Queues;
use readers::LockProof;
pub(crate) use record::ItemView;
use segment::{Segment, Share};
use tier_segments::TierSegments;
pub(crate) use together::{Receiver, Together};
use value::PinnedValue;
use versions::Versions;

const _: () = assert!(*SEGMENT_BYTES.end() <= OFFSETS_END);
/// Number of lock-free attempts that moves may spoil before a look-up takes the lock.
const LOOKS_WITHOUT_LOCK: usize = 3;

/// Items in memory.
#[derive(Debug)]
pub(crate) struct DramTier {
    index: Index,
    segments: TierSegments,
    lanes: Box<[Mutex<Lane>]>,
    evictors: Evictors,
    versions: Arc<Versions>,
    queues: Mutex<Queues>,
    ghost: Ghost,
    change: BudgetChange,
    demotions: Demotions,
    policy: DramPolicy,
    /// Whether evicted items go to flash; otherwise they are lost.
    above_flash: bool,
    /// Tells which items flash holds unchanged: they leave without a write.
    kept_below: KeptBelow,
    /// The hash under which the index knows a key.
    hasher: KeyHasher,
    /// Counts items that are gone.
    counters: Arc<Counters>,
    /// Whether hits record their time.
    notes_access: bool,
}

/// Says whether flash has a clean item.
type Keeps = dyn Fn(&ItemRef<'_>) -> bool + Send + Sync;

/// Tells whether flash has a clean item.
#[derive(Default)]
struct KeptBelow(Option<Box<Keeps>>);

impl KeptBelow {
    fn keeps(&self, item: &ItemRef<'_>) -> bool {
        self.0.as_ref().is_some_and(|keeps| keeps(item))
    }
}

impl fmt::Debug for KeptBelow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeptBelow").field(&self.0.is_some()).finish()
    }
}

/// Result of a look-up in the tier.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The item is here.
    Hit(PinnedValue),
    /// The item was here but has expired. Flash may hold an older version, which has expired too.
    Expired,
    /// The tier knows nothing of the key; flash may.
    Absent,
}

/// Decides, under the lock of both, whether an item may replace the existing record, if there is one.
pub(crate) type Admit<'a> = &'a (dyn Fn(Option<&ItemView<'_>>) -> bool + Sync);

/// All of the budget is used by records on their way to flash, or pinned by values; or the index has as many keys of
/// this hash as it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DramFull;

impl DramTier {
    pub(crate) fn new(
        budget_bytes: u64,
        policy: DramPolicy,
        above_flash: bool,
        first_version: u64,
        hasher: KeyHasher,
    ) -> Self {
        let budget = usize::try_from(budget_bytes).unwrap_or(usize::MAX);
        let shape = Shape::of(budget, policy);
        assert!(
            shape.segment_bytes <= OFFSETS_END,
            "an entry can name all places in it: {shape:?}"
        );
        Self {
            index: Index::new(shape.shards),
            segments: TierSegments::new(budget, shape.segment_bytes),
            lanes: (0..shape.lanes).map(|_| Mutex::default()).collect(),
            evictors: Evictors::beside(shape.lanes),
            versions: Arc::new(Versions::after(first_version)),
            queues: Mutex::default(),
            ghost: Ghost::of_bytes(shape.ghost_bytes),
            change: BudgetChange::none_yet(budget),
            demotions: Demotions::default(),
            policy,
            above_flash,
            kept_below: KeptBelow::default(),
            hasher,
            counters: Arc::default(),
            notes_access: false,
        }
    }

    /// Sets whether segments are demoted ahead of need, which needs a sender besides the callers, and the number of
    /// bytes that may be demoted above the budget.
    pub(crate) fn demoting_by(self, ahead: bool, above_bytes: u64) -> Self {
        let above_bytes = usize::try_from(above_bytes).unwrap_or(usize::MAX);
        Self { demotions: Demotions::new(ahead, above_bytes), ..self }
    }

    /// Shares the version counters with other tiers, from `first` on.
    pub(crate) fn giving(self, versions: Arc<Versions>, first: u64) -> Self {
        versions.raise_to(first);
        Self { versions, ..self }
    }

    /// Places the tier above a flash that tells without I/O whether it has an item unchanged.
    pub(crate) fn above(
        self,
        keeps: impl Fn(&ItemRef<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { kept_below: KeptBelow(Some(Box::new(keeps))), ..self }
    }

    /// Sets whether hits record their time.
    pub(crate) fn noting_access(self, notes_access: bool) -> Self {
        Self { notes_access, ..self }
    }

    /// Sets the counters for items that are gone.
    pub(crate) fn counting(self, counters: Arc<Counters>) -> Self {
        Self { counters, ..self }
    }

    /// Looks `key` up and counts the use. Calls `now_ms` only if an item may expire, or if access times are recorded.
    pub(crate) fn get(&self, hash: KeyHash, key: &[u8], now_ms: impl Fn() -> u64) -> Lookup {
        let found = self.index.find(hash, |at, looking| self.look_at(at, looking, key, &now_ms));
        found.unwrap_or(Lookup::Absent)
    }

    /// The same without a lock, for hits. After `None` the caller must call [`DramTier::get`]: the key's entry may
    /// have moved, or its record may be being overwritten. A caller that needs an answer later than its own earlier
    /// actions must do so too: a change that has begun but not returned may not be visible yet.
    pub(crate) fn get_at_once(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_ms: impl Fn() -> u64,
    ) -> Option<PinnedValue> {
        let look = |at, looking: &Looking<'_>| self.look_at(at, looking, key, &now_ms);
        match self.index.find_without_lock(hash, look) {
            Ok(Some(Lookup::Hit(value))) => Some(value),
            Ok(Some(Lookup::Expired | Lookup::Absent) | None) | Err(IndexMoved) => None,
        }
    }

    /// The same, without a lock unless entries move all the time. For callers that need no answer later than a change
    /// that has begun.
    pub(crate) fn get_prefer_lock_free(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_ms: impl Fn() -> u64,
    ) -> Lookup {
        for _ in 0..LOOKS_WITHOUT_LOCK {
            let look = |at, looking: &Looking<'_>| self.look_at(at, looking, key, &now_ms);
            if let Ok(found) = self.index.find_without_lock(hash, look) {
                return found.unwrap_or(Lookup::Absent);
            }
        }
        self.get(hash, key, now_ms)
    }

    /// Prefetches all memory that look-ups of these hashes need, first entries, then records: each look-up waits for
    /// two memory accesses, and many together wait for two as well.
    pub(crate) fn prefetch(&self, hashes: &[KeyHash]) {
        hashes.iter().for_each(|&hash| self.index.prefetch(hash));
        self.index.peek_all(hashes, |at, held| self.segments.get(at, held).prefetch(at.at));
    }

    /// The result of an entry for `key`. `None` if it belongs to another key, or if the record may be being
    /// overwritten, which `looking` reports afterwards.
    #[inline]
    fn look_at(
        &self,
        entry: Entry,
        looking: &Looking<'_>,
        key: &[u8],
        now_ms: &impl Fn() -> u64,
    ) -> Option<Lookup> {
        let at = entry.location();
        let pin = self.segments.get(at, looking.held()).pin(at.at, looking)?;
        if !pin.has_key(key) {
            return None;
        }
        let record = pin.record();
        let now_ms = (self.notes_access || record.expiry_s != 0).then(now_ms);
        if now_ms.is_some_and(|now_ms| record.is_over(now_ms)) {
            return Some(Lookup::Expired);
        }
        let marks = record.marks;
        let accessed_s = now_ms.filter(|_| self.notes_access).map(second_of);
        Segment::note_hit(&pin, marks, accessed_s);
        Some(Lookup::Hit(PinnedValue::new(pin, marks)))
    }

    /// Whether there may be an item of this hash.
    pub(crate) fn holds(&self, hash: KeyHash) -> bool {
        self.index.peek(hash, |_, _| Some(())).is_some()
    }

    /// Whether `key` is here and alive; `Some(false)` means expired. Counts no use.
    pub(crate) fn contains(&self, hash: KeyHash, key: &[u8], now_ms: u64) -> Option<bool> {
        self.index.peek(hash, |entry, locked| {
            let record = self.record(entry.location(), locked);
            (record.key == key).then(|| !record.is_over(now_ms))
        })
    }

    /// Draws a version for the next value of `key`.
    pub(crate) fn draw_version(&self, key: &[u8]) -> NonZeroU64 {
        NonZeroU64::new(self.versions.next(key)).unwrap_or(NonZeroU64::MIN)
    }

    /// Marks this version of `key` as won, if it is here and alive. Returns whether it was not won before.
    pub(crate) fn win(&self, hash: KeyHash, key: &[u8], version: u64, now_ms: u64) -> bool {
        let won = self.index.peek(hash, |entry, locked| {
            let at = entry.location();
            let record = self.record(at, locked);
            let is_it = record.version == version && !record.is_over(now_ms);
            let win = || is_it && self.segments.get(at, locked).segment().win(at.at, locked);
            (record.key == key).then(win)
        });
        won.unwrap_or(false)
    }

    /// Removes `key` from the tier, demoting or not. `None`: it was not there; `Some(false)`: it had expired.
    pub(crate) fn remove(&self, hash: KeyHash, key: &[u8], now_ms: u64) -> Option<bool> {
        self.index.remove_if(hash, key, self, |entry, locked| {
            self.note_dead(entry.location(), locked);
            Some(!self.record(entry.location(), locked).is_over(now_ms))
        })
    }

    /// Removes `key` from the tier if it has expired.
    pub(crate) fn remove_expired(&self, hash: KeyHash, key: &[u8], now_ms: u64) {
        self.index.remove_if(hash, key, self, |entry, locked| {
            let at = entry.location();
            self.record(at, locked).is_over(now_ms).then(|| self.note_dead(at, locked))
        });
    }

    /// Bytes of a segment.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.segments.pool().segment_bytes()
    }

    /// The next evicted record that must be written to flash or removed there. It stays visible until
    /// [`DramTier::demoted`].
    pub(crate) fn next_demotion(&self) -> Option<Demotion> {
        let (demotion, ended) = self.demotions.next(self.hasher, |hash, at| self.is_at(hash, at));
        ended.into_iter().for_each(|segment| self.free_demoted(segment));
        demotion
    }

    /// Whether items go to several open segments, by their hash: one may have room while another has none.
    pub(crate) fn has_lanes(&self) -> bool {
        self.lanes.len() > 1
    }

    /// Urgency of demotions, from 0 to `most`; at `most`, callers with new items have to wait.
    pub(crate) fn urgency_of_demotions(&self, most: usize) -> usize {
        self.demotions.urgency(most, self.segments.pool().budget_bytes())
    }

    /// Records on their way to flash.
    pub(crate) fn demotions(&self) -> &Demotions {
        &self.demotions
    }

    /// Demotes the next few records, in their order in memory. The caller has exclusive use of the tier.
    pub(crate) fn demote_together(&self, receiver: &mut impl Receiver) -> Together {
        let to = (&self.index, self.hasher);
        let went = self.demotions.with_first(|demoting| together::demote(to, demoting, receiver));
        went.unwrap_or(Together::Nothing)
    }

    /// Puts back a record from [`DramTier::next_demotion`] that was not dealt with.
    pub(crate) fn requeue_demotion(&self, demotion: Demotion) {
        self.demotions.requeue(demotion);
    }

    /// The demoting item, if this very version is still on its way out.
    pub(crate) fn demoting<'a>(&self, demotion: &'a Demotion) -> Option<ItemRef<'a>> {
        let entry = self.index.entry_at(demotion.hash, demotion.location)?;
        Some(demotion.item(entry.is_clean()))
    }

    /// Flash has dealt with the record, so it need not stay visible here.
    pub(crate) fn demoted(&self, demotion: Demotion) {
        self.index.remove_at(demotion.hash, demotion.location);
        let Demotion { segment, .. } = demotion;
        if segment.one_demoted() {
            self.free_demoted(segment.thaw());
        }
        self.demotions.demoted.notify(ALL);
    }

    fn free_demoted(&self, segment: Share) {
        debug_assert!(segment.is_dealt_with(), "flash has dealt with every record of it");
        self.demotions.leaves(&segment);
        self.free(segment);
        self.demotions.has_left();
    }

    /// Number of values that were copied for a caller because too many were kept already.
    pub(crate) fn copied_values(&self) -> u64 {
        self.segments.pool().permits().copied.get()
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.segments.pool().budget_bytes() as u64
    }

    /// Number of items in the tier.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Memory of the tier: segments, index, ghost.
    pub(crate) fn used_bytes(&self) -> u64 {
        (self.segments.pool().allocated_bytes() + self.other_bytes()) as u64
    }

    /// Gives back a segment that no index entry names any more.
    fn free(&self, segment: Share) {
        self.segments.free(segment, self.other_bytes(), self.index.readers());
    }

    /// Frees memory that no reader can see any more.
    fn reclaim(&self) {
        self.segments.reclaim(self.index.readers());
    }

    fn note_dead(&self, at: Location, locked: &LockProof) {
        let segment = self.segments.get(at, locked).segment();
        if segment.note_dead(segment.record_bytes(at.at, locked)) {
            lock(&self.queues).note_sparser(at.slot);
        }
    }

    fn is_at(&self, hash: KeyHash, location: Location) -> bool {
        self.index.entry_at(hash, location).is_some()
    }

    fn record<'a>(&'a self, at: Location, locked: &'a LockProof) -> ItemView<'a> {
        self.segments.get(at, locked).segment().record(at.at, locked)
    }

    /// The lane of a hash, or another lane that is free: with more threads than cores, the thread that holds it may
    /// be preempted.
    fn lane(&self, hash: KeyHash) -> MutexGuard<'_, Lane> {
        debug_assert!(!self.lanes.is_empty(), "there is at least one lane");
        let own = usize::from(hash.tag()) % self.lanes.len();
        let (before, from_own) = self.lanes.split_at(own);
        let free = from_own.iter().chain(before).find_map(|lane| lane.try_lock().ok());
        free.unwrap_or_else(|| lock(&self.lanes[own]))
    }

    /// Memory besides segments.
    fn other_bytes(&self) -> usize {
        self.index.memory_bytes() + self.ghost.memory_bytes() + self.segments.overhead_bytes()
    }

    /// Number of demotions that the ghost remembers: about the number of items in the tier.
    fn window(&self) -> usize {
        self.index.memory_bytes() / 10
    }
}

impl Records for DramTier {
    fn is_key(&self, at: Location, key: &[u8], locked: &LockProof) -> bool {
        self.segments.get(at, locked).segment().has_key(at.at, key, locked)
    }

    fn hash(&self, at: Location, locked: &LockProof) -> KeyHash {
        self.hasher.hash(self.record(at, locked).key)
    }
}

fn second_of(now_ms: u64) -> u32 {
    u32::try_from(now_ms / 1000).unwrap_or(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings;
#[cfg(test)]
#[cfg(not(shuttle))]
mod kept_tests;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
