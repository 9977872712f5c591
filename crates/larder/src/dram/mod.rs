//! The DRAM tier: items in append-only segments, a compact index, and a policy that says who leaves
//! when the budget is spent.
//!
//! ```text
//!   get ──► index shard (no lock) ──► slot ──► record in its segment ──► Value pins the segment
//!   set ──► lane: append to an open segment ──► index entry points to it; the old record is dead
//!                     │ full
//!                     ▼
//!              sealed, in a queue ──► its turn: records with hits are copied onward, others leave
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `memory` | bytes from the kernel |
//! | `segment` | memory that is appended to, pinned and reused |
//! | `record` | one item in a segment |
//! | `pins` | who keeps a segment |
//! | `slots` | numbers for segments |
//! | `readers`, `retired` | who looks without a lock, and what waits for them |
//! | `published` | a slice that they find |
//! | `index`, `table` | from a key's hash to slot and offset |
//! | `directory` | the shards of the index, which become more |
//! | `pool`, `budget` | the budget, and what follows when it changes |
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

mod budget;
mod departures;
mod directory;
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

use std::sync::{Arc, PoisonError};

use crate::config::DramPolicy;
use crate::key::KeyHash;
use crate::stats::Counters;
use crate::sync::{Mutex, MutexGuard};
use crate::value::{ItemRef, Value, is_expired};
pub(crate) use budget::{BYTES_MAX, BYTES_MIN};
use budget::{Change, SEGMENT_BYTES, Shape};
pub(crate) use departures::Departure;
use departures::Departures;
use ghost::Ghost;
use index::{Crowded, Entry, Index, Location, OFFSETS_END, Records};
use lane::{Lane, group_of};
pub(crate) use pins::Pin;
use pins::Share;
use pool::Pool;
use queues::{Queue, Queues, Sealed, first_queue};
use readers::Held;
pub(crate) use record::{Record, encode, record_at, record_bytes};
pub(crate) use segment::Writer;
use slots::Slots;

const _: () = assert!(*SEGMENT_BYTES.end() <= OFFSETS_END);
/// Moves that make somebody look again before he takes the lock.
const LOOKS_WITHOUT_LOCK: usize = 3;

/// Items in memory.
#[derive(Debug)]
pub(crate) struct DramTier {
    index: Index,
    slots: Slots,
    pool: Pool,
    lanes: Box<[Mutex<Lane>]>,
    /// Held by the one who evicts; what goes on is appended here.
    evictor: Mutex<Lane>,
    queues: Mutex<Queues>,
    ghost: Ghost,
    change: Change,
    departures: Departures,
    policy: DramPolicy,
    /// Whether what leaves goes to flash; otherwise it is gone.
    above_flash: bool,
    /// Where it is counted what is gone.
    counters: Arc<Counters>,
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
    ) -> Self {
        let budget = usize::try_from(budget_bytes).unwrap_or(usize::MAX);
        let shape = Shape::of(budget, policy);
        Self {
            index: Index::new(shape.shards),
            slots: Slots::new(),
            pool: Pool::new(budget, shape.segment_bytes),
            lanes: (0..shape.lanes)
                .map(|_| Mutex::new(Lane::with_versions_from(first_version)))
                .collect(),
            evictor: Mutex::default(),
            queues: Mutex::default(),
            ghost: Ghost::of_bytes(shape.ghost_bytes),
            change: Change::none_yet(budget),
            departures: Departures::default(),
            policy,
            above_flash,
            counters: Arc::default(),
        }
    }

    /// The same, which counts there what is gone.
    pub(crate) fn counting(self, counters: Arc<Counters>) -> Self {
        Self { counters, ..self }
    }

    /// Looks `key` up and counts the use. `now_s` is asked only where something expires.
    pub(crate) fn get(&self, hash: KeyHash, key: &[u8], now_s: impl Fn() -> u32) -> Lookup {
        let found = self.index.find(hash, |at, held| self.look_at(at, held, key, &now_s));
        found.unwrap_or(Lookup::Absent)
    }

    /// The same without a lock, for hits. Who gets none has to ask [`DramTier::get`]: the key's entry
    /// may have moved. So must who needs an answer that is later than what he did before: a change
    /// that has begun, but has not returned, may not be seen yet.
    pub(crate) fn get_at_once(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: impl Fn() -> u32,
    ) -> Option<Value> {
        let found = self.index.find_at_once(hash, |at, held| self.look_at(at, held, key, &now_s));
        found.and_then(|found| if let Lookup::Hit(value) = found { Some(value) } else { None })
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
            let look = |at, held: &Held| self.look_at(at, held, key, &now_s);
            if let Ok(found) = self.index.find_or_know(hash, look) {
                return found.unwrap_or(Lookup::Absent);
            }
        }
        self.get(hash, key, now_s)
    }

    /// What an entry means for `key`: nothing, if it is another's.
    fn look_at(
        &self,
        entry: Entry,
        held: &Held,
        key: &[u8],
        now_s: &impl Fn() -> u32,
    ) -> Option<Lookup> {
        let at = entry.location();
        let kept = self.slots.get(at, held);
        let record = record_at(kept.segment().published(), at.at);
        if record.key != key {
            return None;
        }
        if record.expiry_s != 0 && is_expired(record.expiry_s, now_s()) {
            return Some(Lookup::Expired);
        }
        Some(Lookup::Hit(Value::new(kept.pin(), at.at)))
    }

    /// Puts `item` in the place of an older version, if `admit` agrees.
    pub(crate) fn insert(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
    ) -> Result<(), Full> {
        self.put(item, now_s, admit, |_, _| ())?;
        Ok(())
    }

    /// Puts `item` in the place of an older version if `admit` agrees, and returns what was put.
    pub(crate) fn insert_if(
        &self,
        item: &ItemRef<'_>,
        now_s: u32,
        admit: Admit<'_>,
    ) -> Result<Option<Value>, Full> {
        self.put(item, now_s, admit, |segment, at| Value::new(segment.pin(), at))
    }

    /// Whether there may be an item of this hash.
    pub(crate) fn holds(&self, hash: KeyHash) -> bool {
        self.index.peek(hash, |_, _| Some(())).is_some()
    }

    /// Whether `key` is here and alive: `Some(false)` is expired. Counts no use.
    pub(crate) fn contains(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<bool> {
        self.index.peek(hash, |entry, held| {
            let record = self.record(entry.location(), held);
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
        let version = self.lane(item.hash).next_version();
        writer.append(bytes, |room| encode(room, item, version)).ok_or(Full)?;
        let segment = writer.segment().clone();
        let slot = self.number(&segment)?;
        let location = Location { slot, at: 0 };
        let pointed = self.point(item, location, admit);
        self.departures.add(Sealed { segment, slot, queue: Queue::Main, last_expiry_s: u32::MAX });
        pointed.map(|_| ())
    }

    /// Takes `key` out of the tier, departing or not. Says whether it was there; `None` is no.
    /// `Some(false)` means expired.
    pub(crate) fn remove(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<bool> {
        self.index.remove_if(hash, key, self, |entry, held| {
            self.note_dead(entry.location(), held);
            Some(!is_expired(self.record(entry.location(), held).expiry_s, now_s))
        })
    }

    /// Takes `key` out of the tier if it has expired by now.
    pub(crate) fn remove_expired(&self, hash: KeyHash, key: &[u8], now_s: u32) {
        self.index.remove_if(hash, key, self, |entry, held| {
            let at = entry.location();
            is_expired(self.record(at, held).expiry_s, now_s).then(|| self.note_dead(at, held))
        });
    }

    /// Bytes of a segment.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.pool.segment_bytes()
    }

    /// The next evicted record that has to be written to flash or forgotten there. It stays visible
    /// until [`DramTier::departed`].
    pub(crate) fn next_departure(&self) -> Option<Departure> {
        let (departure, ended) = self.departures.next(|hash, at| self.is_at(hash, at));
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
            self.free(segment, location.slot);
        }
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.pool.budget_bytes() as u64
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
        let place = (self.queue_of_newcomer(item.hash), group_of(item.expiry_s, now_s));
        let bytes = record_bytes(item);
        let other_bytes = self.other_bytes();
        let (mut opened, mut has_made_room) = (false, false);
        loop {
            let mut lane = self.lane(item.hash);
            let version = lane.next_version();
            if let Some((segment, location)) = lane.append(place, item, version) {
                let pointed = self.point(item, location, admit);
                if pointed != Ok(true) {
                    segment.note_dead(bytes);
                }
                let admitted = pointed?;
                let put = admitted.then(|| done(segment, location.at));
                drop(lane);
                if self.index.is_to_be_divided() {
                    self.divide_a_shard();
                }
                if self.is_shrinking() {
                    self.let_go(self.leaving_for(bytes), now_s);
                    return Ok(put);
                }
                if opened && self.above_flash {
                    self.keep_headroom(now_s);
                }
                if self.other_bytes() > other_bytes {
                    self.reclaim(); // the smaller tables
                    self.keep_budget(now_s);
                }
                return Ok(put);
            }
            let room = self.pool.open(bytes, self.other_bytes()).or_else(|| {
                // Above the budget, but less than before.
                let may = has_made_room && self.is_shrinking();
                may.then(|| self.pool.open_anyway(bytes, self.other_bytes()))
            });
            if let Some(writer) = room {
                self.reopen(&mut lane, place, writer)?;
                opened = true;
                continue;
            }
            drop(lane);
            if !self.make_room(now_s) {
                return Err(Full);
            }
            has_made_room = true;
        }
    }

    /// Two trips to memory at once. Locks would wait for one before they begin the other.
    fn queue_of_newcomer(&self, hash: KeyHash) -> Queue {
        let inside = self.index.readers().enter();
        self.ghost.prefetch(hash, inside.held());
        self.index.prefetch(hash);
        let recalled = self.ghost.recalls(hash, self.window(), inside.held());
        first_queue(self.policy, recalled)
    }

    /// Points the index to the record of `item`, if `admit` agrees.
    fn point(
        &self,
        item: &ItemRef<'_>,
        location: Location,
        admit: Admit<'_>,
    ) -> Result<bool, Full> {
        let admit = |old: Option<Entry>, held: &Held| {
            let Some(old) = old.map(Entry::location) else { return admit(None) };
            let admitted = admit(Some(&self.record(old, held)));
            if admitted {
                self.note_dead(old, held);
            }
            admitted
        };
        let pointed = self.index.set(item.hash, item.key, location, item.clean, self, admit);
        pointed.map_err(|Crowded| Full)
    }

    fn note_dead(&self, at: Location, held: &Held) {
        let segment = self.slots.get(at, held).segment();
        segment.note_dead(record_at(segment.published(), at.at).bytes());
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

    fn record<'a>(&'a self, at: Location, held: &'a Held) -> Record<'a> {
        record_at(self.slots.get(at, held).segment().published(), at.at)
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
    fn is_key(&self, at: Location, key: &[u8], held: &Held) -> bool {
        self.record(at, held).key == key
    }

    fn hash(&self, at: Location, held: &Held) -> KeyHash {
        KeyHash::of(self.record(at, held).key)
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
