//! Large objects with regions of their own: by time to live, and objects kept at a reclaim.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use larder::{
    Config, CrashSafety, FlashRegion, LocConfig, Recovery, RegionEviction, RegionState,
    Reinsertion, Stats, block_on,
};
use larder_device::plan::Class;
use larder_device::{Device, ModelDevice};

use crate::rig::{Rig, config, drive, drive_of};

const BYTES: usize = 6_000;

/// Two classes: up to 10 s, and up to 100 s.
fn by_ttl() -> Config {
    Config {
        loc: LocConfig { ttl_classes: vec![10, 100], region_bytes: Some(64 << 10), ..config().loc },
        ..config()
    }
}

/// Seconds that a key lives; `None` for no expiry.
fn ttl_of(key: u32) -> Option<u64> {
    [None, Some(5), Some(50), Some(500)][key as usize % 4]
}

fn set(rig: &Rig, key: u32, version: u32, ttl_s: Option<u64>) {
    match ttl_s {
        None => rig.set(key, version, BYTES),
        Some(seconds) => rig.set_for(key, version, BYTES, Duration::from_secs(seconds)),
    }
}

fn by_handle(drive: &ModelDevice) -> Vec<u64> {
    drive.stats().host_written_bytes_by_handle
}

#[test]
fn each_class_writes_under_a_handle_of_its_own() {
    let drive = drive_of(8 << 20, true);
    let rig = Rig::open(by_ttl(), &drive);
    let streams = rig.cache.placement().streams().iter();
    let names: Vec<_> = streams.map(|stream| stream.class.to_string()).collect();
    assert_eq!(names, ["SOC", "LOC", "LOC, TTL class 0", "LOC, TTL class 1", "metadata"]);
    (0..400).for_each(|key| set(&rig, key, 1, ttl_of(key)));
    let written = by_handle(&drive);
    // Of four keys, two live longer than any class.
    let part = 100 * BYTES as u64;
    assert!(written[2] > part * 3 / 2, "{written:?}");
    assert!(written[3] > part * 2 / 3 && written[4] > part * 2 / 3, "{written:?}");
    assert!(written[3].max(written[4]) < part * 5 / 4, "{written:?}");
    let of_loc = written[2] + written[3] + written[4];
    assert_eq!(of_loc, rig.cache.stats().loc_written_bytes);
}

#[test]
fn regions_report_the_class_that_fills_them_and_since_when() {
    let drive = drive_of(8 << 20, true);
    let rig = Rig::open(by_ttl(), &drive);
    let all_free = |regions: &[FlashRegion]| {
        regions.iter().all(|region| region.state == RegionState::Free && region.class.is_none())
    };
    assert!(all_free(&rig.cache.flash_regions()));
    (0..100).for_each(|key| set(&rig, key, 1, ttl_of(key)));
    let regions = rig.cache.flash_regions();
    assert!(
        regions.iter().map(|region| region.number).eq(0..rig.cache.layout().unwrap().loc_regions)
    );
    let mut classes = Vec::new();
    for region in regions.iter().filter(|region| region.state != RegionState::Free) {
        let class = region.class.unwrap();
        assert_eq!(region.handle, Some(rig.cache.placement().handle_of("", class)));
        assert_eq!(region.begun, Some(Duration::from_secs(1000)), "as the clock of the rig says");
        classes.push(class);
    }
    let sequences: BTreeSet<u64> = regions.iter().map(|region| region.sequence).collect();
    assert!(sequences.len() > classes.len(), "no filling has the number of another");
    classes.sort();
    classes.dedup();
    assert_eq!(classes, [Class::Loc, Class::LocTtl(0), Class::LocTtl(1)]);
    let sealed = regions.iter().filter(|region| region.state == RegionState::Sealed).count();
    assert_eq!(sealed as u64, rig.cache.stats().loc_sealed_regions);
    block_on(rig.cache.clear()).unwrap();
    assert!(all_free(&rig.cache.flash_regions()));
}

/// Fills all regions with objects that live 5 seconds, lets them expire, and sets as many others.
fn outlived(config: Config) -> (Stats, Stats, u64) {
    let drive = drive();
    let rig = Rig::open(config, &drive);
    (0..600).for_each(|key| set(&rig, key, 1, Some(5)));
    let before = rig.cache.stats();
    assert!(before.loc_objects > 400, "{before:?}");
    rig.clock.advance_to(Duration::from_secs(1006));
    let reads = drive.stats().host_read_bytes;
    (1000..1600).for_each(|key| set(&rig, key, 1, None));
    let reads = drive.stats().host_read_bytes - reads;
    assert_eq!((0..600).filter(|&key| rig.get(key).is_some()).count(), 0);
    (1200..1600).for_each(|key| assert_eq!(rig.get(key), Some(1), "key {key}"));
    (before, rig.cache.stats(), reads)
}

#[test]
fn a_region_that_has_expired_is_filled_anew_without_a_look_at_its_footer() {
    let one_stream =
        Config { loc: LocConfig { ttl_classes: Vec::new(), ..by_ttl().loc }, ..by_ttl() };
    for config in [by_ttl(), one_stream] {
        let (before, after, read_bytes) = outlived(config);
        let expired = after.loc_expired_regions;
        assert!(expired >= before.loc_sealed_regions - before.loc_reclaimed_regions, "{after:?}");
        let reclaimed = after.loc_reclaimed_regions - before.loc_reclaimed_regions;
        // The objects set afterwards need as many regions as there are.
        assert!(reclaimed <= 3, "{reclaimed} regions were reclaimed though {expired} had expired");
        assert!(read_bytes <= 16 * 4096, "{read_bytes} bytes were read");
        assert!(after.loc_expired_objects > 400, "{after:?}");
        assert!(after.loc_objects < 700, "the index still has those that expired: {after:?}");
        assert_eq!(after.loc_bad_records, 0);
    }
}

#[test]
fn no_object_expires_with_objects_that_live_longer() {
    let drive = drive();
    let rig = Rig::open(
        Config { loc: LocConfig { ttl_classes: Vec::new(), ..by_ttl().loc }, ..by_ttl() },
        &drive,
    );
    (0..200).for_each(|key| set(&rig, key, 1, ttl_of(key)));
    rig.clock.advance_to(Duration::from_secs(1_000_000));
    (1000..1300).for_each(|key| set(&rig, key, 1, None));
    assert_eq!(rig.cache.stats().loc_expired_regions, 0, "one of four lives for ever");
    (1000..1300).for_each(|key| assert_eq!(rig.get(key), Some(1)));
}

#[test]
fn expiry_outlives_a_shutdown_and_a_crash() {
    for crash in [false, true] {
        let drive = drive();
        let rig = Rig::open(by_ttl(), &drive);
        (0..300).for_each(|key| set(&rig, key, 1, Some(5)));
        if crash {
            drop(rig);
        } else {
            block_on(rig.cache.close()).unwrap();
        }
        let rig = Rig::open_at(by_ttl(), &drive, 1006);
        let crashed = matches!(rig.cache.recovery(), Some(Recovery::Crashed { .. }));
        assert_eq!(crashed, crash, "{:?}", rig.cache.recovery());
        (1000..1050).for_each(|key| set(&rig, key, 1, None));
        let stats = rig.cache.stats();
        assert!(stats.loc_expired_regions > 20, "{stats:?}");
        assert_eq!(stats.loc_bad_records, 0);
    }
}

#[test]
fn a_crash_finds_all_regions_that_were_being_filled() {
    let segmented = Config {
        loc: LocConfig {
            eviction: RegionEviction::SegmentedFifo,
            reinsertion: Reinsertion::Hits(1),
            ..by_ttl().loc
        },
        ..by_ttl()
    };
    for config in [by_ttl(), segmented] {
        let drive = drive();
        let rig = Rig::open(Config { dram_bytes: 4 << 20, ..config.clone() }, &drive);
        (0..16).for_each(|key| set(&rig, key, 1, ttl_of(key)));
        assert_eq!(block_on(rig.cache.flush()).unwrap().objects, 16);
        assert_eq!(rig.cache.stats().loc_sealed_regions, 0, "three regions are open");
        drop(rig);
        let rig = Rig::open(config, &drive);
        block_on(rig.cache.rebuild());
        let found = Recovery::Crashed { large_objects: 16, regions_left: 0 };
        assert_eq!(rig.cache.recovery(), Some(found));
        (0..16).for_each(|key| assert_eq!(rig.get(key), Some(1), "key {key}"));
    }
}

/// Random sets, deletes, expiries and crashes: what was replaced, deleted or has expired never comes back, whichever
/// stream it was in.
fn never_comes_back(config: &Config, seed: u64) {
    let drive = drive();
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut newest: Vec<Option<(u32, u64)>> = vec![None; 300];
    let (mut now, mut version) = (1000, 0);
    for _life in 0..8 {
        let rig = Rig::open_at(config.clone(), &drive, now);
        for _ in 0..500 {
            let key = rng.u32(..300);
            match rng.u32(..10) {
                0 => {
                    rig.delete(key);
                    newest[key as usize] = None;
                }
                1..6 => {
                    version += 1;
                    let ttl = [None, Some(2), Some(20), Some(200)][rng.usize(..4)];
                    set(&rig, key, version, ttl);
                    newest[key as usize] = Some((version, ttl.map_or(u64::MAX, |ttl| now + ttl)));
                }
                _ => {
                    let found = rig.get(key);
                    let current = newest[key as usize].filter(|&(_, end)| now < end);
                    assert!(found.is_none() || found == current.map(|it| it.0), "key {key}");
                }
            }
            if rng.u32(..20) == 0 {
                now += 1;
                rig.clock.advance_to(Duration::from_secs(now));
            }
        }
        if rng.bool() {
            block_on(rig.cache.close()).unwrap();
        }
    }
}

#[test]
fn what_moves_between_streams_never_comes_back() {
    let segmented = Config {
        loc: LocConfig {
            eviction: RegionEviction::SegmentedFifo,
            reinsertion: Reinsertion::Hits(1),
            ..by_ttl().loc
        },
        ..by_ttl()
    };
    for seed in 0..12 {
        never_comes_back(&by_ttl(), seed);
        never_comes_back(&segmented, seed);
    }
}

/// Sets 30 keys, each next to two that are never requested: at most half of a region is kept.
fn set_thirty(rig: &Rig) {
    for key in 0..30 {
        rig.set(key, 1, BYTES);
        rig.set(500 + 2 * key, 1, BYTES);
        rig.set(501 + 2 * key, 1, BYTES);
    }
}

/// Requests 30 keys repeatedly while a stream of others passes. Returns how many of the 30 are found at the end, and
/// the statistics.
fn scanned(eviction: RegionEviction, reinsertion: Reinsertion) -> (usize, Stats) {
    let config = Config {
        loc: LocConfig { eviction, reinsertion, region_bytes: Some(64 << 10), ..config().loc },
        crash_safety: CrashSafety::Off,
        ..config()
    };
    let rig = Rig::open(config, &drive());
    set_thirty(&rig);
    for key in 1000..6000 {
        rig.set(key, 1, BYTES);
        let _hit_or_miss = rig.get(key % 30);
    }
    ((0..30).filter(|&key| rig.get(key) == Some(1)).count(), rig.cache.stats())
}

#[test]
fn segments_keep_what_is_asked_for() {
    let (kept, stats) = scanned(RegionEviction::SegmentedFifo, Reinsertion::Hits(1));
    assert!(kept >= 28, "{kept} of 30");
    assert!(stats.loc_reinserted_objects >= 30, "{stats:?}");
    let (kept, _) = scanned(RegionEviction::Fifo, Reinsertion::None);
    assert_eq!(kept, 0);
    // In the upper segments they are reclaimed less frequently than in a single log.
    let (_, fifo) = scanned(RegionEviction::Fifo, Reinsertion::Hits(1));
    assert!(stats.loc_reinserted_objects < fifo.loc_reinserted_objects, "{stats:?}, {fifo:?}");
}

#[test]
fn reuse_time_keeps_what_is_still_asked_for() {
    let (kept, _) = scanned(RegionEviction::Fifo, Reinsertion::ReuseTime);
    assert!(kept >= 28, "{kept} of 30");
}

#[test]
fn reuse_time_drops_what_was_asked_for_only_at_first() {
    let mut kept = Vec::new();
    for reinsertion in [Reinsertion::Hits(1), Reinsertion::ReuseTime] {
        let config = Config {
            loc: LocConfig { reinsertion, region_bytes: Some(64 << 10), ..config().loc },
            ..config()
        };
        let rig = Rig::open(config, &drive());
        set_thirty(&rig);
        (1000..1040).for_each(|key| rig.set(key, 1, BYTES));
        (0..100).for_each(|_| (0..30).for_each(|key| assert_eq!(rig.get(key), Some(1))));
        (1040..2000).for_each(|key| rig.set(key, 1, BYTES));
        kept.push(rig.cache.stats().loc_reinserted_objects);
    }
    assert!(kept[0] >= 20 && kept[1] == 0, "{kept:?}");
}

#[test]
fn many_streams_in_few_regions_go_on() {
    let config = Config {
        loc: LocConfig {
            ttl_classes: vec![2, 20, 200],
            eviction: RegionEviction::SegmentedFifo,
            reinsertion: Reinsertion::Percent(50),
            region_bytes: Some(64 << 10),
            ..config().loc
        },
        utilization_percent: 20.0,
        ..config()
    };
    let device = drive_of(8 << 20, true);
    let rig = Rig::open(config, &Arc::clone(&device));
    let regions = rig.cache.layout().unwrap().loc_regions;
    let mut rng = fastrand::Rng::with_seed(8);
    for version in 1..6000 {
        let key = rng.u32(..400);
        set(&rig, key, version, ttl_of(key));
        assert_eq!(rig.get(key), Some(version), "it is the newest, in {regions} regions");
    }
    let stats = rig.cache.stats();
    assert_eq!(stats.lost_to_device_errors_objects, 0);
    assert!(stats.loc_reinserted_objects > 100, "{stats:?}");
}

/// Data that a drive with placement still holds of a reclaimed region must not stay until the region's next filling, in
/// another stream at its own pace, has overwritten it.
#[test]
fn where_streams_are_kept_apart_a_reclaimed_region_is_deallocated() {
    for eviction in [RegionEviction::SegmentedFifo, RegionEviction::Fifo] {
        let reinsertion = Reinsertion::Hits(1);
        let config =
            Config { loc: LocConfig { eviction, reinsertion, ..config().loc }, ..config() };
        let drive = drive();
        let rig = Rig::open(config, &drive);
        let mut rng = fastrand::Rng::with_seed(5);
        for version in 0..30_000 {
            let key = if rng.bool() { rng.u32(..200) } else { rng.u32(..6000) };
            if rig.get(key).is_none() {
                rig.set(key, version, 2000);
            }
        }
        let stats = rig.cache.stats();
        assert!(stats.loc_reclaimed_regions > 20 && stats.loc_reinserted_objects > 0, "{stats:?}");
        let regions =
            if eviction == RegionEviction::Fifo { 0 } else { stats.loc_reclaimed_regions };
        let bytes = u64::from(rig.cache.layout().unwrap().region_bytes);
        assert_eq!(stats.loc_deallocated_bytes, regions * bytes, "{eviction}");
        drive.with_ssd(|ssd| ssd.audit()).unwrap();
    }
}
