//! Values that are for one tier only.

use std::sync::Arc;

use larder::{
    Config, CrashSafety, ErrorKind, Larder, RealClock, RemovalListener, RemovalReason, SetOptions,
    Tier, Tiers, block_on,
};

use crate::rig::{Rig, config, drive, key_of, logged, value_of, version_in};

const DRAM_ONLY: SetOptions = only(Tiers::DramOnly);
const FLASH_ONLY: SetOptions = only(Tiers::FlashOnly);

const fn only(tiers: Tiers) -> SetOptions {
    SetOptions {
        ttl: None,
        flags: 0,
        tiers,
        version: None,
        stale: false,
        won: false,
        binary_key: false,
    }
}

/// Small and large values, and one longer than a region.
fn bytes_of(key: u32) -> usize {
    match key {
        0 => 400_000,
        _ if key.is_multiple_of(5) => 3_000,
        _ => 200,
    }
}

fn set(rig: &Rig, key: u32, version: u32, options: SetOptions) {
    let value = value_of(key, version, bytes_of(key));
    block_on(rig.cache.set_with(&key_of(key), &value, options)).unwrap();
}

fn settings() -> [Config; 3] {
    [config(), logged(), Config { crash_safety: CrashSafety::Off, ..config() }]
}

#[test]
fn what_is_for_dram_only_is_never_written() {
    for config in settings() {
        let evicted = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = Arc::clone(&evicted);
        let listener = RemovalListener::new(move |removal| {
            assert_eq!(removal.tier, Tier::Dram);
            let is_gone = removal.reason == RemovalReason::Evicted;
            assert!(is_gone || removal.reason == RemovalReason::Replaced, "{removal:?}");
            count.fetch_add(u64::from(is_gone), std::sync::atomic::Ordering::Relaxed);
        });
        let drive = drive();
        let rig = Rig::open(Config { removal_listener: Some(listener), ..config.clone() }, &drive);
        (1..400).for_each(|key| set(&rig, key, 1, DRAM_ONLY));
        let stats = rig.cache.stats();
        let there = (1..400).filter(|&key| rig.get(key) == Some(1)).count() as u64;
        assert_eq!(there, stats.dram_items);
        assert!(there > 5, "{there}");
        let flushed = block_on(rig.cache.flush()).unwrap();
        assert_eq!((flushed.objects, flushed.refused), (0, there));
        // Derived values are for DRAM only too.
        let last = key_of(399);
        assert!(block_on(rig.cache.append(&last, b"and more")).unwrap());
        assert!(block_on(rig.cache.touch(&last, None)).unwrap());
        let stats = block_on(rig.cache.close()).unwrap();
        let written = stats.soc_written_bytes + stats.soc_log_written_bytes;
        assert_eq!((written, stats.admitted_objects), (0, 0));
        assert_eq!(stats.dram_evicted_objects, 399);
        assert_eq!(evicted.load(std::sync::atomic::Ordering::Relaxed), 399);
        let rig = Rig::open(config, &drive);
        assert!((1..400).all(|key| rig.get(key).is_none()));
    }
}

/// After an eviction, a close or a crash, flash's older version of the key stays away.
#[test]
fn what_is_for_dram_only_outdates_what_flash_has() {
    for config in settings() {
        for crash in [false, true] {
            let drive = drive();
            let rig = Rig::open(config.clone(), &drive);
            (0..300).for_each(|key| set(&rig, key, 1, SetOptions::default()));
            let _all = block_on(rig.cache.flush()).unwrap();
            (1..300).step_by(2).for_each(|key| set(&rig, key, 2, DRAM_ONLY));
            let mut kept = 0;
            for key in (1..300).step_by(2) {
                let found = rig.get(key);
                assert!(found.is_none_or(|version| version == 2), "{found:?} of key {key}");
                kept += u32::from(found.is_some());
            }
            assert!(kept < 130, "{kept}: most are evicted");
            if !crash {
                block_on(rig.cache.close()).unwrap();
            }
            drop(rig);
            let rig = Rig::open(config.clone(), &drive);
            block_on(rig.cache.rebuild());
            assert!((1..300).step_by(2).all(|key| rig.get(key).is_none()), "crash {crash}");
            let others = (0..300).step_by(2).filter(|&key| rig.get(key) == Some(1)).count();
            let least = match crash {
                false => 140,
                true if config.crash_safety == CrashSafety::Off => 0,
                true if config.soc.log_percent.is_some_and(|it| it > 0.0) => 20, // a crash empties the log
                true => 100,
            };
            assert!(others >= least, "{others}, crash {crash}");
        }
    }
}

#[test]
fn what_dram_cannot_hold_is_refused_where_it_may_be_nowhere_else() {
    let rig = Rig::open(config(), &drive());
    rig.set(7, 1, 100);
    let value = value_of(7, 2, 100_000);
    let refused = block_on(rig.cache.set_with(&key_of(7), &value, DRAM_ONLY)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("for DRAM only: dram_bytes"), "{refused}");
    assert_eq!(rig.get(7), None, "the older one is gone");
}

#[test]
fn what_is_for_flash_only_goes_there_at_once_and_is_read_there() {
    for config in settings() {
        let drive = drive();
        let mut rig = Rig::open(config.clone(), &drive);
        (0..200).for_each(|key| set(&rig, key, 1, FLASH_ONLY));
        for opening in 0..2 {
            for round in 0..2 {
                for key in 0..200 {
                    let found = block_on(rig.cache.get(&key_of(key))).unwrap().unwrap();
                    assert_eq!((version_in(key, &found), found.version()), (1, 0), "{round}");
                }
            }
            let stats = rig.cache.stats();
            assert_eq!((stats.dram_items, stats.dram_hits), (0, 0), "opening {opening}");
            assert_eq!(stats.soc_hits + stats.loc_hits, 400);
            block_on(rig.cache.close()).unwrap();
            drop(rig);
            rig = Rig::open(config.clone(), &drive);
        }
        let mut scan = rig.cache.scan();
        while let Some(batch) = block_on(scan.next()) {
            assert!(batch.iter().all(|item| item.tier() != Tier::Dram));
        }
        // Derived values stay there; a plain set makes a plain value of it.
        assert!(block_on(rig.cache.append(&key_of(1), b"")).unwrap());
        assert!(block_on(rig.cache.touch(&key_of(5), None)).unwrap());
        assert_eq!((rig.get(1), rig.get(5), rig.cache.stats().dram_items), (Some(1), Some(1), 0));
        set(&rig, 1, 2, SetOptions::default());
        assert_eq!((rig.get(1), rig.cache.stats().dram_items), (Some(2), 1));
        // And the other way around: DRAM no longer has it.
        set(&rig, 1, 3, FLASH_ONLY);
        assert_eq!((rig.get(1), rig.cache.stats().dram_items), (Some(3), 0));
        // Changes that read first, and fetches.
        let value = value_of(2, 4, 200);
        assert!(block_on(rig.cache.replace(&key_of(2), &value, FLASH_ONLY)).unwrap());
        let fetch = async || Ok::<_, String>(value_of(1000, 1, 200));
        block_on(rig.cache.get_or_fetch(&key_of(1000), FLASH_ONLY, fetch)).unwrap();
        assert_eq!(
            (rig.get(2), rig.get(1000), rig.cache.stats().dram_items),
            (Some(4), Some(1), 0)
        );
    }
}

#[test]
fn what_is_for_flash_only_outlives_a_crash_and_outdates_what_was() {
    for config in [config(), logged()] {
        let drive = drive();
        let rig = Rig::open(config.clone(), &drive);
        (0..200).for_each(|key| set(&rig, key, 1, SetOptions::default()));
        (0..200).step_by(2).for_each(|key| set(&rig, key, 2, FLASH_ONLY));
        // Nothing waits in DRAM; a flush writes what regions and the log hold in memory.
        let flushed = block_on(rig.cache.flush()).unwrap();
        assert!(flushed.objects < 100, "{flushed:?}");
        drop(rig);
        let rig = Rig::open(config.clone(), &drive);
        block_on(rig.cache.rebuild());
        let mut found = 0;
        for key in 0..200 {
            match rig.get(key) {
                None => {}
                Some(version) => {
                    assert_eq!(version, if key % 2 == 0 { 2 } else { 1 }, "key {key}");
                    found += usize::from(version == 2);
                }
            }
        }
        // The log of small objects is lost in a crash.
        assert!(
            found >= if config.soc.log_percent.is_some_and(|it| it > 0.0) { 20 } else { 100 },
            "{found}"
        );
    }
}

#[test]
fn without_flash_all_of_them_mean_dram() {
    let cache = block_on(Larder::open(Config::default(), None, Arc::new(RealClock))).unwrap();
    for (key, options) in [(b"a", DRAM_ONLY), (b"b", FLASH_ONLY)] {
        block_on(cache.set_with(key, b"1", options)).unwrap();
        let found = block_on(cache.get(key)).unwrap().unwrap();
        assert!(found.version() > 0, "DRAM has it");
    }
}

/// Each key is set once: what is no longer found was evicted, and is counted once, wherever that was.
#[test]
fn what_is_gone_was_counted_as_evicted() {
    for config in [config(), logged()] {
        let drive = drive();
        let rig = Rig::open(config, &drive);
        let keys = 40_000;
        for key in 0..keys {
            rig.set(key, 1, if key % 50 == 0 { 20_000 } else { 300 });
        }
        let _all = block_on(rig.cache.flush()).unwrap();
        let found = (0..keys).filter(|&key| rig.get(key).is_some()).count() as u64;
        let (gone, evicted) = (u64::from(keys) - found, rig.cache.stats().evicted_objects());
        assert!(gone > u64::from(keys) / 4, "{gone} are gone");
        let difference = gone.abs_diff(evicted);
        assert!(difference * 50 <= gone, "{gone} are gone, {evicted} were counted");
    }
}
