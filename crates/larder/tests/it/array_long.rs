//! Values longer than a region of the array: whole or not at all.

use larder::{ArrayConfig, Config, Recovery, SocConfig, Tier, block_on};

use crate::long::{
    LeftBehind, REGION, a_long_key_and_flags_stay, a_scan_returns_each_once, a_time_to_live_ends,
    all_lengths_come_back, check_flushed, flushed_after_restart, nothing_old_comes_back,
    the_longest_is,
};
use crate::rig::{Rig, config, drive, key_of};

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
    let soc = SocConfig { percent: Some(5.0), log_percent: Some(0.0), ..config().soc };
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
    let around_region = ((REGION - 2200)..(REGION - 60)).step_by(41);
    let around_parts = [7000, 7100, 7168, 2 * 7128, 65_537, 100_001].map(|n| n + REGION);
    let stats = all_lengths_come_back(&rig, around_region.chain(around_parts));
    assert_eq!((stats.array_bad_records, stats.array_incomplete_objects), (0, 0));
}

#[test]
fn a_long_key_and_flags_stay_with_a_long_value() {
    let rig = Rig::open(small_regions(), &drive());
    // A head needs a record, too.
    a_long_key_and_flags_stay(&rig, REGION - 2200);
    let said =
        block_on(rig.cache.set(&key_of(2), &vec![0; 7 << 20], None)).unwrap_err().to_string();
    let (_, most) = said.split_once("flash holds at most ").expect("it says how much");
    let most: usize = most.split(' ').next().and_then(|most| most.parse().ok()).unwrap();
    let layout = rig.cache.layout().unwrap();
    let share = layout.array_regions as usize * REGION / 4;
    assert!((share / 2..share).contains(&most), "{most} of {share}");
    the_longest_is(&rig, most);
}

#[test]
fn a_time_to_live_ends_for_all_parts() {
    let stats = a_time_to_live_ends(&Rig::open(with_groups(), &drive()), 3000);
    assert_eq!(stats.array_incomplete_objects, 0);
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
    let drive = flushed_after_restart(&small_regions());
    for _ in 0..2 {
        let rig = Rig::open(small_regions(), &drive);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Crashed { .. })));
        check_flushed(&rig);
        assert_eq!(rig.cache.stats().array_incomplete_objects, 0);
    }
}

#[test]
fn a_value_with_a_damaged_part_is_a_miss() {
    let left = LeftBehind::by(small_regions());
    let regions = (left.layout.array_offset, left.layout.array_regions);
    let (hits, incomplete) = left.with_each_block_damaged(
        regions,
        |stats| stats.array_bad_records,
        |stats| stats.array_incomplete_objects,
    );
    // Nearly all blocks belong to parts; the others to tables, and some bytes lie in the gap at the end of a region.
    assert!(incomplete >= 50 && hits <= 20, "{incomplete} misses, {hits} hits");
}

#[test]
fn a_key_like_that_of_a_part_is_a_key_like_any_other() {
    let left = LeftBehind::by(small_regions());
    for key in left.keys_of_parts(left.layout.array_offset, (b"LRST", 1024, 40)) {
        let rig = left.key_like_that_of_a_part(key, 4000, |_| ());
        assert_eq!(rig.cache.stats().array_incomplete_objects, 1);
    }
}

#[test]
fn a_scan_returns_long_values_whole_and_once() {
    a_scan_returns_each_once(&Rig::open(small_regions(), &drive()), Tier::ArrayObjects);
}
