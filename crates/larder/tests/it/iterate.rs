//! `scan`: everything that is there, once, and nothing that is not.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use larder::{Config, CrashSafety, Larder, Scanned, SetOptions, Tier, VirtualClock, block_on};

use crate::rig::{Rig, config, drive, key_of, value_of, version_in};

/// All items by key. Fails if a key comes twice.
fn scanned(cache: &Larder) -> HashMap<u32, Scanned> {
    let mut scan = cache.scan();
    let mut all = HashMap::new();
    while let Some(batch) = block_on(scan.next()) {
        assert!(!batch.is_empty());
        for item in batch {
            let key = number_in(item.key());
            assert!(all.insert(key, item).is_none(), "key {key} twice");
        }
    }
    all
}

fn number_in(key: &[u8]) -> u32 {
    std::str::from_utf8(&key[4..]).unwrap().parse().unwrap()
}

fn bytes_of(key: u32) -> usize {
    if key.is_multiple_of(9) { 4_000 } else { 100 }
}

#[test]
fn everything_is_found_once_in_every_tier() {
    for crash_safety in [CrashSafety::Process, CrashSafety::Off] {
        for dram_bytes in [20 << 10, 300 << 10] {
            let rig = Rig::open(Config { crash_safety, dram_bytes, ..config() }, &drive());
            for key in 0..800 {
                let value = value_of(key, 7, bytes_of(key));
                let ttl = key.is_multiple_of(2).then_some(Duration::from_secs(60));
                let options = SetOptions { ttl, flags: key, ..SetOptions::default() };
                block_on(rig.cache.set_with(&key_of(key), &value, options)).unwrap();
            }
            let before = rig.cache.stats();
            let all = scanned(&rig.cache);
            let stats = rig.cache.stats();
            assert_eq!((stats.gets, stats.hits()), (0, 0), "a scan is no use");
            assert_eq!(stats.dram_items, before.dram_items, "and brings nothing to DRAM");
            let in_tier = |tier| all.values().filter(|item| item.tier() == tier).count();
            assert_eq!(in_tier(Tier::Dram) as u64, stats.dram_items);
            let (small, large) = (in_tier(Tier::SmallObjects), in_tier(Tier::LargeObjects));
            assert!(small > 100 && (large > 20 || dram_bytes > 100 << 10), "{small} {large}");
            for key in 0..800 {
                let item = &all[&key];
                assert_eq!(version_in(key, item.value()), 7);
                assert_eq!(item.value().flags(), key);
                let expires_at = key.is_multiple_of(2).then_some(Duration::from_secs(1060));
                assert_eq!(item.expires_at(), expires_at);
            }
        }
    }
}

#[test]
fn nothing_is_returned_that_is_replaced_deleted_or_expired() {
    for crash_safety in [CrashSafety::Process, CrashSafety::Off] {
        let rig = Rig::open(Config { crash_safety, ..config() }, &drive());
        (0..600).for_each(|key| rig.set(key, 1, bytes_of(key)));
        for key in 0..600 {
            match key % 5 {
                0 => rig.set(key, 2, bytes_of(key)),
                1 => rig.set(key, 2, 4_100 - bytes_of(key)), // in the other engine
                2 => _ = rig.delete(key),
                3 => rig.set_for(key, 2, bytes_of(key), Duration::from_secs(5)),
                _ => {}
            }
        }
        rig.clock.advance_to(Duration::from_secs(1010));
        let all = scanned(&rig.cache);
        for key in 0..600 {
            let version = all.get(&key).map(|item| version_in(key, item.value()));
            let wanted = [Some(2), Some(2), None, None, Some(1)][key as usize % 5];
            assert_eq!(version, wanted, "key {key}, {crash_safety:?}");
        }
    }
}

#[test]
fn what_a_crash_has_left_is_found() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    (0..300).for_each(|key| rig.set(key, 1, bytes_of(key)));
    (0..300).step_by(3).for_each(|key| _ = rig.delete(key));
    let _all = block_on(rig.cache.flush()).unwrap();
    drop(rig);
    let rig = Rig::open(config(), &drive);
    let all = scanned(&rig.cache);
    for key in 0..300 {
        assert_eq!(all.contains_key(&key), !key.is_multiple_of(3), "key {key}");
    }
}

#[test]
fn without_flash_and_while_empty_too() {
    let cache = |dram_bytes| {
        let config = Config { dram_bytes, ..Config::default() };
        block_on(Larder::open(config, None, Arc::new(VirtualClock::default()))).unwrap()
    };
    assert!(scanned(&cache(1 << 20)).is_empty());
    let cache = cache(16 << 20);
    for key in 0..5_000 {
        block_on(cache.set(&key_of(key), &value_of(key, 1, 50), None)).unwrap();
    }
    assert_eq!(scanned(&cache).len(), 5_000);
}

#[test]
fn what_stays_is_returned_once_while_the_rest_changes() {
    for crash_safety in [CrashSafety::Process, CrashSafety::Off] {
        let rig = Rig::open(Config { crash_safety, dram_bytes: 60 << 10, ..config() }, &drive());
        (0..500).for_each(|key| rig.set(key, 1, bytes_of(key)));
        let (ended, begun) = (AtomicBool::new(false), AtomicU32::new(0));
        // The version of each changing key that was certainly stored.
        let stored: Vec<AtomicU32> = (0..50).map(|_| AtomicU32::new(0)).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut rng = fastrand::Rng::with_seed(3);
                for version in 1..=50_000 {
                    let key = rng.u32(..50);
                    rig.set(1000 + key, version, if version % 40 == 0 { 1_000 } else { 100 });
                    stored[key as usize].store(version, Ordering::SeqCst);
                    // Moves items between the tiers.
                    assert_eq!(rig.get(rng.u32(..500)), Some(1));
                    let enough = version > 3_000 && begun.load(Ordering::SeqCst) > 3;
                    if enough || ended.load(Ordering::SeqCst) {
                        break;
                    }
                }
                ended.store(true, Ordering::SeqCst);
            });
            let mut scans = 0;
            while scans < 30 && !ended.load(Ordering::SeqCst) {
                let least: Vec<u32> = stored.iter().map(|it| it.load(Ordering::SeqCst)).collect();
                begun.fetch_add(1, Ordering::SeqCst);
                let all = scanned(&rig.cache);
                for key in 0..500 {
                    let version = all.get(&key).map(|item| version_in(key, item.value()));
                    assert_eq!(version, Some(1), "key {key} of those that stay");
                }
                for (key, least) in (1000..).zip(least) {
                    if let Some(item) = all.get(&key) {
                        let version = version_in(key, item.value());
                        assert!(version >= least, "key {key}: {version}, but {least} was stored");
                    }
                }
                scans += 1;
            }
            ended.store(true, Ordering::SeqCst);
            assert!(scans >= 3, "{scans}");
        });
    }
}

/// Two keys that XXH3 cannot tell apart: the first eight bytes are those of its secret, so that the next eight are
/// multiplied by 0.
#[test]
fn both_keys_of_one_hash_are_found() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    let twin = |which: u8| {
        let secret = [0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe];
        [&secret[..], &[which; 8], b"sixteen others.."].concat()
    };
    for which in [1, 2] {
        block_on(rig.cache.set(&twin(which), b"v", None)).unwrap();
    }
    for filled in [0..0, 1000..1300] {
        filled.for_each(|key| rig.set(key, 1, 200));
        let mut scan = rig.cache.scan();
        let mut found = Vec::new();
        while let Some(items) = block_on(scan.next()) {
            found.extend(items.iter().map(|item| item.key().to_vec()));
        }
        let times = |which| found.iter().filter(|key| **key == twin(which)).count();
        assert_eq!([times(1), times(2)], [1, 1]);
    }
}
