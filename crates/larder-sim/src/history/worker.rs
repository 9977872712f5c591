//! Threads that work on the cache, and threads that disturb it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};

use larder::{Cas, Change, Error, Larder, SetOptions, Value, block_on};

use super::judge::{Event, What};
use super::value::{Id, fill, id_in, id_of, number_in};
use super::{Totals, locked};

/// Lengths of values; some are equal, so that records are overwritten in place.
const LENGTHS: [usize; 6] = [24, 100, 100, 100, 600, 3000];
/// Number of keys in a `get_many`.
const MANY: usize = 4;
/// Ticks between two changes of the budget.
const BUDGET_TICKS: u64 = 20_000;
/// Maximum number of values held at a time.
const KEPT: usize = 24;
/// One operation in this number is dropped midway, above flash.
const DROPPED_OF: u32 = 50;

/// State shared by all threads.
pub(super) struct Shared<'a> {
    cache: &'a Larder,
    names: Vec<[u8; 12]>,
    /// Keys from this one on are counters.
    numbers: u32,
    drops_futures: bool,
    clock: AtomicU64,
    hits: AtomicU64,
    changes: AtomicU64,
    updates: AtomicU64,
    dropped: AtomicU64,
    budgets: AtomicU64,
    kept: AtomicU64,
    complaint: Mutex<Option<String>>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(cache: &'a Larder, keys: u32, drops_futures: bool) -> Self {
        let name = |key: u32| {
            let mut name = *b"history-....";
            name[8..].copy_from_slice(&key.to_le_bytes());
            name
        };
        let count = || AtomicU64::new(0);
        Self {
            cache,
            names: (0..keys).map(name).collect(),
            numbers: keys - keys / 8,
            drops_futures,
            clock: AtomicU64::new(1),
            hits: count(),
            changes: count(),
            updates: count(),
            dropped: count(),
            budgets: count(),
            kept: count(),
            complaint: Mutex::new(None),
        }
    }

    pub(super) fn add_to(&self, totals: &mut Totals) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        *totals = Totals {
            operations: totals.operations,
            hits: read(&self.hits),
            changes: read(&self.changes),
            updates: read(&self.updates),
            dropped: read(&self.dropped),
            budgets: read(&self.budgets),
            kept: read(&self.kept),
        };
    }

    /// Takes an error of a thread that can be recognised without the history.
    pub(super) fn complaint(&self) -> Option<String> {
        locked(&self.complaint).take()
    }

    pub(super) fn complain(&self, complaint: String) {
        locked(&self.complaint).get_or_insert(complaint);
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn name(&self, key: u32) -> &[u8] {
        &self.names[key as usize]
    }

    /// The id of the change that stored a value.
    fn id_of(&self, key: u32, value: &[u8]) -> Option<Id> {
        let found = if key < self.numbers { id_in(key, value) } else { number_in(key, value) };
        found.map_err(|complaint| self.complain(complaint)).ok()
    }
}

/// A worker thread.
struct Worker<'a, 'b> {
    shared: &'a Shared<'b>,
    thread: u32,
    rng: &'a mut fastrand::Rng,
    next: &'a mut u64,
    events: &'a mut Vec<Event>,
    room: Vec<u8>,
    hits: u64,
    changes: u64,
    updates: u64,
}

/// Does `operations` operations, and records them.
pub(super) fn work(
    shared: &Shared<'_>,
    thread: u32,
    operations: u64,
    rng: &mut fastrand::Rng,
    next: &mut u64,
    events: &mut Vec<Event>,
) {
    let (hits, changes, updates) = (0, 0, 0);
    let mut worker =
        Worker { shared, thread, rng, next, events, room: Vec::new(), hits, changes, updates };
    for _ in 0..operations {
        worker.step();
    }
    shared.hits.fetch_add(worker.hits, Ordering::Relaxed);
    shared.changes.fetch_add(worker.changes, Ordering::Relaxed);
    shared.updates.fetch_add(worker.updates, Ordering::Relaxed);
}

impl Worker<'_, '_> {
    fn step(&mut self) {
        let keys = u32::try_from(self.shared.names.len()).unwrap_or(1);
        let key = self.rng.u32(..keys);
        let kind = self.rng.u32(..100);
        if key >= self.shared.numbers {
            return match kind {
                0..30 => self.get(key),
                30..40 => self.set(key),
                40..43 => self.delete(key),
                _ => self.incr(key),
            };
        }
        match kind {
            0..44 => self.get(key),
            44..52 => self.get_with(key),
            52..60 => self.get_many(key),
            60..80 => self.set(key),
            80..84 => self.delete(key),
            84..90 => self.cas(key),
            90..95 => self.add(key),
            _ => self.update(key),
        }
    }

    fn note(&mut self, key: u32, begin: u64, what: What) {
        let end = self.shared.tick();
        match what {
            What::Saw(_) => self.hits += 1,
            What::Replaced(..) => {
                self.changes += 1;
                self.updates += 1;
            }
            What::Stored(_) | What::Deleted => self.changes += 1,
            What::MayHaveStored(_) => {}
        }
        self.events.push(Event { key, begin, end, what });
    }

    fn saw(&mut self, key: u32, begin: u64, id: Option<Id>) {
        if let Some(id) = id {
            self.note(key, begin, What::Saw(id));
        }
    }

    /// Writes a new value into `room`. Returns its id.
    fn new_value(&mut self, key: u32) -> Id {
        let id = id_of(self.thread, *self.next);
        *self.next += 1;
        if key < self.shared.numbers {
            fill(&mut self.room, key, id, LENGTHS[self.rng.usize(..LENGTHS.len())]);
        } else {
            self.room.clear();
            self.room.extend_from_slice(id.to_string().as_bytes());
        }
        id
    }

    fn get(&mut self, key: u32) {
        let (shared, begin) = (self.shared, self.shared.tick());
        let found = shared.cache.blocking().get(shared.name(key)).ok().flatten();
        let id = found.and_then(|value| shared.id_of(key, &value));
        self.saw(key, begin, id);
    }

    fn get_with(&mut self, key: u32) {
        let (shared, begin) = (self.shared, self.shared.tick());
        let found =
            shared.cache.blocking().get_with(shared.name(key), |value, _| shared.id_of(key, value));
        self.saw(key, begin, found.ok().flatten().flatten());
    }

    fn get_many(&mut self, key: u32) {
        let (shared, begin) = (self.shared, self.shared.tick());
        let keys: [u32; MANY] = std::array::from_fn(|at| {
            (key + u32::try_from(at).unwrap_or(0) * 7) % self.shared.numbers
        });
        let names = keys.map(|key| shared.name(key));
        let found = shared.cache.blocking().get_many(&names).unwrap_or_default();
        let ids: Vec<_> =
            keys.iter().zip(found).map(|(&key, it)| shared.id_of(key, &it?)).collect();
        keys.iter().zip(ids).for_each(|(&key, id)| self.saw(key, begin, id));
    }

    fn set(&mut self, key: u32) {
        let id = self.new_value(key);
        let (shared, begin) = (self.shared, self.shared.tick());
        let set = shared.cache.set(shared.name(key), &self.room, None);
        let stored = if shared.drops_futures && self.rng.u32(..DROPPED_OF) == 0 {
            let polls = self.rng.u32(1..4);
            let ended = polled(set, polls);
            shared.dropped.fetch_add(u64::from(ended.is_none()), Ordering::Relaxed);
            ended.is_some_and(|stored| stored.is_ok())
        } else {
            block_on(set).is_ok()
        };
        self.note(key, begin, if stored { What::Stored(id) } else { What::MayHaveStored(id) });
    }

    fn delete(&mut self, key: u32) {
        let (shared, begin) = (self.shared, self.shared.tick());
        let delete = shared.cache.delete(shared.name(key));
        let deleted = if shared.drops_futures && self.rng.u32(..DROPPED_OF) == 0 {
            let ended = polled(delete, 1);
            shared.dropped.fetch_add(u64::from(ended.is_none()), Ordering::Relaxed);
            ended.is_some_and(|deleted| deleted.is_ok())
        } else {
            block_on(delete).is_ok()
        };
        if deleted {
            self.note(key, begin, What::Deleted);
        }
    }

    fn cas(&mut self, key: u32) {
        let (shared, began) = (self.shared, self.shared.tick());
        let Ok(Some(value)) = shared.cache.blocking().get(shared.name(key)) else { return };
        let Some(seen) = shared.id_of(key, &value) else { return };
        let version = value.version();
        drop(value);
        self.saw(key, began, Some(seen));
        let (id, begin) = (self.new_value(key), self.shared.tick());
        let options = SetOptions::default();
        let swapped = shared.cache.blocking().cas(shared.name(key), &self.room, version, options);
        if matches!(swapped, Ok(Cas::Stored)) {
            self.note(key, begin, What::Replaced(seen, id));
        }
    }

    fn add(&mut self, key: u32) {
        let (id, begin) = (self.new_value(key), self.shared.tick());
        let shared = self.shared;
        let added =
            shared.cache.blocking().add(shared.name(key), &self.room, SetOptions::default());
        if matches!(added, Ok(true)) {
            self.note(key, begin, What::Stored(id));
        }
    }

    fn update(&mut self, key: u32) {
        let (id, begin) = (self.new_value(key), self.shared.tick());
        let (shared, room) = (self.shared, &self.room);
        let before = shared.cache.blocking().update(shared.name(key), |there| match there {
            Some(_) => Change::StoreKeepingExpiry(room.into()),
            None => Change::Keep,
        });
        let Ok(Some(before)) = before else { return };
        if let Some(seen) = shared.id_of(key, &before) {
            self.note(key, begin, What::Replaced(seen, id));
        }
    }

    fn incr(&mut self, key: u32) {
        let (shared, begin) = (self.shared, self.shared.tick());
        let counted: Result<Option<u64>, Error> = shared.cache.blocking().incr(shared.name(key), 1);
        if let Ok(Some(sum)) = counted {
            self.note(key, begin, What::Replaced(sum - 1, sum));
        }
    }
}

/// Polls a future `polls` times, and drops it if it has not ended.
fn polled<F: Future>(future: F, polls: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..polls).find_map(|_| match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => {
            std::thread::yield_now();
            None
        }
    })
}

/// Changes the budget between two sizes, and to some sizes in between.
pub(super) fn disturb_budget(shared: &Shared<'_>, is_over: &AtomicBool, least: u64, most: u64) {
    let mut changed_at = 0;
    let budgets = [least, most, least * 10, least, least * 3, most / 2];
    let mut budgets = budgets.iter().cycle();
    while !is_over.load(Ordering::SeqCst) {
        let now = shared.clock.load(Ordering::SeqCst);
        if now < changed_at + BUDGET_TICKS {
            std::thread::sleep(std::time::Duration::from_micros(200));
            continue;
        }
        changed_at = now;
        shared.cache.set_dram_bytes(*budgets.next().unwrap_or(&least));
        shared.budgets.fetch_add(1, Ordering::Relaxed);
    }
}

/// Holds values of random keys, and checks that they are unchanged before it drops them.
pub(super) fn hold_values(shared: &Shared<'_>, is_over: &AtomicBool) {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut held: VecDeque<(u32, Id, Value)> = VecDeque::new();
    while !is_over.load(Ordering::SeqCst) {
        let key = rng.u32(..shared.numbers);
        if let Ok(Some(value)) = shared.cache.blocking().get(shared.name(key))
            && let Some(id) = shared.id_of(key, &value)
        {
            held.push_back((key, id, value));
            shared.kept.fetch_add(1, Ordering::Relaxed);
        }
        let keep = rng.usize(..KEPT);
        while held.len() > keep {
            let Some((key, id, value)) = held.pop_front() else { break };
            if shared.id_of(key, &value) != Some(id) {
                shared.complain(format!("key {key}: the value of {id} changed while it was kept"));
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}
