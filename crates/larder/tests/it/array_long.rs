//! Values longer than a region of the array: whole or not at all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use larder::{ArrayConfig, Config, Layout, Recovery, SocConfig, Tier, block_on};
use larder_device::MemoryDevice;

use crate::long::{get, nothing_old_comes_back, patterned, set};
use crate::rig::{Rig, config, drive, key_of, value_of, version_in};

const REGION: usize = 64 << 10;

/// Every object goes to flash at once; most are longer than a region.
fn small_regions() -> Config {
    let array = ArrayConfig {
        percent: 95.0,
        region_bytes: Some(u32::try_from(REGION).unwrap()),
        write_bytes: 16 << 10,
        mean_object_bytes: 4096,
        ttl_groups: false,
        ..ArrayConfig::default()
    };
    let soc = SocConfig { percent: Some(5.0), log_percent: 0.0, ..config().soc };
    Config { dram_bytes: 0, array, soc, ..config() }
}

fn with_groups() -> Config {
    let array =
        ArrayConfig { ttl_groups: true, index_bytes: Some(1 << 10), ..small_regions().array };
    Config { array, ..small_regions() }
}

#[test]
fn all_lengths_around_regions_and_parts_come_back() {
    let rig = Rig::open(small_regions(), &drive());
    let mut lengths: Vec<usize> = (1..=20).map(|regions| regions * REGION).collect();
    lengths.extend(((REGION - 2200)..(REGION - 60)).step_by(41));
    lengths.extend([7000, 7100, 7168, 2 * 7128, 65_537, 100_001].map(|n| n + REGION));
    for (key, bytes) in (0..).zip(lengths) {
        let value = patterned(key, 1, bytes);
        set(&rig, key, &value);
        assert!(get(&rig, key).as_ref() == Some(&value), "{bytes} bytes");
        assert!(block_on(rig.cache.contains(&key_of(key))).unwrap());
        assert!(rig.delete(key) && get(&rig, key).is_none());
    }
    let stats = rig.cache.stats();
    assert_eq!((stats.rejected_too_large_objects, stats.array_incomplete_objects), (0, 0));
    assert_eq!((stats.array_bad_records, stats.dram_hits), (0, 0));
}

#[test]
fn a_long_key_and_flags_stay_with_a_long_value() {
    let rig = Rig::open(small_regions(), &drive());
    let (key, value) = (vec![7; REGION - 2200], patterned(1, 1, 3 * REGION));
    let options = larder::SetOptions { flags: 77, ..Default::default() };
    block_on(rig.cache.set_with(&key, &value, options)).unwrap();
    let found = block_on(rig.cache.get(&key)).unwrap().unwrap();
    assert!(found[..] == value[..] && found.flags() == 77);
    // A head needs a record, too.
    let error = block_on(rig.cache.set(&vec![7; 65_535], &value, None)).unwrap_err();
    assert!(error.to_string().contains("flash holds at most"), "{error}");
    let said =
        block_on(rig.cache.set(&key_of(2), &vec![0; 7 << 20], None)).unwrap_err().to_string();
    let (_, most) = said.split_once("flash holds at most ").expect("it says how much");
    let most: usize = most.split(' ').next().and_then(|most| most.parse().ok()).unwrap();
    let layout = rig.cache.layout().unwrap();
    let share = layout.array_regions as usize * REGION / 4;
    assert!((share / 2..share).contains(&most), "{most} of {share}");
    let longest = patterned(2, 1, most - key_of(2).len());
    set(&rig, 2, &longest);
    assert!(get(&rig, 2) == Some(longest));
    assert!(block_on(rig.cache.set(&key_of(2), &vec![0; most], None)).is_err());
    assert_eq!(get(&rig, 2), None, "a refused value leaves no older one behind");
}

#[test]
fn a_time_to_live_ends_for_all_parts() {
    let rig = Rig::open(with_groups(), &drive());
    let ttl = Duration::from_secs(10);
    rig.set_for(1, 5, 5 * REGION, ttl);
    rig.set_for(2, 6, 3000, ttl);
    assert_eq!((rig.get(1), rig.get(2)), (Some(5), Some(6)));
    rig.clock.advance_to(Duration::from_secs(1011));
    assert_eq!((rig.get(1), rig.get(2)), (None, None));
    assert_eq!(rig.cache.stats().array_incomplete_objects, 0);
}

#[test]
fn nothing_old_comes_back_from_an_array() {
    (20..22).for_each(|seed| nothing_old_comes_back(&small_regions(), seed));
    nothing_old_comes_back(&with_groups(), 22);
    let array = ArrayConfig { reinsertion: false, ..small_regions().array };
    nothing_old_comes_back(&Config { array, ..small_regions() }, 23);
}

#[test]
fn a_restart_keeps_long_values_and_so_does_a_crash_after_a_flush() {
    let drive = drive();
    let rig = Rig::open(small_regions(), &drive);
    let check = |rig: &Rig| {
        for key in 0..4 {
            assert_eq!(rig.get(key), Some(9), "key {key}");
        }
        assert_eq!(rig.get(4), None);
    };
    (0..5).for_each(|key| rig.set(key, 9, (key as usize + 1) * 2 * REGION));
    rig.delete(4);
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(small_regions(), &drive);
    check(&rig);
    let _ = block_on(rig.cache.flush()).unwrap();
    drop(rig);
    for _ in 0..2 {
        let rig = Rig::open(small_regions(), &drive);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Crashed { .. })));
        check(&rig);
        assert_eq!(rig.cache.stats().array_incomplete_objects, 0);
    }
}

/// What a cache left that shut down cleanly with one value of four regions.
fn left_by_one_value(value: &[u8]) -> (Vec<u8>, Layout) {
    let device = Arc::new(MemoryDevice::holding(vec![0; 3 << 20]));
    let rig = Rig::open(small_regions(), &device);
    set(&rig, 1, value);
    let layout = *rig.cache.layout().unwrap();
    block_on(rig.cache.close()).unwrap();
    (device.bytes(), layout)
}

fn reopened(bytes: &[u8]) -> Rig {
    let rig = Rig::open(small_regions(), &Arc::new(MemoryDevice::holding(bytes.to_vec())));
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
    rig
}

#[test]
fn a_value_with_a_damaged_part_is_a_miss() {
    let value = patterned(1, 1, 4 * REGION);
    let (bytes, layout) = left_by_one_value(&value);
    let start = usize::try_from(layout.array_offset).unwrap();
    let (mut hits, mut incomplete) = (0, 0);
    for at in (start..start + layout.array_regions as usize * REGION).step_by(4096) {
        if bytes[at..at + 4096].iter().all(|&byte| byte == 0) {
            continue;
        }
        let mut damaged = bytes.clone();
        damaged[at + 2000] ^= 0x10;
        let rig = reopened(&damaged);
        match get(&rig, 1) {
            Some(found) => {
                assert!(found == value, "a torn value");
                hits += 1;
            }
            None => incomplete += rig.cache.stats().array_incomplete_objects,
        }
        let is_back = get(&rig, 1).is_some();
        assert_eq!(is_back, rig.cache.stats().array_bad_records == 0, "forgotten for good");
        set(&rig, 1, &value);
        assert!(get(&rig, 1).as_ref() == Some(&value));
    }
    // Nearly all blocks are of parts; others of tables, and some bytes lie in the gap at the end of a region.
    assert!(incomplete >= 50 && hits <= 20, "{incomplete} misses, {hits} hits");
}

#[test]
fn a_key_like_that_of_a_part_is_a_key_like_any_other() {
    let value = patterned(1, 1, 4 * REGION);
    let (bytes, layout) = left_by_one_value(&value);
    let regions = &bytes[usize::try_from(layout.array_offset).unwrap()..];
    // As docs/formats.md draws records; these have no flags.
    let part_at = |at: &usize| regions[*at..].starts_with(b"LRST") && regions[at + 15] == 0x40;
    let keys: Vec<&[u8]> = (0..regions.len() - 64)
        .step_by(1024)
        .filter(part_at)
        .map(|at| &regions[at + 40..][..20])
        .collect();
    assert!(keys.len() >= 32, "{} parts", keys.len());
    for key in keys {
        let rig = reopened(&bytes);
        assert_eq!(block_on(rig.cache.get(key)).unwrap(), None);
        assert!(get(&rig, 1).as_ref() == Some(&value), "asking for it does no harm");
        let mine = patterned(2, 1, 4000);
        block_on(rig.cache.set(key, &mine, None)).unwrap();
        assert_eq!(block_on(rig.cache.get(key)).unwrap().as_deref(), Some(&mine[..]));
        assert_eq!(get(&rig, 1), None, "a part is gone");
        assert_eq!(rig.cache.stats().array_incomplete_objects, 1);
        assert_eq!(block_on(rig.cache.get(key)).unwrap().as_deref(), Some(&mine[..]));
    }
}

#[test]
fn a_scan_returns_long_values_whole_and_once() {
    let rig = Rig::open(small_regions(), &drive());
    let ttl = Some(Duration::from_secs(60));
    (0..12).for_each(|key| rig.set(key, 3, (key as usize + 1) * REGION / 2));
    block_on(rig.cache.set(&key_of(20), &value_of(20, 3, 3 * REGION), ttl)).unwrap();
    rig.delete(7);
    rig.set(8, 4, 5 * REGION);
    rig.set(9, 4, 100);
    let mut found = HashMap::new();
    let mut scan = rig.cache.scan();
    while let Some(batch) = block_on(scan.next()) {
        for item in batch {
            let key = (0..30).find(|&key| key_of(key) == item.key()).expect("a user's key");
            let there = (version_in(key, item.value()), item.tier(), item.expires_at());
            assert!(found.insert(key, there).is_none(), "key {key} twice");
        }
    }
    for key in (0..12).filter(|&key| key != 7) {
        let tier = if key == 9 { Tier::SmallObjects } else { Tier::ArrayObjects };
        assert_eq!(found[&key], (3 + u32::from(key == 8 || key == 9), tier, None), "key {key}");
    }
    assert_eq!(found[&20], (3, Tier::ArrayObjects, Some(Duration::from_secs(1060))));
    assert_eq!(found.len(), 12);
}
