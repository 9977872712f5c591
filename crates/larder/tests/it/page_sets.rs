//! Pages by set: what they save, what a look-up costs, and that nothing old comes back.

use std::sync::Arc;
use std::time::Duration;

use larder::{
    Config, CrashSafety, ErrorKind, LocConfig, OnChange, SocConfig, SocEviction, SocLayout, Stats,
    block_on,
};
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule};

use crate::rig::{Rig, config, drive, drive_of};

/// A cache of 2 MiB of small objects in pages.
fn paged() -> Config {
    let (layout, pages_per_set) = (Some(SocLayout::Pages), Some(24));
    Config { soc: SocConfig { layout, pages_per_set, ..config().soc }, ..config() }
}

/// The same with memory for a page of each set.
fn with_memory(config: Config) -> Config {
    Config { dram_bytes: 160 << 10, ..config }
}

/// A load of small objects in which half of the gets are for a few keys, and some are changed.
fn play(config: Config) -> (Stats, f64) {
    let drive = drive();
    let rig = Rig::open(config, &drive);
    let mut rng = fastrand::Rng::with_seed(7);
    let mut versions = vec![0; 20_000];
    let (mut gets, mut hits) = (0, 0);
    for _ in 0..150_000 {
        let key = if rng.bool() { rng.u32(..3_000) } else { rng.u32(..20_000) };
        let version = &mut versions[key as usize];
        if rng.u32(..20) == 0 {
            *version += 1;
            rig.set(key, *version, 200);
            continue;
        }
        gets += 1;
        match rig.get(key) {
            Some(found) => {
                assert_eq!(found, *version);
                hits += 1;
            }
            None => rig.set(key, *version, 200),
        }
    }
    drive.with_ssd(|ssd| ssd.audit()).unwrap();
    (rig.cache.stats(), f64::from(hits) / f64::from(gets))
}

#[test]
fn each_object_is_written_once() {
    let (pages, hits) = play(with_memory(paged()));
    let soc = SocConfig { layout: Some(SocLayout::Buckets), ..config().soc };
    let (buckets, hits_of_buckets) = play(with_memory(Config { soc, ..config() }));
    let written = |of: &Stats| of.soc_written_bytes as f64 / of.admitted_bytes as f64;
    assert!((1.0..1.7).contains(&written(&pages)), "{} {pages:?}", written(&pages));
    assert!(written(&buckets) > 8.0, "{}", written(&buckets));
    assert!(hits > hits_of_buckets - 0.02, "{hits} {hits_of_buckets}");
    assert!(pages.soc_reclaimed_regions > 30 && pages.soc_carried_objects > 100, "{pages:?}");
    let bits = pages.soc_page_index_bytes as f64 * 8.0 / pages.soc_page_objects as f64;
    assert!(bits < 26.0, "{bits}");
}

#[test]
fn a_look_up_reads_one_page_and_a_miss_hardly_any() {
    let drive = drive();
    let rig = Rig::open(paged(), &drive);
    (0..5000).for_each(|key| rig.set(key, 1, 200));
    let _flushed = block_on(rig.cache.flush()).unwrap();
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(paged(), &drive);
    let reads = || {
        let stats = rig.cache.stats();
        (stats.soc_page_reads, stats.soc_filter_false_positives, stats.soc_hits)
    };
    for key in 0..5000 {
        let before = reads();
        assert!(rig.get(key).is_none_or(|version| version == 1));
        let after = reads();
        assert!(after.0 - before.0 <= 1 + after.1 - before.1, "key {key}");
    }
    // Each of the others has the fingerprint of an object that was set after it.
    assert!(reads().2 > 4960, "{:?}", reads());
    let before = reads();
    (10_000..20_000).for_each(|key| assert_eq!(rig.get(key), None));
    let after = reads();
    assert!(after.0 - before.0 < 300, "{} reads for 10,000 misses", after.0 - before.0);
    assert_eq!(after.0 - before.0, after.1 - before.1, "each was a false positive");
}

const KEYS: u32 = 4000;

/// Sets, changes and deletes keys, and notes their versions; 0: deleted.
fn change(rig: &Rig, rounds: std::ops::Range<u32>, versions: &mut [u32]) {
    let mut rng = fastrand::Rng::with_seed(9);
    for round in rounds {
        for key in 0..KEYS {
            match rng.u32(..10) {
                0..=5 => {
                    rig.set(key, round, 150);
                    versions[key as usize] = round;
                }
                6 => {
                    rig.delete(key);
                    versions[key as usize] = 0;
                }
                _ => {}
            }
        }
    }
}

/// A client that misses a key and then sets it takes nothing from others, although their fingerprints may be the same.
#[test]
fn a_set_after_a_miss_forgets_no_other_object() {
    let drive = drive();
    let soc = SocConfig { pages_per_set: Some(512), ..paged().soc };
    let rig = Rig::open(Config { soc, dram_bytes: 0, ..paged() }, &drive);
    for key in 0..6000 {
        assert_eq!(rig.get(key), None);
        rig.set(key, 1, 200);
    }
    let found = (0..6000).filter(|&key| rig.get(key) == Some(1)).count();
    assert!(rig.cache.stats().soc_filter_false_positives > 100, "{:?}", rig.cache.stats());
    assert_eq!(found, 6000, "all fit");
}

/// Checks that each key has its latest version or none. Returns the share of live keys that were found.
fn found(rig: &Rig, versions: &[u32]) -> f64 {
    let (mut live, mut found) = (0.0, 0.0);
    for (key, &version) in (0..).zip(versions) {
        live += f64::from(u8::from(version > 0));
        if let Some(there) = rig.get(key) {
            assert_eq!(there, version, "key {key}");
            found += 1.0;
        }
    }
    found / live
}

#[test]
fn a_clean_restart_finds_everything_and_nothing_old() {
    for crash_safety in [CrashSafety::Off, CrashSafety::Process, CrashSafety::Power] {
        let drive = drive();
        let config = || Config { crash_safety, ..paged() };
        let rig = Rig::open(config(), &drive);
        let mut versions = vec![0; KEYS as usize];
        change(&rig, 1..3, &mut versions);
        let before = found(&rig, &versions);
        assert!(before > 0.97, "{crash_safety}: {before} {:?}", rig.cache.stats());
        block_on(rig.cache.close()).unwrap();
        let rig = Rig::open(config(), &drive);
        let after = found(&rig, &versions);
        assert!(after > before - 0.02, "{crash_safety}: {after} of {before}");
        change(&rig, 3..8, &mut versions);
        found(&rig, &versions);
    }
}

#[test]
fn a_crash_loses_what_was_in_memory_and_brings_nothing_back() {
    let drive = drive();
    let rig = Rig::open(paged(), &drive);
    let mut versions = vec![0; KEYS as usize];
    change(&rig, 1..5, &mut versions);
    let _flushed = block_on(rig.cache.flush()).unwrap();
    let before = found(&rig, &versions);
    drop(rig);
    let rig = Rig::open(paged(), &drive);
    let after = found(&rig, &versions);
    assert!(after > before - 0.02, "{after} of {before}");
    // The regions that the crash left are reclaimed, and their objects die with them.
    change(&rig, 5..11, &mut versions);
    drop(rig);
    let rig = Rig::open(paged(), &drive);
    let again = found(&rig, &versions);
    assert!(
        again > 0.6,
        "without a flush only what was in DRAM and in open pages is lost: {again}"
    );
}

#[test]
fn objects_with_hits_ride_along() {
    let drive = drive();
    let rig = Rig::open(Config { dram_bytes: 0, ..paged() }, &drive);
    let hot = 0..200;
    hot.clone().for_each(|key| rig.set(key, 1, 200));
    let cold = 300..500;
    cold.clone().for_each(|key| rig.set(key, 1, 200));
    for key in 1000..30_000 {
        rig.set(key, 1, 200);
        if key % 2 == 0 {
            let of_hot = key / 2 % 200;
            rig.get(of_hot);
        }
    }
    let found = |keys: std::ops::Range<u32>| keys.filter(|&key| rig.get(key).is_some()).count();
    let (stayed, left) = (found(hot), found(cold));
    assert!(stayed > 150 && left == 0, "{stayed} {left} {:?}", rig.cache.stats());
}

/// What rides along leaves room for the object that needs the page.
#[test]
fn no_page_is_written_for_what_rides_along_alone() {
    let drive = drive();
    let soc = SocConfig { max_object_bytes: 4050, ..paged().soc };
    let rig = Rig::open(Config { dram_bytes: 0, soc, ..paged() }, &drive);
    (0..300).for_each(|key| rig.set(key, 1, 200));
    for key in 1000..3000 {
        rig.set(key, 1, 3500);
        (0..300).step_by(7).for_each(|key| _ = rig.get(key));
    }
    let stats = rig.cache.stats();
    assert!(stats.soc_page_writes < 2100, "{stats:?}");
    assert!(stats.soc_reclaimed_regions > 50, "{stats:?}");
}

#[test]
fn a_damaged_page_costs_its_objects_and_no_others() {
    let drive = drive();
    let rig = Rig::open(paged(), &drive);
    (0..5000).for_each(|key| rig.set(key, 1, 200));
    let _flushed = block_on(rig.cache.flush()).unwrap();
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(paged(), &drive);
    let layout = *rig.cache.layout().unwrap();
    drop(rig);
    // A block of zeros in the middle of the first region that has pages.
    let count = |rig: &Rig| (0..5000).filter(|&key| rig.get(key).is_some()).count();
    let rig = Rig::open(paged(), &drive);
    let mut hits = count(&rig);
    drop(rig);
    for block in [3, 4] {
        let offset = layout.soc_offset + block * 4096;
        let (buffer, handle) =
            (larder_device::IoBuffer::zeroed(4096), larder_device::PlacementHandle::DEFAULT);
        block_on(drive.submit(larder_device::Io::write(offset, buffer, handle))).map(drop).unwrap();
        let rig = Rig::open(paged(), &drive);
        let found = count(&rig);
        assert!((1..40).contains(&(hits - found)), "{found} of {hits}");
        assert_eq!(rig.cache.stats().soc_bad_pages, 1);
        hits = found;
        drop(rig);
    }
}

#[test]
fn a_region_that_cannot_be_written_is_given_up_for_a_while() {
    let drive = drive();
    let device = Arc::new(FaultDevice::new(Arc::clone(&drive), &FaultPlan::new(1)));
    let rig = Rig::open(paged(), &device);
    let layout = *rig.cache.layout().unwrap();
    let bad = layout.soc_offset..layout.soc_offset + u64::from(layout.soc_page_region_bytes);
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes().within(bad)));
    let mut versions = vec![0; 12_000];
    for key in 0..12_000 {
        rig.set(key, 1, 200);
        versions[key as usize] = 1;
    }
    let stats = rig.cache.stats();
    assert!(stats.soc_retired_regions > 0 && stats.lost_to_device_errors_objects > 0, "{stats:?}");
    found(&rig, &versions);
}

#[test]
fn another_layout_is_refused_or_starts_empty() {
    let drive = drive();
    let rig = Rig::open(paged(), &drive);
    rig.set(1, 1, 100);
    block_on(rig.cache.close()).unwrap();
    let error = Rig::try_open(
        Config { soc: SocConfig { layout: Some(SocLayout::Buckets), ..config().soc }, ..config() },
        &drive,
    );
    let error = error.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("soc.layout = buckets (it was made with pages)"), "{error}");
    let fewer = SocConfig { pages_per_set: Some(10), ..paged().soc };
    let error = Rig::try_open(Config { soc: fewer, ..paged() }, &drive).err().unwrap();
    assert!(error.to_string().contains("soc.pages_per_set = 10 (it was made with"), "{error}");
    // More memory is no change: the cache keeps its sets. Nor is it a change to leave the choice to the cache.
    for same in [with_memory(paged()), config()] {
        let rig = Rig::open(same, &drive);
        assert_eq!(rig.get(1), Some(1));
        block_on(rig.cache.close()).unwrap();
    }
    let discard = Config { on_change: OnChange::Discard, ..config() };
    let buckets = SocConfig { layout: Some(SocLayout::Buckets), ..config().soc };
    let rig = Rig::open(Config { soc: buckets, ..discard }, &drive);
    assert_eq!((rig.get(1), rig.cache.layout().unwrap().soc_page_regions), (None, 0));
}

/// Unless a setting says otherwise, the cache decides when it begins empty, and keeps to it.
#[test]
fn the_layout_follows_from_flash_and_memory() {
    let soc = || SocConfig { percent: Some(50.0), ..SocConfig::default() };
    let with = |dram_bytes, soc| {
        let loc = LocConfig { region_bytes: None, ..config().loc };
        Config { dram_bytes, soc, loc, ..config() }
    };
    let layout = |config: Config, drive: &Arc<_>| {
        let rig = Rig::open(config, drive);
        let layout = *rig.cache.layout().unwrap();
        block_on(rig.cache.close()).unwrap();
        layout
    };
    let sets = |config: Config, drive: &Arc<_>| layout(config, drive).soc_sets;
    let large = || drive_of(160 << 20, true);
    let pages = large();
    assert!(sets(with(4 << 20, soc()), &pages) > 0, "80 MiB is 20 times memory");
    assert!(sets(with(1 << 20, soc()), &pages) > 0, "it was decided before");
    let buckets = large();
    let decided = layout(with(3 << 20, soc()), &buckets);
    assert_eq!(decided.soc_sets, 0, "80 MiB is 27 times memory");
    let log = u64::from(decided.soc_log_segments) * u64::from(decided.soc_log_segment_bytes);
    let half = decided.soc_bytes() / 2;
    assert!(log > half * 3 / 4 && log <= 12 * (3 << 20), "{decided:?}");
    assert_eq!(layout(with(32 << 20, soc()), &buckets), decided, "it was decided before");
    let without = SocConfig { log_percent: Some(0.0), ..soc() };
    assert_eq!(layout(with(3 << 20, without), &large()).soc_log_segments, 0);
    for of_buckets in [
        SocConfig { log_percent: Some(1.0), ..soc() },
        SocConfig { dynamic_placement: true, ..soc() },
        SocConfig { eviction: SocEviction::Rrip, ..soc() },
        SocConfig { layout: Some(SocLayout::Buckets), ..soc() },
        SocConfig { percent: Some(30.0), ..soc() },
    ] {
        assert_eq!(sets(with(32 << 20, of_buckets), &large()), 0);
    }
}

#[test]
fn expired_objects_are_not_found_and_not_read_again() {
    let drive = drive();
    let rig = Rig::open(Config { dram_bytes: 0, ..paged() }, &drive);
    (0..2000).for_each(|key| rig.set_for(key, 1, 200, Duration::from_secs(60)));
    rig.clock.advance_to(Duration::from_secs(1120));
    (0..2000).for_each(|key| assert_eq!(rig.get(key), None));
    let before = rig.cache.stats().soc_page_reads;
    (0..2000).for_each(|key| assert_eq!(rig.get(key), None));
    let again = rig.cache.stats().soc_page_reads - before;
    assert!(again < 200, "{again}");
}

#[test]
fn settings_that_contradict_pages_are_refused_by_name() {
    let with = |soc: SocConfig| Config { soc, ..paged() };
    for (config, expected) in [
        (
            with(SocConfig { log_percent: Some(5.0), ..paged().soc }),
            "soc.log_percent is a setting of buckets",
        ),
        (with(SocConfig { dynamic_placement: true, ..paged().soc }), "soc.dynamic_placement"),
        (with(SocConfig { eviction: SocEviction::Rrip, ..paged().soc }), "soc.eviction"),
        (
            with(SocConfig { pages_per_set: Some(1), ..paged().soc }),
            "soc.pages_per_set: must be at least 2",
        ),
        (with(SocConfig { percent: Some(0.5), ..paged().soc }), "fewer than 4 regions"),
    ] {
        let error = Rig::try_open(config, &drive()).err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
