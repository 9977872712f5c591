//! Tests of the engine alone, on memory: limits on reads, tables, and crashes.

mod division;
mod long;
mod reinsertion;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use larder_device::{
    Clock, Device, Durability, MemoryDevice, PlacementHandle, VirtualClock, block_on,
};
use larder_log::{CacheId, LogPlace, RecordForm, RegionEviction, Stream};

use super::memory::ArrayMemory;
use super::place::ArrayPlace;
use super::*;
use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::time::CacheClock;
use crate::base::ttl_groups::bounds_s;
use crate::engine::{DeadRecords, Engine, ShutdownMark};

const REGION_BYTES: u32 = 256 << 10;
const START_S: u64 = 1_000_000;

struct Bench {
    device: Arc<dyn Device>,
    clock: Arc<VirtualClock>,
    counters: Arc<Counters>,
    array: Array,
}

fn place(regions: u32, (tables, sets_per_table): (u32, u32), groups: u32) -> ArrayPlace {
    let stream = |stays| Stream { handle: PlacementHandle::DEFAULT, segment: 0, stays };
    let streams = (0..groups).map(|_| stream(false)).chain([stream(true)]).collect();
    let log = LogPlace {
        offset: 0,
        regions,
        region_bytes: REGION_BYTES,
        piece_bytes: 64 << 10,
        budget_bytes: 1 << 20,
        form: RecordForm::STAMPED,
        streams,
        eviction: RegionEviction::Fifo,
        regions_per_unit: None,
        durability: Durability::Device,
        cache: CacheId::ZERO,
        first_sequence: 1 << 32,
    };
    ArrayPlace {
        log,
        tables,
        sets_per_table,
        index_stream: groups as usize,
        groups: bounds_s(groups).unwrap(),
        object_bytes_min: 0,
        reinsertion: true,
        memory: ArrayMemory::default(),
        hasher: KeyHasher::UNSEEDED,
        oldest_sequence: 1 << 32,
        first_region_number: 0,
    }
}

impl Bench {
    fn new(place: ArrayPlace) -> Self {
        let bytes = usize::try_from(place.log.regions * place.log.region_bytes).unwrap();
        Self::on(Arc::new(MemoryDevice::holding(vec![0; bytes])), place)
    }

    fn on(device: Arc<dyn Device>, place: ArrayPlace) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(START_S)));
        let time = Arc::new(CacheClock::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let counters = Arc::new(Counters::default());
        let breaker = Arc::new(CircuitBreaker::new(time));
        let array = Array::new(Arc::clone(&device), place, None, (Arc::clone(&counters), breaker));
        Self { device, clock, counters, array }
    }

    fn now_s(&self) -> u32 {
        u32::try_from(self.clock.now().as_secs()).unwrap()
    }

    /// Reads for which a request waits.
    fn reads(&self) -> (u64, u64) {
        (self.counters.array_table_reads.get(), self.counters.array_record_reads.get())
    }

    /// Sets, with at most one read. `left_s` of 0 means no expiry.
    fn set(&self, key: u64, value: &[u8], left_s: u32) -> bool {
        let expiry_s = if left_s == 0 { 0 } else { self.now_s() + left_s };
        let (key, now_s) = (key.to_le_bytes(), self.now_s());
        let item = ItemRef::new(KeyHash::of(&key), &key, value, expiry_s);
        let before = self.reads();
        let stored = block_on(self.array.set(&item, now_s));
        let after = self.reads();
        assert!(after.0 - before.0 <= 1, "{before:?} to {after:?}");
        stored
    }

    /// Gets, with at most two reads.
    fn get(&self, key: u64) -> Option<Vec<u8>> {
        let (key, now_s) = (key.to_le_bytes(), self.now_s());
        let before = self.reads();
        let found = block_on(self.array.find_whole(KeyHash::of(&key), &key, now_s));
        let after = self.reads();
        assert!(after.0 - before.0 <= 1 && after.1 - before.1 <= 1, "{before:?} to {after:?}");
        found.as_ref().map(|fetched: &FlashItem| fetched.item().value.to_vec())
    }

    fn delete(&self, key: u64) {
        self.array.die(KeyHash::of(&key.to_le_bytes()));
    }
}

fn value(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![u8::try_from(key % 251).unwrap(); bytes];
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

fn pseudo_random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::base::key::mixed(state)
    }
}

#[test]
fn what_was_set_last_is_found_or_nothing() {
    for seed in 1..4 {
        let bench = Bench::new(place(64, (4, 3), 32));
        let (mut next, mut model) = (pseudo_random(seed), HashMap::<u64, Vec<u8>>::new());
        let (mut hits, mut gets) = (0, 0);
        for version in 0..12_000 {
            let key = next() % 3000;
            match next() % 10 {
                0..5 => {
                    gets += 1;
                    let found = bench.get(key);
                    hits += u64::from(found.is_some());
                    assert!(found.is_none() || found.as_ref() == model.get(&key), "{key}, {seed}");
                }
                5..9 => {
                    let bytes = 8 + usize::try_from(next() % 6000).unwrap();
                    let value = value(key, version, bytes);
                    let left_s = [0, 50, 4000, 86_400][usize::try_from(next() % 4).unwrap()];
                    assert!(bench.set(key, &value, left_s));
                    model.insert(key, value);
                }
                _ => {
                    bench.delete(key);
                    model.remove(&key);
                }
            }
        }
        assert!(hits * 3 > gets, "{hits} of {gets}");
        assert!(bench.counters.array_reclaimed_regions.get() > 20, "the log went around");
        assert_eq!(bench.counters.array_bad_records.get(), 0);
        assert_eq!(bench.counters.array_table_overflows.get(), 0);
    }
}

/// A table may be written while the new version waits for room: it must not treat the entry that is still in its set as
/// newer.
#[test]
fn what_was_replaced_is_not_back_when_its_successor_has_expired() {
    let bench = Bench::new(place(64, (4, 3), 32));
    for key in 0..400 {
        assert!(bench.set(key, &value(key, 0, 2000), 0));
        assert!(bench.set(key, &value(key, 1, 20_000), 10));
        bench.clock.advance_to(bench.clock.now() + Duration::from_secs(2));
        for before in (key.saturating_sub(40)..key).step_by(4) {
            let found = bench.get(before).map(|it| it[..8].to_vec());
            assert_ne!(found, Some(0_u64.to_le_bytes().to_vec()), "{before} at {key}");
        }
    }
    assert!(bench.counters.array_expired_regions.get() > 10, "regions expire");
}

#[test]
fn nothing_expired_is_returned_and_regions_of_it_are_freed_unread() {
    let bench = Bench::new(place(64, (4, 3), 32));
    for key in 0..800 {
        assert!(bench.set(key, &value(key, 0, 4000), 100));
    }
    bench.clock.advance_to(Duration::from_secs(START_S + 99));
    assert!(bench.get(799).is_some());
    bench.clock.advance_to(Duration::from_secs(START_S + 100));
    let before = bench.reads();
    assert!((0..800).all(|key| bench.get(key).is_none()));
    let in_open = REGION_BYTES / 4096 + 2;
    assert!(bench.reads().1 - before.1 <= u64::from(in_open), "only what is still open is read");
    for key in 1000..1800 {
        assert!(bench.set(key, &value(key, 0, 4000), 0));
    }
    assert!(bench.counters.array_expired_regions.get() >= 8);
    let counters = &bench.counters;
    let emptied = counters.array_emptied_regions.get();
    assert_eq!(counters.array_reclaimed_regions.get(), emptied, "of tables alone");
}

#[test]
fn an_absent_key_costs_a_read_and_none_where_no_table_was_written() {
    let bench = Bench::new(place(64, (4, 3), 1));
    assert!(bench.get(7).is_none());
    assert_eq!(bench.reads(), (0, 0));
    for key in 0..2000 {
        bench.set(key, &value(key, 0, 1000), 0);
    }
    block_on(bench.array.log.regions().write_out());
    let before = bench.reads();
    (10_000..10_100).for_each(|key| assert!(bench.get(key).is_none()));
    let after = bench.reads();
    assert_eq!((after.0 - before.0, after.1 - before.1), (100, 0));
}

#[test]
fn a_clean_restart_keeps_everything() {
    let layout = place(64, (4, 3), 32);
    let bench = Bench::new(layout.clone());
    for key in 0..2500 {
        bench.set(key, &value(key, key, 3000), [0, 5000][usize::try_from(key % 2).unwrap()]);
    }
    (0..2500).step_by(9).for_each(|key| bench.delete(key));
    let found: Vec<u64> = (0..2500).filter(|&key| bench.get(key).is_some()).collect();
    assert!(found.len() > 1500, "{}", found.len());
    block_on(bench.array.finish());
    let part = block_on(bench.array.export(DeadRecords::Listed));
    let later = LogPlace { first_sequence: 2 << 32, ..layout.log.clone() };
    let later = ArrayPlace { log: later, ..layout };
    let mut again = Bench::on(Arc::clone(&bench.device), later);
    block_on(again.array.import(&part, &ShutdownMark::Snapshot)).unwrap();
    for key in 0..2500 {
        let expected = found.binary_search(&key).is_ok();
        assert_eq!(again.get(key), expected.then(|| value(key, key, 3000)), "{key}");
    }
    for key in 0..2500 {
        assert!(again.set(key, &value(key, key + 1, 3000), 0));
    }
    assert!((0..2500).all(|key| again.get(key).is_none_or(|it| it == value(key, key + 1, 3000))));
}

#[test]
fn what_is_no_snapshot_of_it_is_refused() {
    let bench = Bench::new(place(64, (4, 3), 32));
    (0..500).for_each(|key| assert!(bench.set(key, &value(key, key, 3000), 0)));
    block_on(bench.array.finish());
    let part = block_on(bench.array.export(DeadRecords::Listed));
    let again = Bench::on(Arc::clone(&bench.device), place(64, (5, 3), 32));
    assert!(!again.array.import_all(&part) && !again.array.import_all(&part[..part.len() - 1]));
    assert!(!again.array.import_all(&[]));
}

#[test]
fn objects_that_are_asked_for_stay() {
    let hits_with = |reinsertion| {
        let bench = Bench::new(ArrayPlace { reinsertion, ..place(64, (8, 16), 1) });
        for key in 0..30_000_u64 {
            bench.set(key, &value(key, 0, 3000), 0);
            // Twenty of them are requested again and again.
            if key > 20 {
                let _ = bench.get(key % 20);
            }
        }
        let kept = (0..20).filter(|&key| bench.get(key).is_some()).count();
        (kept, bench.counters.array_reinserted_objects.get())
    };
    let (kept, reinserted) = hits_with(true);
    assert!(kept >= 15 && reinserted > 60, "{kept} kept, {reinserted} reinserted");
    assert_eq!(hits_with(false), (0, 0));
}

#[test]
fn tables_are_moved_before_their_region_is_given_up() {
    let bench = Bench::new(place(128, (16, 4), 1));
    let mut next = pseudo_random(5);
    for version in 0..40_000 {
        let key = next() % 5000;
        bench.set(key, &value(key, version, 600), 0);
    }
    let emptied = bench.counters.array_emptied_regions.get();
    let regions = bench
        .array
        .log
        .lock()
        .regions
        .all()
        .iter()
        .filter(|region| region.stream() == Some(1) && region.state() == RegionState::Sealed)
        .count();
    assert!(emptied > 5, "{emptied} emptied");
    assert!(
        regions <= bench.array.log.place().table_regions_max() + 1,
        "{regions} regions of tables"
    );
    let found = (0..5000).filter(|&key| bench.get(key).is_some()).count();
    assert!(found > 4900, "{found}");
}

/// With hashes of 16 bits, keys collide: each key whose hash a later key shares is lost, and no key is taken for
/// another.
#[test]
fn keys_of_one_hash_lose_each_other_and_are_never_confused() {
    const HASHES: u64 = 1 << 16;
    const KEYS: u64 = 20_000;
    let bench = Bench::new(place(160, (32, 4), 1));
    let cut = |key: u64| {
        let hash = KeyHash::of(&key.to_le_bytes()).0 % HASHES;
        KeyHash(crate::base::key::mixed(hash))
    };
    let now_s = bench.now_s();
    for key in 0..KEYS {
        let (name, value) = (key.to_le_bytes(), value(key, key, 500));
        assert!(block_on(bench.array.set(&ItemRef::new(cut(key), &name, &value, 0), now_s)));
    }
    let mut lost = 0;
    for key in 0..KEYS {
        match block_on(bench.array.find_whole(cut(key), &key.to_le_bytes(), now_s)) {
            Some(found) => assert_eq!(found.item().value, value(key, key, 500)),
            None => lost += 1,
        }
    }
    // The last key of each hash is found; the formula gives the expected number of other keys.
    #[allow(clippy::cast_precision_loss)]
    let expected = {
        let (keys, hashes) = (KEYS as f64, HASHES as f64);
        keys - hashes * (1.0 - (1.0 - 1.0 / hashes).powf(keys))
    };
    let ratio = f64::from(lost) / expected;
    assert!((0.8..1.2).contains(&ratio), "{lost} lost, {expected:.0} expected");
    assert_eq!(bench.counters.array_collisions.get(), u64::try_from(lost).unwrap());
    assert_eq!(
        bench.counters.array_reclaimed_regions.get(),
        bench.counters.array_emptied_regions.get()
    );
}
