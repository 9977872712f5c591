//! The hash of keys: clients cannot construct keys that share a place, and content on flash is found again with the
//! hash under which it was stored.

use std::sync::Arc;

use larder::{
    Config, CrashSafety, Larder, RealClock, Recovery, Shards, SocConfig, VirtualClock, block_on,
};
use larder_device::label;
use larder_device::{Device, Io, IoBuffer, MemoryDevice, PlacementHandle};
use xxhash_rust::xxh3::xxh3_64;

use crate::rig::{Rig, config, drive, key_of, logged, value_of, version_in};

const ALIKE: u64 = 100_000;
const ALIKE_IN_DRAM: u64 = 1_000_000;
const OTHERS: u64 = 20_000;
/// In the label of a cache; in that of a shard, the list of its parts follows.
const SEED_AT: usize = 64 + 40;
const ROUTING_SEED_AT: usize = 64 + 24;

/// Keys that XXH3 cannot tell apart without a seed: the first eight bytes are those of its secret, and the following
/// bytes are multiplied by the difference, 0.
fn alike(which: u64) -> Vec<u8> {
    let mut key = vec![0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe];
    key.extend_from_slice(&which.to_le_bytes());
    key.extend_from_slice(b"sixteen others..");
    key
}

fn other(which: u64) -> Vec<u8> {
    format!("an ordinary key of {which:013}").into_bytes()
}

fn set(cache: &Larder, key: &[u8]) {
    block_on(cache.set(key, &key[8..], None)).unwrap();
}

fn is_there(cache: &Larder, key: &[u8]) -> bool {
    let found = block_on(cache.get(key)).unwrap();
    found.is_some_and(|value| {
        assert_eq!(*value, key[8..], "a value of another key");
        true
    })
}

fn found(cache: &Larder, key_of: impl Fn(u64) -> Vec<u8>, count: u64) -> u64 {
    (0..count).filter(|&which| is_there(cache, &key_of(which))).count() as u64
}

fn first_block(device: &impl Device) -> IoBuffer {
    block_on(device.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) })).unwrap()
}

fn damage(device: &impl Device, offset: u64) {
    let read = Io::Read { offset, buffer: IoBuffer::zeroed(4096) };
    let mut block = block_on(device.submit(read)).unwrap();
    block.as_mut_slice()[20] ^= 1;
    block_on(device.submit(Io::write(offset, block, PlacementHandle::DEFAULT))).unwrap();
}

fn seed_on(device: &impl Device) -> u64 {
    let block = first_block(device);
    u64::from_le_bytes(block.as_slice()[SEED_AT..SEED_AT + 8].try_into().unwrap())
}

#[test]
fn keys_made_for_one_hash_are_keys_like_others() {
    assert!((0..1000).all(|which| xxh3_64(&alike(which)) == xxh3_64(&alike(0))));
    let memory = |key_of: fn(u64) -> Vec<u8>| {
        let config = Config { dram_bytes: 256 << 20, ..Config::default() };
        let cache = block_on(Larder::open(config, None, Arc::new(RealClock))).unwrap();
        (0..OTHERS).for_each(|which| set(&cache, &other(which)));
        (0..ALIKE_IN_DRAM).for_each(|which| set(&cache, &key_of(which)));
        assert_eq!(found(&cache, key_of, ALIKE_IN_DRAM), ALIKE_IN_DRAM, "all are taken");
        assert_eq!(found(&cache, other, OTHERS), OTHERS, "others stay");
        cache.stats().dram_used_bytes
    };
    let ordinary = memory(|which| other(OTHERS + which));
    let (made, ordinary) = (memory(alike) as f64, ordinary as f64);
    assert!((made / ordinary - 1.0).abs() < 0.05, "{made} bytes and {ordinary}");
}

#[test]
fn keys_made_for_one_hash_are_found_on_flash_again() {
    for soc_log_percent in [0.0, 5.0] {
        let device = Arc::new(MemoryDevice::holding(vec![0; 64 << 20]));
        let open = || {
            let config = Config {
                dram_bytes: 1 << 20,
                soc: SocConfig {
                    percent: Some(50.0),
                    log_percent: Some(soc_log_percent),
                    log_threshold: 1,
                    ..SocConfig::default()
                },
                ..Config::default()
            };
            let shared: Arc<dyn Device> = Arc::clone(&device) as _;
            block_on(Larder::open(config, Some(shared), Arc::new(RealClock))).unwrap()
        };
        let cache = open();
        (0..OTHERS).for_each(|which| set(&cache, &other(which)));
        (0..ALIKE).for_each(|which| set(&cache, &alike(which)));
        let stats = cache.stats();
        assert_eq!((stats.soc_evicted_objects, stats.soc_log_dropped_objects), (0, 0), "{stats:?}");
        // A crash, or a close: the log does not survive a crash.
        if soc_log_percent == 0.0 {
            let _all = block_on(cache.flush()).unwrap();
        } else {
            block_on(cache.close()).unwrap();
        }
        drop(cache);
        for closed in [soc_log_percent > 0.0, true] {
            let cache = open();
            block_on(cache.rebuild());
            // The log sometimes takes two keys of a bucket for one, independently of the keys.
            let least =
                |count: u64| if soc_log_percent == 0.0 { count } else { count - count / 500 };
            let found = [found(&cache, alike, ALIKE), found(&cache, other, OTHERS)];
            assert!(found[0] >= least(ALIKE) && found[1] >= least(OTHERS), "{found:?}");
            let is_clean = matches!(cache.recovery(), Some(Recovery::Clean { .. }));
            assert_eq!(is_clean, closed);
            block_on(cache.close()).unwrap();
        }
    }
}

#[test]
fn a_cache_keeps_its_seed_as_long_as_it_has_content() {
    let any = || Config { hash_seed: None, ..config() };
    let (drive, twin) = (drive(), drive());
    let rig = Rig::open(any(), &drive);
    let seed = seed_on(&*drive);
    drop(Rig::open(any(), &twin));
    assert!(seed != seed_on(&*twin) && seed != 0, "each has its own");
    (0..300).for_each(|key| rig.set(key, 1, 300));
    block_on(rig.cache.close()).unwrap();
    drop(rig);
    // Independently of the configuration.
    for hash_seed in [None, Some(seed + 1)] {
        let rig = Rig::open(Config { hash_seed, ..config() }, &drive);
        assert_eq!(seed_on(&*drive), seed);
        assert!((0..300).all(|key| rig.get(key) == Some(1)));
        block_on(rig.cache.close()).unwrap();
    }
    let rig = Rig::open(any(), &drive);
    block_on(rig.cache.clear()).unwrap();
    assert_eq!(seed_on(&*drive), seed, "a clear leaves policies and locks as they are");
    rig.set(1, 2, 300);
    assert_eq!(rig.get(1), Some(2));
    drop(rig);
    let rig = Rig::open(Config { start_empty: true, ..any() }, &drive);
    assert!(![seed, 0].contains(&seed_on(&*drive)), "a cache that starts empty draws a new seed");
    assert_eq!(rig.get(1), None);
    drop(rig);
    drop(Rig::open(Config { start_empty: true, hash_seed: Some(7), ..config() }, &drive));
    assert_eq!(seed_on(&*drive), 7, "or takes what is given");
}

/// The seed of the cache's first opening is used: what was stored under it is found by the openings that follow.
#[test]
fn what_was_stored_under_the_first_seed_is_found() {
    let off = Config { crash_safety: CrashSafety::Off, ..config() };
    for (config, crash) in [(config(), false), (logged(), false), (config(), true), (off, false)] {
        let drive = drive();
        let rig = Rig::open(Config { hash_seed: Some(0), ..config.clone() }, &drive);
        // Small, large, and longer than a region.
        let bytes_of =
            |key: u32| [200, 3000, 300_000][(key % 97 / 95) as usize + (key % 97 / 96) as usize];
        (0..300).for_each(|key| rig.set(key, 1, bytes_of(key)));
        if crash {
            let _all = block_on(rig.cache.flush()).unwrap();
        } else {
            block_on(rig.cache.close()).unwrap();
        }
        drop(rig);
        for _ in 0..3 {
            let rig = Rig::open(Config { hash_seed: None, ..config.clone() }, &drive);
            block_on(rig.cache.rebuild());
            assert!(!matches!(rig.cache.recovery(), Some(Recovery::Discarded { .. })));
            let lost: Vec<u32> = (0..300).filter(|&key| rig.get(key) != Some(1)).collect();
            assert!(lost.is_empty(), "{lost:?}");
            block_on(rig.cache.close()).unwrap();
        }
        assert_eq!(seed_on(&*drive), 0);
    }
}

/// A seed belongs to an identity: what a cache wrote under another seed belongs to another cache.
#[test]
fn nothing_that_was_stored_under_another_seed_is_believed() {
    for config in [config(), logged()] {
        let drive = drive();
        let config = Config { hash_seed: None, ..config };
        let mut fronts = Vec::new();
        for life in 0..6_u32 {
            // All start in the same second without a valid superblock: epochs and sequence numbers do not help.
            if life > 0 {
                label::COPIES.into_iter().for_each(|copy| damage(&*drive, copy));
            }
            let rig = Rig::open(config.clone(), &drive);
            assert!(!fronts.contains(&seed_on(&*drive)));
            fronts.push(seed_on(&*drive));
            assert!((0..400).all(|key| rig.get(key).is_none()), "of an earlier life");
            let mine = (0..400).filter(|key| key % 6 == life);
            mine.clone().for_each(|key| rig.set(key, life, if key % 5 == 0 { 3000 } else { 200 }));
            let _all = block_on(rig.cache.flush()).unwrap();
            drop(rig);
            let rig = Rig::open(config.clone(), &drive);
            block_on(rig.cache.rebuild());
            let mut kept = 0;
            for key in 0..400 {
                let found = rig.get(key);
                // The log does not survive a crash.
                assert!(
                    found.is_none() || (key % 6, found) == (life, Some(life)),
                    "key {key}: {found:?}"
                );
                kept += u32::from(found.is_some());
            }
            assert!(kept > 10, "{kept}");
        }
    }
}

/// Clients must not be able to fill a single shard, nor a single bucket of all shards, so shards and their caches have
/// independent seeds.
#[test]
fn shards_divide_keys_by_a_seed_of_the_set() {
    let drives: Vec<_> = (0..4).map(|_| drive()).collect();
    let open = |start_empty, missing: Option<usize>| {
        let device =
            |(n, drive): (usize, &Arc<_>)| (Some(n) != missing).then(|| Arc::clone(drive) as _);
        let devices = drives.iter().enumerate().map(device).collect();
        let config = Config { dram_bytes: 80 << 10, hash_seed: None, start_empty, ..config() };
        let clock = VirtualClock::starting_at(std::time::Duration::from_secs(1000));
        block_on(Shards::open(config, devices, Arc::new(clock))).unwrap()
    };
    let shard_of = Shards::home_of;
    let division = |cache: &Shards| -> Vec<usize> {
        (0..2000).map(|which| shard_of(cache, &alike(which))).collect()
    };
    let cache = open(false, None);
    let before = division(&cache);
    let most = (0..4).map(|n| before.iter().filter(|&&of| of == n).count()).max().unwrap();
    assert!(most < 650, "{most} of 2000 in one of 4");
    for key in 0..1000 {
        block_on(cache.set(&key_of(key), &value_of(key, 1, 200), None)).unwrap();
    }
    block_on(cache.close()).unwrap();
    drop(cache);
    let seeds: Vec<u64> =
        drives.iter().map(|drive| seed_of_shard(&**drive, drives.len())).collect();
    assert!((0..4).all(|n| !seeds[..n].contains(&seeds[n])), "{seeds:x?}");
    let set = drives.iter().map(|drive| routing_seed(&**drive)).collect::<Vec<_>>();
    assert!(set.iter().all(|&seed| seed == set[0] && seed != 0 && !seeds.contains(&seed)));

    let cache = open(false, None);
    assert_eq!(division(&cache), before, "a key stays with its shard");
    for key in 0..1000 {
        let value = block_on(cache.get(&key_of(key))).unwrap().unwrap();
        assert_eq!(version_in(key, &value), 1);
    }
    block_on(cache.close()).unwrap();
    drop(cache);

    // A set that starts empty divides the keys again; a device that is away then does not bring the old division back.
    let cache = open(true, Some(2));
    let anew = division(&cache);
    assert_ne!(anew, before);
    for key in 0..1000 {
        block_on(cache.set(&key_of(key), &value_of(key, 2, 200), None)).unwrap();
    }
    block_on(cache.close()).unwrap();
    drop(cache);
    let cache = open(false, None);
    assert_eq!(division(&cache), anew);
    for key in 0..1000 {
        let value = block_on(cache.get(&key_of(key))).unwrap();
        let was_away = shard_of(&cache, &key_of(key)) == 2;
        let version = value.map(|value| version_in(key, &value));
        assert!(version == Some(2) || (was_away && version.is_none()), "{key}: {version:?}");
    }
}

/// A crash in the middle of a new division leaves tables of both: the later one is valid, and what was divided by the
/// other one is not trusted.
#[test]
fn shards_that_divide_keys_otherwise_begin_empty() {
    let drives: Vec<_> = (0..2).map(|_| drive()).collect();
    let open = |start_empty| {
        let devices = drives.iter().map(|drive| Some(Arc::clone(drive) as _)).collect();
        let config = Config { dram_bytes: 80 << 10, hash_seed: None, start_empty, ..config() };
        let clock = VirtualClock::starting_at(std::time::Duration::from_secs(1000));
        block_on(Shards::open(config, devices, Arc::new(clock))).unwrap()
    };
    let fill = |cache: &Shards, version| {
        for key in 0..1000 {
            block_on(cache.set(&key_of(key), &value_of(key, version, 200), None)).unwrap();
        }
        block_on(cache.close()).unwrap();
    };
    fill(&open(false), 1);
    let whole = |drive: &Arc<larder_device::ModelDevice>| {
        let bytes = usize::try_from(drive.info().capacity_bytes).unwrap();
        let parts = (0..bytes).step_by(1 << 20).map(|at| {
            let read = Io::Read { offset: at as u64, buffer: IoBuffer::zeroed(1 << 20) };
            block_on(drive.submit(read)).unwrap()
        });
        parts.collect::<Vec<_>>()
    };
    let image = whole(&drives[1]);
    fill(&open(true), 2);
    // Restore the second shard to its earlier state.
    for (at, buffer) in image.into_iter().enumerate() {
        let (offset, handle) = ((at as u64) << 20, PlacementHandle::DEFAULT);
        block_on(drives[1].submit(Io::write(offset, buffer, handle))).unwrap();
    }
    let cache = open(false);
    let mut kept = 0;
    for key in 0..1000 {
        let value = block_on(cache.get(&key_of(key))).unwrap();
        let version = value.map(|value| version_in(key, &value));
        assert!(version != Some(1), "key {key} is of the division before");
        kept += u32::from(version == Some(2));
    }
    assert!((400..600).contains(&kept), "{kept}");
    assert_eq!(routing_seed(&*drives[0]), routing_seed(&*drives[1]));
}

/// The seed of the set, in the partition table.
fn routing_seed(device: &impl Device) -> u64 {
    let block = first_block(device);
    assert_eq!((&block.as_slice()[..8], block.as_slice()[16]), (&b"LARDERLB"[..], 2));
    u64::from_le_bytes(block.as_slice()[ROUTING_SEED_AT..][..8].try_into().unwrap())
}

/// The seed of the cache of a shard, in a set of `shards` shards.
fn seed_of_shard(device: &impl Device, shards: usize) -> u64 {
    let start = u64::from_le_bytes(
        first_block(device).as_slice()[ROUTING_SEED_AT + 8 + shards * 28..][..8]
            .try_into()
            .unwrap(),
    );
    let read = Io::Read { offset: start, buffer: IoBuffer::zeroed(4096) };
    let block = block_on(device.submit(read)).unwrap();
    assert_eq!((&block.as_slice()[..8], block.as_slice()[16]), (&b"LARDERLB"[..], 1));
    u64::from_le_bytes(block.as_slice()[SEED_AT..SEED_AT + 8].try_into().unwrap())
}
