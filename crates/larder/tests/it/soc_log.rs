//! The log in front of the small-object engine's buckets: what it saves, what a look-up costs, and that it hides
//! nothing and brings nothing back.

use std::sync::Arc;
use std::time::Duration;

use larder::{Config, CrashSafety, Larder, RealClock, Recovery, SocConfig, Stats, block_on};
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule};

use crate::rig::{Rig, config, drive, drive_of, logged};

/// A log of half the size of its buckets.
fn half() -> Config {
    Config {
        soc: SocConfig { percent: Some(8.0), log_percent: Some(4.0), ..config().soc },
        ..config()
    }
}

/// A load of small objects in which half of the gets are for a few keys.
fn play(config: Config) -> (Stats, f64) {
    let drive = drive();
    let rig = Rig::open(config, &drive);
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut gets, mut hits) = (0, 0);
    for _ in 0..40_000 {
        let key = if rng.bool() { rng.u32(..400) } else { rng.u32(..6_000) };
        gets += 1;
        match rig.get(key) {
            Some(_) => hits += 1,
            None => rig.set(key, 1, 200),
        }
    }
    drive.with_ssd(|ssd| ssd.audit()).unwrap();
    (rig.cache.stats(), f64::from(hits) / f64::from(gets))
}

#[test]
fn several_objects_share_a_bucket_write() {
    let (without, hits_without) =
        play(Config { soc: SocConfig { percent: Some(12.0), ..config().soc }, ..config() });
    let (with, hits_with) = play(Config {
        soc: SocConfig { percent: Some(10.0), log_percent: Some(2.0), ..config().soc },
        ..config()
    });
    let (without_alwa, with_alwa) = (without.alwa().unwrap(), with.alwa().unwrap());
    assert!(with_alwa < without_alwa / 2.5, "{with_alwa} {without_alwa}");
    assert!(hits_with > hits_without - 0.02, "{hits_with} {hits_without}");
    assert!(2 * with.soc_log_moved_objects > 7 * with.soc_bucket_writes, "{with:?}");
    assert_eq!(without.soc_log_objects, 0);
}

#[test]
fn every_logged_object_is_accounted_for() {
    // Too few buckets for all: some objects find no room.
    let (stats, _) = play(Config {
        soc: SocConfig { percent: Some(18.0), log_threshold: 3, ..logged().soc },
        ..logged()
    });
    assert!(stats.soc_log_dropped_objects > 100, "{stats:?}");
    assert!(stats.soc_log_readmitted_objects > 100, "{stats:?}");
    // Nothing expires, is deleted or replaced here.
    let gone = stats.soc_log_moved_objects + stats.soc_log_dropped_objects;
    assert_eq!(stats.soc_log_objects, gone + stats.soc_log_held_objects, "{stats:?}");
    assert!(stats.soc_log_index_bytes < 16 * stats.soc_log_held_objects, "{stats:?}");
}

#[test]
fn a_look_up_reads_one_page_or_bucket_and_a_miss_hardly_any() {
    let drive = drive();
    let rig = Rig::open(half(), &drive);
    (0..1500).for_each(|key| rig.set(key, 1, 200));
    // From here on DRAM holds nothing that must go to flash, or to another place there.
    let _flushed = block_on(rig.cache.flush()).unwrap();
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(half(), &drive);
    let reads = || {
        let stats = rig.cache.stats();
        let wrong = stats.soc_log_false_positives + stats.soc_filter_false_positives;
        (stats.soc_log_reads + stats.soc_bucket_reads, wrong, stats.soc_hits)
    };
    let (mut log_hits, mut found) = (0, 0);
    for key in 0..1500 {
        let before = (reads(), rig.cache.stats().soc_log_hits);
        found += u32::from(rig.get(key).is_some());
        let after = reads();
        assert!(after.0 - before.0.0 <= 1 + after.1 - before.0.1, "key {key}");
        log_hits += rig.cache.stats().soc_log_hits - before.1;
    }
    assert!(found > 1000 && log_hits > 100, "{found} {log_hits}");
    let before = reads();
    (10_000..20_000).for_each(|key| assert_eq!(rig.get(key), None));
    let after = reads();
    assert!(after.0 - before.0 < 500, "{} reads for 10,000 misses", after.0 - before.0);
    assert_eq!(after.0 - before.0, after.1 - before.1, "each was a false positive");
}

#[test]
fn what_is_in_memory_is_found_without_a_read() {
    let drive = drive();
    let rig = Rig::open(Config { dram_bytes: 0, ..half() }, &drive);
    (0..10).for_each(|key| rig.set(key, 1, 100));
    (0..10).for_each(|key| assert_eq!(rig.get(key), Some(1)));
    let stats = rig.cache.stats();
    assert_eq!((stats.soc_log_hits, stats.soc_log_reads, stats.soc_bucket_reads), (10, 0, 0));
}

#[test]
fn an_older_version_in_the_bucket_stays_dead() {
    let drive = drive();
    // No DRAM: each set goes straight to the log. No tombstones, which would have the same effect in another way.
    let crash_safety = CrashSafety::Off;
    let config = Config {
        dram_bytes: 0,
        soc: SocConfig { log_threshold: 9, ..logged().soc },
        crash_safety,
        ..logged()
    };
    let rig = Rig::open(
        Config { soc: SocConfig { log_threshold: 1, ..config.clone().soc }, ..config.clone() },
        &drive,
    );
    (0..2000).for_each(|key| rig.set(key, 1, 200));
    assert!(rig.cache.stats().soc_log_moved_objects > 1000);
    block_on(rig.cache.close()).unwrap();
    // The newer versions do not justify a write of their buckets; some expire.
    let rig = Rig::open(config, &drive);
    (0..100).for_each(|key| rig.set(key, 2, 200));
    (100..200).for_each(|key| rig.set_for(key, 2, 200, Duration::from_secs(10)));
    rig.clock.advance_to(Duration::from_secs(2000));
    for round in 0..4 {
        (5000..5400).for_each(|key| rig.set(key + round * 1000, 1, 200));
        (0..100).for_each(|key| assert!(matches!(rig.get(key), None | Some(2)), "key {key}"));
        (100..200).for_each(|key| assert_eq!(rig.get(key), None, "key {key}"));
    }
    let stats = rig.cache.stats();
    assert!(stats.soc_log_readmitted_objects > 100, "{stats:?}");
    (0..200).for_each(|key| _ = rig.delete(key));
    (0..200).for_each(|key| assert_eq!(rig.get(key), None));
}

#[test]
fn an_expired_object_of_the_log_costs_one_read() {
    let drive = drive();
    let rig = Rig::open(Config { dram_bytes: 0, ..half() }, &drive);
    rig.set_for(1, 1, 100, Duration::from_secs(5));
    (100..160).for_each(|key| rig.set(key, 1, 300));
    rig.clock.advance_to(Duration::from_secs(2000));
    (0..100).for_each(|_| assert_eq!(rig.get(1), None));
    let stats = rig.cache.stats();
    assert!(stats.soc_log_reads + stats.soc_bucket_reads <= 1, "{stats:?}");
    assert!(!rig.delete(1), "an expired value was not there");
}

#[test]
fn the_log_has_a_handle_of_its_own() {
    let drive = drive();
    let rig = Rig::open(half(), &drive);
    (0..3000).for_each(|key| rig.set(key, 1, 200));
    let told: Vec<_> =
        rig.cache.placement().streams().iter().map(|a| a.class.to_string()).collect();
    assert_eq!(told, ["SOC", "LOC", "SOC log", "metadata"]);
    let stats = rig.cache.stats();
    let by_handle = drive.stats().host_written_bytes_by_handle;
    assert!(stats.soc_log_written_bytes > 100_000);
    assert_eq!(by_handle[1], stats.soc_written_bytes);
    assert_eq!(by_handle[3], stats.soc_log_written_bytes);
    assert_eq!(by_handle.iter().sum::<u64>(), stats.flash_written_bytes());
}

/// Objects so small that the snapshot does not have room for all of them.
#[test]
fn what_the_snapshot_has_no_room_for_takes_its_older_versions_along() {
    let drive = drive();
    let config = Config {
        dram_bytes: 0,
        soc: SocConfig { log_percent: Some(1.0), ..config().soc },
        ..config()
    };
    let rig = Rig::open(config.clone(), &drive);
    let clock = Arc::clone(&rig.clock);
    let keys = || (0..6000_u32).map(|key| key.to_le_bytes());
    for version in [b"1", b"2"] {
        keys().for_each(|key| block_on(rig.cache.set(&key, version, None)).unwrap());
    }
    let held = rig.cache.stats().soc_log_held_objects;
    block_on(rig.cache.close()).unwrap();
    let device: Arc<dyn Device> = Arc::clone(&drive) as _;
    let cache = block_on(Larder::open(config, Some(device), clock)).unwrap();
    assert!(matches!(cache.recovery(), Some(Recovery::Clean { .. })));
    let kept = cache.stats().soc_log_held_objects;
    assert!(kept > 500 && kept < held, "{kept} of {held}");
    let found = |key: [u8; 4]| block_on(cache.get(&key)).unwrap();
    let hits = keys().filter_map(found).inspect(|value| assert_eq!(&**value, b"2")).count();
    assert!(hits > 1000, "{hits}");
}

/// Writes of segments fail: objects go to their buckets from memory, places are retired, and finally the engine works
/// as it does without a log.
#[test]
fn failed_segments_are_retired_and_their_objects_saved() {
    let device = Arc::new(FaultDevice::new(drive_of(8 << 20, true), &FaultPlan::new(1)));
    let rig = Rig::open(Config { dram_bytes: 0, ..logged() }, &device);
    let layout = *rig.cache.layout().unwrap();
    let log = layout.soc_log_offset..layout.soc_offset;
    let rule = FaultRule::new(Fault::Error).on_writes().within(log);
    device.set_plan(&FaultPlan::new(1).with(rule));
    (0..1000).for_each(|key| rig.set(key, 1, 200));
    let stats = rig.cache.stats();
    assert_eq!(stats.soc_log_retired_segments, u64::from(layout.soc_log_segments));
    assert_eq!((stats.soc_retired_buckets, stats.lost_to_device_errors_objects), (0, 0));
    assert_eq!(stats.soc_log_held_objects, 0);
    let found = (0..1000).filter(|&key| rig.get(key) == Some(1)).count();
    assert_eq!(found, 1000, "buckets have room for all of them");
}

/// If a caller is dropped while a segment or a bucket is written, nothing wrong is left behind.
#[test]
fn callers_that_give_up_lose_nothing_that_was_written() {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    let device = Arc::new(FaultDevice::new(drive_of(8 << 20, true), &FaultPlan::new(6)));
    // Otherwise most callers would be dropped before their write begins.
    let crash_safety = CrashSafety::Off;
    let rig = Rig::open(Config { dram_bytes: 8 << 10, crash_safety, ..logged() }, &device);
    let slow = FaultRule::new(Fault::Delay { submissions: 2 }).on_writes();
    device.set_plan(&FaultPlan::new(6).with(slow));
    let mut context = Context::from_waker(Waker::noop());
    let mut abandoned = 0;
    let mut done = [0; 1000];
    for (version, key) in (1..4).flat_map(|version| (0..1000).map(move |key| (version, key))) {
        let (name, value) = (crate::rig::key_of(key), crate::rig::value_of(key, version, 300));
        let mut set = pin!(rig.cache.set(&name, &value, None));
        match set.as_mut().poll(&mut context) {
            Poll::Pending => abandoned += 1,
            Poll::Ready(_) => done[key as usize] = version,
        }
        device.release_delayed();
    }
    let stats = rig.cache.stats();
    assert!(abandoned > 200, "{abandoned}");
    assert_eq!(stats.soc_retired_buckets + stats.soc_log_retired_segments, 0);
    assert_eq!(stats.lost_to_device_errors_objects, 0);
    device.set_plan(&FaultPlan::new(6));
    let found = |key: &u32| {
        let found = rig.get(*key);
        assert!(found.is_none_or(|version| version >= done[*key as usize]), "key {key}");
        found.is_some()
    };
    let hits = (0..1000).filter(found).count();
    assert!(hits > 300, "{hits} {abandoned} {:?}", rig.cache.stats());
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let complaint = |config: Config| {
        let device: Arc<dyn Device> = drive();
        let opened = block_on(Larder::open(config, Some(device), Arc::new(RealClock)));
        opened.err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (config, expected) in [
        (
            Config { soc: SocConfig { log_percent: Some(-1.0), ..config().soc }, ..config() },
            "soc.log_percent = -1: must be 0 to 100",
        ),
        (
            Config { soc: SocConfig { percent: Some(0.0), ..logged().soc }, ..logged() },
            "set soc.percent too",
        ),
        (
            Config { soc: SocConfig { percent: Some(99.5), ..logged().soc }, ..logged() },
            "must be at most 100 together",
        ),
        (
            Config { soc: SocConfig { log_threshold: 0, ..logged().soc }, ..logged() },
            "soc.log_threshold = 0",
        ),
        (
            Config { soc: SocConfig { log_percent: Some(0.1), ..config().soc }, ..config() },
            "fewer than 4; use more flash",
        ),
    ] {
        let complaint = complaint(config);
        assert!(complaint.contains(expected), "{complaint:?}, not {expected:?}");
    }
    assert_eq!(complaint(half()), "");
}
