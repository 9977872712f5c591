//! A cache that keeps its large objects in the array engine.

use larder::{ArrayConfig, Config, CrashSafety, Layout, Recovery, SocConfig, Stats, block_on};

use crate::rig::{Rig, config, drive_of};

const FLASH_BYTES: u64 = 64 << 20;

/// Buckets for small objects, the array for all others, and little DRAM.
pub(crate) fn with_array(crash_safety: CrashSafety) -> Config {
    let array = ArrayConfig {
        percent: 90.0,
        region_bytes: Some(256 << 10),
        write_bytes: 64 << 10,
        mean_object_bytes: 4096,
        ..ArrayConfig::default()
    };
    let soc = SocConfig { percent: Some(10.0), log_percent: Some(0.0), ..config().soc };
    Config { dram_bytes: 64 << 10, array, soc, crash_safety, ..config() }
}

fn bytes_of(key: u32) -> usize {
    if key.is_multiple_of(4) { 200 } else { 5000 }
}

fn set_all(rig: &Rig, version: u32, keys: std::ops::Range<u32>) {
    keys.for_each(|key| rig.set(key, version, bytes_of(key)));
}

fn stats(rig: &Rig) -> Stats {
    rig.cache.stats()
}

#[test]
fn each_object_goes_to_its_engine() {
    let drive = drive_of(FLASH_BYTES, true);
    let rig = Rig::open(with_array(CrashSafety::Process), &drive);
    set_all(&rig, 1, 0..2000);
    let flushed = block_on(rig.cache.flush()).unwrap();
    assert_eq!((flushed.refused, flushed.lost), (0, 0));
    let Layout { array_regions, loc_regions, soc_buckets, .. } = *rig.cache.layout().unwrap();
    assert!(array_regions > 100 && loc_regions == 0 && soc_buckets > 0);
    let found = (0..2000).filter(|&key| rig.get(key) == Some(1)).count();
    assert!(found > 1950, "{found}");
    let Stats { array_hits, soc_hits, array_record_reads, array_table_reads, .. } = stats(&rig);
    assert!(array_hits > 1000 && soc_hits > 300, "{array_hits}, {soc_hits}");
    assert!(array_record_reads + array_table_reads <= 2 * array_hits, "two reads at most");
}

#[test]
fn a_clean_restart_finds_all_of_it() {
    let drive = drive_of(FLASH_BYTES, true);
    for crash_safety in [CrashSafety::Off, CrashSafety::Process] {
        let fresh = Config { start_empty: true, ..with_array(crash_safety) };
        let rig = Rig::open(fresh, &drive);
        set_all(&rig, 1, 0..4000);
        set_all(&rig, 2, 1000..2000);
        (3000..3100).for_each(|key| assert!(rig.delete(key)));
        block_on(rig.cache.close()).unwrap();
        drop(rig);
        let rig = Rig::open(with_array(crash_safety), &drive);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
        let version = |key: u32| match key {
            1000..2000 => Some(2),
            3000..3100 => None,
            _ => Some(1),
        };
        let found = (0..4000).filter(|&key| {
            let found = rig.get(key);
            assert!(found.is_none() || found == version(key), "{key}: {found:?}");
            found.is_some()
        });
        assert!(found.count() >= 3890, "of 3900");
    }
}

#[test]
fn a_crash_brings_back_what_was_on_flash_and_nothing_that_was_dead() {
    let drive = drive_of(FLASH_BYTES, true);
    let rig = Rig::open(with_array(CrashSafety::Process), &drive);
    set_all(&rig, 1, 0..4000);
    set_all(&rig, 2, 0..1000);
    let flushed = block_on(rig.cache.flush()).unwrap();
    assert_eq!((flushed.refused, flushed.lost), (0, 0));
    set_all(&rig, 3, 500..600);
    (3000..3100).for_each(|key| assert!(rig.delete(key)));
    drop(rig);
    for crash in 0..3 {
        drop(Rig::open(with_array(CrashSafety::Process), &drive));
        let rig = Rig::open(with_array(CrashSafety::Process), &drive);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Crashed { .. })), "{crash}");
        for key in 0..4000 {
            let found = rig.get(key);
            match key {
                // Set after the flush: this version, or none.
                500..600 => assert!([None, Some(3)].contains(&found), "{key}: {found:?}"),
                0..1000 => assert_eq!(found, Some(2), "{key}, crash {crash}"),
                3000..3100 => assert_eq!(found, None, "{key}, crash {crash}"),
                _ => assert_eq!(found, Some(1), "{key}, crash {crash}"),
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_way_out() {
    let refused = |array: ArrayConfig, bytes: u64| {
        let config = Config { array, ..with_array(CrashSafety::Process) };
        let opened = Rig::try_open(config, &drive_of(bytes, true));
        opened.err().expect("it cannot work").to_string()
    };
    let base = with_array(CrashSafety::Process).array;
    let said = refused(ArrayConfig { index_bytes: Some(64), ..base.clone() }, FLASH_BYTES);
    assert!(said.contains("array.index_bytes = 64") && said.contains("use at least"), "{said}");
    let said = refused(ArrayConfig { region_bytes: Some(4 << 20), ..base.clone() }, FLASH_BYTES);
    assert!(said.contains("fewer than 35 regions"), "{said}");
    let said = refused(ArrayConfig { percent: 95.0, ..base }, FLASH_BYTES);
    assert!(said.contains("must be at most 100 together"), "{said}");
}

#[test]
fn one_budget_holds_all_of_its_memory() {
    let drive = drive_of(FLASH_BYTES, true);
    let with = |memory_bytes| {
        let base = with_array(CrashSafety::Process);
        Config { array: ArrayConfig { memory_bytes, ..base.array }, ..base }
    };
    let refused = Rig::try_open(with(Some(1 << 20)), &drive).err().expect("it is too little");
    let said = refused.to_string();
    let (_, needs) = said.split_once("needs ").expect("it says how much would do");
    let least: u64 = needs.split(' ').next().and_then(|least| least.parse().ok()).unwrap();
    assert!(Rig::try_open(with(Some(least - 1)), &drive).is_err());
    let budget = least + (64 << 10);
    let rig = Rig::open(with(Some(budget)), &drive);
    let memory = rig.cache.array_memory().unwrap();
    assert!((least..=budget).contains(&memory.total_bytes()), "{memory}");
    assert!(memory.sets_bytes > 32 << 10, "what is left is for entries: {memory}");
    set_all(&rig, 1, 0..6000);
    (0..6000).step_by(3).for_each(|key| assert!(rig.delete(key)));
    let Stats { array_index_bytes, tombstone_bytes, .. } = stats(&rig);
    let index = memory.sets_bytes + memory.tables_bytes + memory.regions_bytes;
    assert_eq!(array_index_bytes, index);
    assert!(tombstone_bytes > 0 && array_index_bytes + tombstone_bytes < memory.total_bytes());
}
