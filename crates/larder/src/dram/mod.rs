//! The DRAM tier: items in segments, a compact index, and a policy that says who leaves when the budget
//! is spent.
//!
//! ```text
//!   get ──► index shard (no lock) ──► slot ──► record in its segment ──► Value pins the segment
//!   set ──► the same key, as long, nobody pins its segment: its record is overwritten
//!       └─► lane: append to an open segment ──► index entry points to it; the old record is dead
//!                     │ full
//!                     ▼
//!              sealed, in a queue ──► its turn: records with hits are copied onward, others leave
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `memory` | bytes from the kernel |
//! | `segment` | memory that is appended to, overwritten, pinned and reused |
//! | `record`, `versions` | one item in a segment, and what tells it from those of its key before |
//! | `pins` | who keeps a segment |
//! | `slots` | numbers for segments |
//! | `readers`, `retired` | who looks without a lock, and what waits for them |
//! | `published` | a slice that they find |
//! | `index`, `table` | from a key's hash to slot and offset |
//! | `pool` | the budget |
//! | `prefetch` | asking memory ahead |
//! | `lane` | open segments, by lifetime |
//! | `queues`, `ghost` | who leaves first |
//! | `evict` | how they leave |
//! | `departures` | records on their way to flash |
//! | `iterate` | what is here, for scans and `flush` |
//!
//! Locks are taken in this order: a lane or the evictor's, departures, index shard, queues, pool, what
//! is retired. No lock is held while flash is waited for, and nobody waits for a reader while he holds
//! one but the evictor's.

mod departures;
mod evict;
mod ghost;
mod index;
mod iterate;
mod lane;
mod memory;
mod pins;
mod pool;
mod prefetch;
mod published;
mod queues;
mod readers;
mod record;
mod retired;
mod segment;
mod slots;
mod table;
mod versions;

use std::sync::{Arc, PoisonError};

use crate::config::DramPolicy;
use crate::key::{KeyHash, KeyHasher};
use crate::stats::Counters;
use crate::sync::{Mutex, MutexGuard, begin_to_write, wait_a_little};
use crate::value::{ItemRef, Value, is_expired};
pub(crate) use departures::Departure;
use departures::Departures;
use ghost::Ghost;
use index::{Crowded, Entry, Index, Location, Looking, Moved, OFFSETS_END, Records};
use lane::{Lane, group_of, may_lie_with};
pub(crate) use pins::Pin;
use pins::Share;
use pool::Pool;
use queues::{Queue, Queues, Sealed, first_queue};
use readers::{Locked, LockedAlone};
pub(crate) use record::{Record, encode, record_at, record_bytes};
use segment::Frozen;
pub(crate) use segment::Writer;
use slots::Slots;
use versions::Versions;

/// The tier is divided into about so many segments.
const SEGMENTS: usize = 512;
const SEGMENT_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 20;
const _: () = assert!(*SEGMENT_BYTES.end() <= OFFSETS_END);
/// The ghost gets this part of the budget: a mark of 4 bytes for every 128.
const GHOST_PART: usize = 32;
/// One index shard for so many bytes of budget, at most [`SHARDS_MAX`]: a shard is small, so that one
/// that grows holds nobody up for long.
const SHARD_BYTES: usize = 512 << 10;
const SHARDS_MAX: usize = 1 << 18;
/// Moves that make somebody look again before he takes the lock.
const LOOKS_WITHOUT_LOCK: usize = 3;
/// When all segments are pinned most pins will be gone in a moment: so often somebody looks again before it
/// gives up.
const LOOKS_AT_PINS: u32 = 40;
/// One lane for so many bytes of budget, at most [`LANES_MAX`].
const LANE_BYTES: usize = 64 << 20;
const LANES_MAX: usize = 8;

/// Items in memory.
#[derive(Debug)]
pub(crate) struct DramTier {
    index: Index,
    slots: Slots,
    pool: Pool,
    lanes: Box<[Mutex<Lane>]>,
    /// Held by the one who evicts; what goes on is appended here.
    evictor: Mutex<Lane>,
    versions: Versions,
    queues: Mutex<Queues>,
    ghost: Ghost,
    departures: Departures,
    policy: DramPolicy,
    /// Whether what leaves goes to flash; otherwise it is gone.
    above_flash: bool,
    /// Under which hash the index knows a key.
    hasher: KeyHasher,
    /// Where it is counted what is gone.
    counters: Arc<Counters>,
}

/// Whole pages, but for small tiers.
fn segment_bytes(budget: usize) -> usize {
    let bytes = (budget / SEGMENTS).clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
    let unit = if bytes < 64 << 10 { 64 } else { 4096 };
    bytes / unit * unit
}

/// What the tier knows about a key.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// It is here.
    Hit(Value),
    /// It was here, but its time is over. Flash may hold an older version, which is over too.
    Expired,
    /// The tier knows nothing; flash may.
    Absent,
}

/// Decides whether an item may be put in the place of the record that is there, if one is: under
/// the lock of both.
pub(crate) type Admit<'a> = &'a (dyn Fn(Option<&Record<'_>>) -> bool + Sync);

/// The budget is spent on records that are on their way to flash, or that values pin; or the index has
/// as many keys of this hash as it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl DramTier {
    pub(crate) fn new(
        budget_bytes: u64,
        policy: DramPolicy,
        above_flash: bool,
        first_version: u32,
        hasher: KeyHasher,
    ) -> Self {
        let budget = usize::try_from(budget_bytes).unwrap_or(usize::MAX);
        let segment_bytes = segment_bytes(budget);
        let shards = (budget / SHARD_BYTES).clamp(1, SHARDS_MAX).next_power_of_two();
        let lanes = (budget / LANE_BYTES).clamp(1, LANES_MAX);
        let ghost = match policy {
            DramPolicy::S3Fifo => budget / GHOST_PART,
            DramPolicy::Lru => 0,
        };
        Self {
            index: Index::new(shards),
            slots: Slots::new(),
            pool: Pool::new(budget, segment_bytes),
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            evictor: Mutex::default(),
            versions: Versions::after(first_version),
            queues: Mutex::default(),
            ghost: Ghost::of_bytes(ghost),
            departures: Departures::default(),
            policy,
            above_flash,
            hasher,
            counters: Arc::default(),
        }
    }

    /// The same, which counts there what is gone.
    pub(crate) fn counting(self, counters: Arc<Counters>) -> Self {
        Self { counters, ..self }
    }

    /// Looks `key` up and counts the use. `now_s` is asked only where something expires.
    pub(crate) fn get(&self, hash: KeyHash, key: &[u8], now_s: impl Fn() -> u32) -> Lookup {
        let found = self.index.find(hash, |at, looking| self.look_at(at, looking, key, &now_s));
        found.unwrap_or(Lookup::Absent)
    }

    /// The same without a lock, for hits. Who gets none has to ask [`DramTier::get`]: the key's entry
    /// may have moved, or its record be overwritten. So must who needs an answer that is later than what
    /// it did before: a change that has begun, but has not returned, may not be seen yet.
    pub(crate) fn get_at_once(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: impl Fn() -> u32,
    ) -> Option<Value> {
        let look = |at, looking: &Looking<'_>| self.look_at(at, looking, key, &now_s);
        match self.index.find_without_lock(hash, look) {
            Ok(Some(Lookup::Hit(value))) => Some(value),
            Ok(Some(Lookup::Expired | Lookup::Absent) | None) | Err(Moved) => None,
        }
    }

    /// The same without a lock, unless entries are moved all the time, for who needs no answer that is
    /// later than a change that has begun.
    pub(crate) fn get_without_lock(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: impl Fn() -> u32,
    ) -> Lookup {
        for _ in 0..LOOKS_WITHOUT_LOCK {
            let look = |at, looking: &Looking<'_>| self.look_at(at, looking, key, &now_s);
            if let Ok(found) = self.index.find_without_lock(hash, look) {
                return found.unwrap_or(Lookup::Absent);
            }
        }
        self.get(hash, key, now_s)
    }

    /// Asks memory for all that look-ups of these hashes will need, first for entries, then for records:
    /// one look-up waits for two trips to memory, and so do many together.
    pub(crate) fn prefetch(&self, hashes: &[KeyHash]) {
        hashes.iter().for_each(|&hash| self.index.prefetch(hash));
        self.index.peek_all(hashes, |at, held| self.slots.get(at, held).prefetch(at.at));
    }

    /// What an entry means for `key`: nothing, if it is another's, or if the record may be being
    /// overwritten, of which who looks learns afterwards.
    #[inline]
    fn look_at(
        &self,
        entry: Entry,
        looking: &Looking<'_>,
        key: &[u8],
        now_s: &impl Fn() -> u32,
    ) -> Option<Lookup> {
        let at = entry.location();
        let pin = self.slots.get(at, looking.held()).pin(at.at, looking)?;
        let record = pin.record();
        if record.key != key {
            return None;
        }
        if record.expiry_s != 0 && is_expired(record.expiry_s, now_s()) {
            return Some(Lookup::Expired);
        }
        Some(Lookup::Hit(Value::new(pin)))
    }

    /// Whether the tier could hold an item of `object_bytes` beside a few others.
    pub(crate) fn can_hold(&self, object_bytes: usize) -> bool {
        let room = self.pool.budget_bytes().saturating_sub(self.other_bytes());
        let others = self.pool.segment_bytes() * 4;
        object_bytes.saturating_add(64 + others) <= room
    }

    /// Puts `item` in the place of an older version, if `admit` agrees.
    pub(crate) fn insert(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
    ) -> Result<(), Full> {
        // Several trips to memory at once. The locks below would wait for one before they begin the next.
        self.ghost.prefetch(item.hash);
        self.index.prefetch(item.hash);
        if self.overwrite(item, now_s, admit).is_none() {
            self.put(item, now_s, admit, |_, _| ())?;
        }
        Ok(())
    }

    /// Puts `item` in the place of an older version if `admit` agrees, and returns what was put.
    pub(crate) fn insert_if(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
    ) -> Result<Option<Value>, Full> {
        self.put(item, now_s, admit, |segment, at| Value::new(segment.pin(at)))
    }

    /// Whether there may be an item of this hash.
    pub(crate) fn holds(&self, hash: KeyHash) -> bool {
        self.index.peek(hash, |_, _| Some(())).is_some()
    }

    /// Whether `key` is here and alive: `Some(false)` is expired. Counts no use.
    pub(crate) fn contains(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<bool> {
        self.index.peek(hash, |entry, locked| {
            let record = self.record(entry.location(), locked);
            (record.key == key).then(|| !is_expired(record.expiry_s, now_s))
        })
    }

    /// Puts `item` where there is no budget for it, and sends it on to flash at once.
    pub(crate) fn insert_to_depart(
        &self,
        item: &ItemRef<'_>,
        admit: Admit<'_>,
    ) -> Result<(), Full> {
        let bytes = record_bytes(item);
        let mut writer = self.pool.open_anyway(bytes, self.other_bytes());
        let version = self.versions.next(item.hash);
        writer.append(bytes, |room| encode(room, item, version)).ok_or(Full)?;
        let segment = writer.segment().clone();
        let slot = self.number(&segment)?;
        let location = Location { slot, at: 0 };
        let frozen = Frozen::new(segment.clone());
        let pointed = self.point(item, location, admit);
        self.departures.add(Sealed { segment, slot, queue: Queue::Main });
        drop(frozen);
        pointed.map(|_| ())
    }

    /// Takes `key` out of the tier, departing or not. Says whether it was there; `None` is no.
    /// `Some(false)` means expired.
    pub(crate) fn remove(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<bool> {
        self.index.remove_if(hash, key, self, |entry, locked| {
            self.note_dead(entry.location(), locked);
            Some(!is_expired(self.record(entry.location(), locked).expiry_s, now_s))
        })
    }

    /// Takes `key` out of the tier if it has expired by now.
    pub(crate) fn remove_expired(&self, hash: KeyHash, key: &[u8], now_s: u32) {
        self.index.remove_if(hash, key, self, |entry, locked| {
            let at = entry.location();
            is_expired(self.record(at, locked).expiry_s, now_s).then(|| self.note_dead(at, locked))
        });
    }

    /// Bytes of a segment.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.pool.segment_bytes()
    }

    /// The next evicted record that has to be written to flash or forgotten there. It stays visible
    /// until [`DramTier::departed`].
    pub(crate) fn next_departure(&self) -> Option<Departure> {
        let (departure, ended) = self.departures.next(self.hasher, |hash, at| self.is_at(hash, at));
        ended.into_iter().for_each(|(segment, slot)| self.free(segment, slot));
        departure
    }

    /// Whether a departure waits for somebody to deal with it.
    pub(crate) fn departures_wait(&self) -> bool {
        self.departures.wait()
    }

    /// Puts back a record that [`DramTier::next_departure`] gave out and nobody dealt with.
    pub(crate) fn requeue_departure(&self, departure: Departure) {
        self.departures.requeue(departure);
    }

    /// The item that departs, if this very version is still on its way out.
    pub(crate) fn departing<'a>(&self, departure: &'a Departure) -> Option<ItemRef<'a>> {
        let entry = self.index.entry_at(departure.hash, departure.location)?;
        Some(departure.item(entry.is_clean()))
    }

    /// Flash has dealt with the record; it need not be visible here any longer.
    pub(crate) fn departed(&self, departure: Departure) {
        self.index.remove_at(departure.hash, departure.location);
        let Departure { segment, location, .. } = departure;
        if segment.one_settled() {
            self.free(segment.thaw(), location.slot);
        }
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.pool.budget_bytes() as u64
    }

    /// Changes the budget. What is above a smaller one leaves as new items come.
    pub(crate) fn set_budget(&self, bytes: u64) {
        self.pool.set_budget(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Items that the tier holds.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Memory that the tier takes: segments, index, ghost.
    pub(crate) fn used_bytes(&self) -> u64 {
        (self.pool.allocated_bytes() + self.other_bytes()) as u64
    }

    fn put<T>(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
        done: impl FnOnce(&Share, usize) -> T,
    ) -> Result<Option<T>, Full> {
        let queue = first_queue(self.policy, self.ghost.recalls(item.hash, self.window()));
        let place = (queue, group_of(item.expiry_s, now_s));
        let bytes = record_bytes(item);
        let other_bytes = self.other_bytes();
        let (mut opened, mut looks) = (false, 0);
        loop {
            let mut lane = self.lane(item.hash);
            if let Some((segment, location)) =
                lane.append(place, item, self.versions.next(item.hash))
            {
                let put = done(segment, location.at);
                let pointed = self.point(item, location, admit);
                if pointed != Ok(true) {
                    segment.note_dead(bytes);
                }
                let admitted = pointed?;
                drop(lane);
                if opened && self.above_flash {
                    self.keep_headroom(now_s);
                }
                if self.other_bytes() > other_bytes {
                    self.reclaim(); // the smaller tables
                    self.keep_budget(now_s);
                }
                return Ok(admitted.then_some(put));
            }
            if let Some(writer) = self.pool.open(bytes, self.other_bytes()) {
                self.reopen(&mut lane, place, writer)?;
                opened = true;
                continue;
            }
            drop(lane);
            if !self.make_room(now_s) {
                if looks == LOOKS_AT_PINS || self.departures.wait() {
                    return Err(Full);
                }
                wait_a_little(looks);
                looks += 1;
            }
        }
    }

    /// Writes `item` over the record of an older version, if that is as long, nobody looks at its segment,
    /// and `admit` agrees, which it says. The memory is as near as it was to who read it last, and no
    /// dead bytes are left behind.
    fn overwrite(&self, item: &ItemRef<'_>, now_s: u32, admit: Admit<'_>) -> Option<bool> {
        let bytes = record_bytes(item);
        let fits = |at: Location, locked: &Locked| {
            let segment = self.slots.get(at, locked).segment();
            segment.record(at.at, locked).bytes() == bytes
                && may_lie_with(item.expiry_s, segment.last_expiry_s(), now_s)
        };
        let change = |at: Location, locked: &LockedAlone| {
            let segment = self.slots.get(at, locked).segment();
            segment.overwrite(at.at, bytes, locked, |room| {
                let admitted = admit(Some(&record_at(room, 0)));
                if admitted {
                    begin_to_write(room);
                    encode(room, item, self.versions.next(item.hash));
                    segment.note_expiry(item.expiry_s);
                }
                admitted
            })
        };
        self.index.overwrite(item.hash, item.key, item.clean, self, fits, change)
    }

    /// Points the index to the record of `item`, if `admit` agrees.
    fn point(
        &self,
        item: &ItemRef<'_>,
        location: Location,
        admit: Admit<'_>,
    ) -> Result<bool, Full> {
        let admit = |old: Option<Entry>, locked: &Locked| {
            let Some(old) = old.map(Entry::location) else { return admit(None) };
            let admitted = admit(Some(&self.record(old, locked)));
            if admitted {
                self.note_dead(old, locked);
            }
            admitted
        };
        let pointed = self.index.set(item.hash, item.key, location, item.clean, self, admit);
        pointed.map_err(|Crowded| Full)
    }

    fn note_dead(&self, at: Location, locked: &Locked) {
        let segment = self.slots.get(at, locked).segment();
        if segment.note_dead(segment.record(at.at, locked).bytes()) {
            lock(&self.queues).note_sparser(at.slot);
        }
    }

    fn reopen(&self, lane: &mut Lane, place: (Queue, usize), writer: Writer) -> Result<(), Full> {
        let slot = self.number(writer.segment())?;
        if let Some(sealed) = lane.reopen(place, writer, slot) {
            lock(&self.queues).push(sealed);
        }
        Ok(())
    }

    /// Gives a segment of the pool a slot, or back to the pool if there is none left.
    fn number(&self, segment: &Share) -> Result<u32, Full> {
        self.slots.fill(segment.clone()).ok_or_else(|| {
            self.pool.give_back(segment.clone(), self.other_bytes());
            Full
        })
    }

    fn is_at(&self, hash: KeyHash, location: Location) -> bool {
        self.index.entry_at(hash, location).is_some()
    }

    fn record<'a>(&'a self, at: Location, locked: &'a Locked) -> Record<'a> {
        self.slots.get(at, locked).segment().record(at.at, locked)
    }

    fn lane(&self, hash: KeyHash) -> MutexGuard<'_, Lane> {
        let lane = usize::from(hash.tag()) % self.lanes.len();
        lock(&self.lanes[lane])
    }

    /// Memory besides segments.
    fn other_bytes(&self) -> usize {
        self.index.memory_bytes() + self.ghost.memory_bytes() + self.slots.memory_bytes()
    }

    /// For how many departures the ghost's memory lasts: as many as the tier holds items.
    fn window(&self) -> usize {
        self.index.memory_bytes() / 10
    }
}

impl Records for DramTier {
    fn is_key(&self, at: Location, key: &[u8], locked: &Locked) -> bool {
        self.record(at, locked).key == key
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
