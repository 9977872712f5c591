//! Clients that know what they may find: each has its own keys, which no other client changes.
//!
//! So a client finds the value that it stored last, or nothing; after a delete it must find nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use larder::{Clock, Shards, VirtualClock};
use larder_workload::Latencies;
use larder_workload::generate::record_key;

use super::engine::EngineShards;

/// Mean pause between two operations of a client.
const PAUSE_NS: f64 = 500_000.0;
/// Time to fetch a value from the source.
const SOURCE: Duration = Duration::from_micros(500);
/// Percent of the operations that change a key, and percent of these that delete it.
const CHANGES: u32 = 10;
const DELETES: u32 = 10;
/// A fifth of the keys receive four fifths of the GETs.
const HOT: f64 = 0.2;
const FOR_HOT: f64 = 0.8;

/// The measurements of a part or a slice.
#[derive(Debug, Default, Clone)]
pub(super) struct SliceResult {
    pub(super) ops: u64,
    pub(super) gets: u64,
    pub(super) hits: u64,
    pub(super) all: Latencies,
    /// Latency of hits on drives other than the failing one.
    pub(super) others: Latencies,
    pub(super) sets: Latencies,
    pub(super) deletes: Latencies,
}

impl SliceResult {
    pub(super) fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.gets += other.gets;
        self.hits += other.hits;
        self.all.merge(&other.all);
        self.others.merge(&other.others);
        self.sets.merge(&other.sets);
        self.deletes.merge(&other.deletes);
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn kops(&self, time: Duration) -> f64 {
        self.ops as f64 / time.as_secs_f64() / 1000.0
    }
}

/// All clients of a set of shards.
pub(super) struct Clients(Vec<Client>);

/// One client.
pub(super) struct Client {
    first: u64,
    seed: u64,
    victim: usize,
    /// For each of the client's keys: the version stored last, from 1 on, or 0 for nothing.
    versions: RefCell<Vec<u64>>,
    rng: RefCell<fastrand::Rng>,
    seen: Rc<RefCell<SliceResult>>,
    wrong: Rc<RefCell<Wrong>>,
}

#[derive(Debug, Default)]
struct Wrong {
    errors: u64,
    stale: u64,
}

impl Clients {
    /// Makes `clients` clients with `records` records in all. They distinguish keys on the `victim` drive from others.
    pub(super) fn new(clients: u64, records: u64, victim: usize, seed: u64) -> Self {
        let each = (records / clients).max(1);
        let (seen, wrong) = (Rc::default(), Rc::default());
        let new = |number: u64| Client {
            first: number * each,
            seed,
            victim,
            versions: RefCell::new(vec![0; usize::try_from(each).unwrap_or(usize::MAX)]),
            rng: RefCell::new(fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9))),
            seen: Rc::clone(&seen),
            wrong: Rc::clone(&wrong),
        };
        Self((0..clients).map(new).collect())
    }

    pub(super) fn each(&self) -> &[Client] {
        &self.0
    }

    /// The measurements of all clients since the last call.
    pub(super) fn take_seen(&self) -> SliceResult {
        self.0.first().map(|client| client.seen.take()).unwrap_or_default()
    }

    /// Returns the number of errors and of stale values that clients saw.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn wrong(&self) -> (f64, f64) {
        let Some(client) = self.0.first() else { return (0.0, 0.0) };
        let wrong = client.wrong.borrow();
        (wrong.errors as f64, wrong.stale as f64)
    }
}

impl Client {
    /// Stores all records of the client.
    pub(super) async fn load(&self, shards: &EngineShards, clock: &VirtualClock) {
        let records = self.versions.borrow().len();
        for record in 0..records {
            self.store(shards, clock, record).await;
        }
        // Spreads the clients, so that no two act at the same moment.
        clock.sleep_until(clock.monotonic() + self.pause()).await;
    }

    /// Makes requests until the run ends.
    pub(super) async fn run(
        &self,
        shards: &EngineShards,
        clock: &VirtualClock,
        is_over: impl Fn() -> bool,
    ) {
        while !is_over() {
            clock.sleep_until(clock.monotonic() + self.pause()).await;
            let record = self.choose();
            let change = self.rng.borrow_mut().u32(..100) < CHANGES;
            let delete = change && self.rng.borrow_mut().u32(..100) < DELETES;
            match (change, delete) {
                (_, true) => self.delete(shards.cache(), clock, record).await,
                (true, _) => self.store(shards, clock, record).await,
                _ => {
                    if !self.look_up(shards, clock, record).await {
                        clock.sleep_until(clock.monotonic() + SOURCE).await;
                        self.store(shards, clock, record).await;
                    }
                }
            }
            self.seen.borrow_mut().ops += 1;
        }
    }

    fn choose(&self) -> usize {
        let mut rng = self.rng.borrow_mut();
        let records = self.versions.borrow().len();
        let hot = share_of(records, HOT).max(1);
        if rng.f64() < FOR_HOT || hot == records {
            rng.usize(..hot)
        } else {
            rng.usize(hot..records)
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive number
    fn pause(&self) -> Duration {
        let share = -(1.0 - self.rng.borrow_mut().f64()).ln();
        Duration::from_nanos((share * PAUSE_NS) as u64)
    }

    fn key(&self, record: usize) -> u64 {
        record_key(self.seed, self.first + record as u64)
    }

    /// Looks up a record. Returns whether its value was found.
    async fn look_up(&self, shards: &EngineShards, clock: &VirtualClock, record: usize) -> bool {
        let key = self.key(record).to_le_bytes();
        let asked = clock.monotonic();
        let found = shards.cache().get(&key).await;
        let took = clock.monotonic() - asked;
        let version = match found {
            Ok(found) => found.map(|value| shards.values().version(&value)),
            Err(_) => {
                self.wrong.borrow_mut().errors += 1;
                None
            }
        };
        let seen = &mut *self.seen.borrow_mut();
        seen.gets += 1;
        seen.all.record(took);
        let Some(version) = version else { return false };
        seen.hits += 1;
        if shards.cache().home_of(&key) != self.victim {
            seen.others.record(took);
        }
        if version != self.versions.borrow()[record] {
            self.wrong.borrow_mut().stale += 1;
        }
        true
    }

    async fn store(&self, shards: &EngineShards, clock: &VirtualClock, record: usize) {
        let key = self.key(record);
        let version = {
            let mut versions = self.versions.borrow_mut();
            // A new random version, so that a stale value never matches, not even after a delete.
            versions[record] = self.rng.borrow_mut().u64(1..);
            versions[record]
        };
        let value = shards.values().of_version(key, version);
        let asked = clock.monotonic();
        let stored = shards.cache().set(&key.to_le_bytes(), &value, None).await;
        self.seen.borrow_mut().sets.record(clock.monotonic() - asked);
        self.wrong.borrow_mut().errors += u64::from(stored.is_err());
    }

    async fn delete(&self, cache: &Shards, clock: &VirtualClock, record: usize) {
        self.versions.borrow_mut()[record] = 0;
        let asked = clock.monotonic();
        let deleted = cache.delete(&self.key(record).to_le_bytes()).await;
        self.seen.borrow_mut().deletes.record(clock.monotonic() - asked);
        self.wrong.borrow_mut().errors += u64::from(deleted.is_err());
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn share_of(records: usize, share: f64) -> usize {
    (records as f64 * share) as usize
}
