//! Runs the tier itself in thousands of interleavings: shuttle's scheduler picks the next thread at every use of a
//! lock or an atomic. It varies orders only: memory is sequentially consistent here.

mod parts;

use std::collections::HashMap;
use std::sync::Arc;

use shuttle::thread;

use super::lane::Lane;
use super::value::{PinnedValue, Value};
use super::{DramFull, DramTier, Lookup, lock};
use crate::base::item::ItemRef;
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::config::DramPolicy;

/// Number of random orders, and of orders by priorities that change a few times.
const ORDERS: usize = 300;
const CHANGES: usize = 4;
/// A few segments on top of the index, so that most sets evict something.
const BUDGET_BYTES: u64 = 9 << 10;
const VALUE_BYTES: usize = 300;
/// Keys that are checked; others only take room.
const KEYS: u32 = 3;

fn in_many_orders(run: fn()) {
    shuttle::check_random(run, ORDERS);
    shuttle::check_pct(run, ORDERS, CHANGES);
}

/// A tier, its flash, and the expected versions of each key.
struct Fixture {
    tier: DramTier,
    /// The content of flash. Locked by the thread that demotes records.
    flash: Mutex<HashMap<Vec<u8>, u32>>,
    /// The newest version whose change has returned.
    returned: [AtomicU32; KEYS as usize],
}

impl Fixture {
    fn new(policy: DramPolicy, above_flash: bool) -> Arc<Self> {
        Self::of_bytes(BUDGET_BYTES, policy, above_flash)
    }

    fn of_bytes(budget: u64, policy: DramPolicy, above_flash: bool) -> Arc<Self> {
        let mut tier = DramTier::new(budget, policy, above_flash, 0, KeyHasher::UNSEEDED);
        // A tier of this size has one lane; this one gets two.
        tier.lanes = (0..2).map(|_| Mutex::new(Lane::default())).collect();
        tier.evictors = super::evictors::Evictors::beside(2);
        let returned = std::array::from_fn(|_| AtomicU32::new(0));
        Arc::new(Self { tier, flash: Mutex::new(HashMap::new()), returned })
    }

    /// Sets a version of a key; only one thread changes a key.
    fn set(&self, key: u32, version: u32) {
        let (key, value) = (key.to_le_bytes(), value_of(key, version));
        let item = ItemRef::new(KeyHash::of(&key), &key, &value, 0);
        while self.tier.insert(&item, &0, &|_| true) == Err(DramFull) {
            self.demote(usize::MAX);
            thread::yield_now(); // the last demotions may be in another thread's hands
        }
    }

    /// Puts a version of a key that goes straight to flash.
    fn send(&self, key: u32, version: u32) {
        let (key, value) = (key.to_le_bytes(), value_of(key, version));
        let item = ItemRef::new(KeyHash::of(&key), &key, &value, 0);
        let taken = self.tier.demotions().above().try_take(self.tier.demoting_bytes(&item));
        let put =
            self.tier.insert_to_demote(&item, taken.expect("few are on their way"), &|_| true);
        put.expect("slots are left");
    }

    fn remove(&self, key: u32) {
        let key = key.to_le_bytes();
        self.tier.remove(KeyHash::of(&key), &key, 0);
    }

    fn note_returned(&self, key: u32, version: u32) {
        self.returned[key as usize].store(version, Ordering::SeqCst);
    }

    fn look(&self, key: u32) -> Option<PinnedValue> {
        let key = key.to_le_bytes();
        let hash = KeyHash::of(&key);
        self.tier.get_at_once(hash, &key, || 0).or_else(|| match self.tier.get(hash, &key, || 0) {
            Lookup::Hit(value) => Some(value),
            Lookup::Expired => panic!("nothing expires"),
            Lookup::Absent => None,
        })
    }

    /// Writes `records` demoting records to flash.
    fn demote(&self, records: usize) {
        let mut flash = lock(&self.flash);
        for _ in 0..records {
            let Some(demotion) = self.tier.next_demotion() else { return };
            if let Some(item) = self.tier.demoting(&demotion) {
                flash.insert(item.key.to_vec(), version_of(item.value));
            }
            self.tier.demoted(demotion);
        }
    }

    /// Looks a key up like a reader of the cache; the result must be whole and not too old.
    fn judge(&self, key: u32) -> Option<PinnedValue> {
        let newest = self.returned[key as usize].load(Ordering::SeqCst);
        let found = self.look(key);
        match &found {
            Some(value) => {
                let version = version_of(value);
                assert_eq!(value[..], value_of(key, version), "a whole value of its key");
                assert!(version >= newest, "version {version} of key {key} after {newest}");
            }
            None if self.tier.above_flash => {
                let flash = lock(&self.flash);
                let version = flash.get(&key.to_le_bytes()[..]).copied().unwrap_or(0);
                assert!(version >= newest, "flash has {version} of key {key} after {newest}");
            }
            None => {}
        }
        found
    }

    /// At the end nothing is left, and neither memory nor a permit is lost.
    fn empty(&self) {
        let permits = self.tier.segments.pool().permits();
        assert_eq!(permits.free(), permits.limit(), "a permit was lost");
        self.tier.evict_all();
        if self.tier.above_flash {
            self.demote(usize::MAX);
            assert_eq!(self.tier.len(), 0);
            let other = self.tier.other_bytes();
            let room = self.tier.segments.pool().room_bytes(other);
            assert_eq!(
                room,
                self.tier.segments.pool().budget_bytes() - other,
                "a segment was lost"
            );
        }
    }
}

fn value_of(key: u32, version: u32) -> Vec<u8> {
    [version.to_le_bytes(), key.to_le_bytes()].concat().repeat(VALUE_BYTES / 8)
}

fn version_of(value: &[u8]) -> u32 {
    u32::from_le_bytes(*value.first_chunk().expect("values are longer"))
}

/// Runs a thread that fills the tier, and the given ones, to their end.
fn together(fixture: &Arc<Fixture>, others: Vec<fn(&Fixture)>) {
    let filler = |fixture: &Fixture| (0..60).for_each(|turn| fixture.set(100 + turn % 14, 1));
    let running: Vec<_> = others
        .into_iter()
        .chain([filler as fn(&Fixture)])
        .map(|run| {
            let fixture = Arc::clone(fixture);
            thread::spawn(move || run(&fixture))
        })
        .collect();
    running.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    (0..KEYS).for_each(|key| _ = fixture.judge(key));
    fixture.empty();
}

fn change(fixture: &Fixture) {
    for version in 1..8 {
        for key in 0..KEYS {
            fixture.set(key, version);
            fixture.note_returned(key, version);
        }
    }
}

fn look(fixture: &Fixture) {
    (0..12).for_each(|round| _ = fixture.judge(round % KEYS));
}

/// With flash nothing is lost: what DRAM does not hold, flash does, and it is no older.
#[test]
fn a_record_on_its_way_to_flash_is_never_missed() {
    in_many_orders(|| {
        let fixture = Fixture::new(DramPolicy::S3Fifo, true);
        let demote = |fixture: &Fixture| (0..6).for_each(|_| fixture.demote(3));
        together(&fixture, vec![change, look, demote]);
    });
}

/// Each version comes while the previous one may be anywhere on its way.
#[test]
fn a_demotion_that_was_overtaken_takes_nothing_newer_with_it() {
    in_many_orders(|| {
        let fixture = Fixture::new(DramPolicy::S3Fifo, true);
        let change = |fixture: &Fixture| {
            for version in 1..9 {
                match version % 3 {
                    0 => fixture.set(0, version),
                    _ => fixture.send(0, version),
                }
                fixture.note_returned(0, version);
            }
        };
        let demote = |fixture: &Fixture| (0..12).for_each(|_| fixture.demote(1));
        let look = |fixture: &Fixture| (0..8).for_each(|_| _ = fixture.judge(0));
        together(&fixture, vec![change, look, demote]);
    });
}

/// Two threads demote records at a time, and neither waits for the other.
#[test]
fn a_segment_is_freed_when_its_last_record_was_dealt_with() {
    in_many_orders(|| {
        let fixture = Fixture::new(DramPolicy::Lru, true);
        let demote = |fixture: &Fixture| {
            for _ in 0..12 {
                match fixture.tier.next_demotion() {
                    Some(demotion) => fixture.tier.demoted(demotion),
                    None => thread::yield_now(),
                }
            }
        };
        let change = |fixture: &Fixture| (1..6).for_each(|version| fixture.set(0, version));
        together(&fixture, vec![change, demote, demote]);
    });
}

/// Without flash a key may vanish at any time, but what was removed or replaced stays away.
#[test]
fn what_was_removed_or_replaced_stays_away() {
    in_many_orders(|| {
        let fixture = Fixture::new(DramPolicy::Lru, false);
        let change = |fixture: &Fixture| {
            for version in (1..10).step_by(2) {
                for key in 0..KEYS {
                    fixture.set(key, version);
                    fixture.note_returned(key, version);
                    fixture.remove(key);
                    fixture.note_returned(key, version + 1);
                }
            }
        };
        together(&fixture, vec![change, look, look]);
    });
}

/// A kept value stays unchanged while its record is replaced, its segment evicted and the memory of others reused.
#[test]
fn memory_that_a_value_pins_is_not_used_again() {
    in_many_orders(|| {
        let fixture = Fixture::new(DramPolicy::S3Fifo, false);
        let hold = |fixture: &Fixture| {
            for key in 0..KEYS {
                let Some(value) = fixture.judge(key) else { continue };
                let before = value.to_vec();
                let kept = value.clone().keep();
                (0..8).for_each(|turn| fixture.set(100 + turn, 1));
                assert_eq!(value[..], before, "the value changed under its holder");
                assert_eq!(kept[..], before, "the value changed under its keeper");
            }
        };
        together(&fixture, vec![change, hold, hold]);
    });
}

/// Clones of a value are dropped on other threads, before the tier gives its segment up and after.
#[test]
fn a_segment_is_used_again_when_the_last_clone_of_its_values_is_gone() {
    in_many_orders(|| {
        let fixture = Fixture::new(DramPolicy::S3Fifo, true);
        let hold = |fixture: &Fixture| {
            let clones: Vec<_> = (0..KEYS)
                .filter_map(|key| fixture.judge(key))
                .map(|value| {
                    let (before, clone) = (value.to_vec(), value.clone());
                    thread::spawn(move || {
                        thread::yield_now();
                        assert_eq!(clone.clone()[..], before, "the value changed under its holder");
                    })
                })
                .collect();
            (0..4).for_each(|turn| fixture.set(100 + turn, 1));
            clones.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        };
        let demote = |fixture: &Fixture| (0..6).for_each(|_| fixture.demote(3));
        together(&fixture, vec![change, hold, demote]);
    });
}

/// The tier is dropped while threads hold only values of it; the last value of a segment frees it.
#[test]
fn values_outlive_the_tier() {
    in_many_orders(|| {
        let fixture = Fixture::new(DramPolicy::Lru, false);
        (0..3).for_each(|key| fixture.set(key, 1));
        let ending: Vec<_> = (0..3)
            .filter_map(|key| Some((key, fixture.look(key)?)))
            .map(|(key, value)| {
                // There is a permit for one of them. The others are copies.
                let (other, kept) = (value.clone(), value.clone().keep());
                let end = move |value: Value| assert_eq!(value[..], value_of(key, 1));
                let ending = [value.for_now(), other.for_now(), kept];
                ending.map(|value| thread::spawn(move || end(value.clone())))
            })
            .collect();
        drop(fixture);
        ending.into_iter().flatten().for_each(|thread| thread.join().expect("no thread panics"));
    });
}

/// The table is replaced several times, and entries move to their other buckets.
#[test]
fn what_was_set_is_found_while_the_index_grows() {
    in_many_orders(|| set_and_find(|_| ()));
}

/// Shards are divided, and a reader's chosen shard may not be the right one any more.
#[test]
fn what_was_set_is_found_while_shards_are_divided() {
    in_many_orders(|| set_and_find(|fixture| fixture.tier.set_budget(64 << 20, 0)));
}

/// One thread sets, two look up, and one does something else at the same time.
fn set_and_find(meanwhile: fn(&Fixture)) {
    const ITEMS: u32 = 60;
    let fixture = Fixture::of_bytes(64 << 10, DramPolicy::Lru, false);
    let grow = |fixture: &Fixture| {
        for key in 1..=ITEMS {
            fixture.set(key, 1);
            fixture.note_returned(0, key);
        }
    };
    let find = |fixture: &Fixture| {
        for round in 0..ITEMS {
            let set = fixture.returned[0].load(Ordering::SeqCst);
            let key = set.saturating_sub(round * 7 % set.max(1));
            let found = fixture.look(key).map(|value| value.to_vec());
            assert_eq!(found, (key > 0).then(|| value_of(key, 1)), "key {key} of {set}");
        }
    };
    let running = [grow, find, find, meanwhile].map(|run: fn(&Fixture)| {
        let fixture = Arc::clone(&fixture);
        thread::spawn(move || run(&fixture))
    });
    running.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
}
