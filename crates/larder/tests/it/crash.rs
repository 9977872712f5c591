//! What a crash leaves if the cache is configured to survive one: what had reached flash, and nothing that was
//! replaced, deleted or dropped.

use std::sync::Arc;

use larder::{
    Config, CrashSafety, ErrorKind, Larder, LocConfig, RealClock, Recovery, SetOptions, SocConfig,
    block_on,
};
use larder_device::label::AREA_BYTES;
use larder_device::{
    Device, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, ModelDevice, PlacementHandle,
};

use crate::rig::{Rig, config, drive, drive_of, key_of, logged};

fn faulty(seed: u64) -> Arc<FaultDevice<Arc<ModelDevice>>> {
    Arc::new(FaultDevice::new(drive_of(8 << 20, true), &FaultPlan::new(seed)))
}

/// Small and large objects, far more than DRAM holds.
fn fill(rig: &Rig, version: u32) {
    (0..400).for_each(|key| rig.set(key, version, 100));
    (400..460).for_each(|key| rig.set(key, version, 20_000));
}

fn crashed(rig: &Rig) -> u64 {
    match rig.cache.recovery() {
        Some(Recovery::Crashed { large_objects, .. }) => large_objects,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_had_reached_flash_is_found_again() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    fill(&rig, 1);
    let stats = rig.cache.stats();
    assert_eq!(stats.crash_safe, 1);
    let large = stats.loc_objects;
    drop(rig);
    let rig = Rig::open(config(), &drive);
    assert_eq!(crashed(&rig), 0, "no call has looked yet");
    block_on(rig.cache.rebuild());
    // The last records of a region in memory have not reached flash.
    let found = crashed(&rig);
    assert!(found + 14 >= large && found >= 40, "{found} of {large}");
    let small = (0..400).filter(|&key| rig.get(key) == Some(1)).count();
    assert!(small > 250, "{small} of 400 small ones, of which DRAM held a few");
    assert_eq!(rig.cache.stats().crash_safe, 1);
}

#[test]
fn a_rebuild_learns_of_objects_that_no_call_asked_for() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    fill(&rig, 1);
    drop(rig);
    let rig = Rig::open(config(), &drive);
    let layout = *rig.cache.layout().unwrap();
    let all = layout.soc_buckets + u64::from(layout.loc_regions);
    assert_eq!(block_on(rig.cache.rebuild()), all);
    assert_eq!(block_on(rig.cache.rebuild()), 0);
    (1000..2000).for_each(|key| assert_eq!(rig.get(key), None));
    let reads = rig.cache.stats().soc_bucket_reads;
    assert!(reads < 300, "{reads} reads for 1000 misses: the filters answer again");
}

#[test]
fn the_dead_stay_dead() {
    the_dead_stay_dead_with(config(), 90);
}

/// The content of the small-object log is lost; nothing older comes back for it.
#[test]
fn the_dead_stay_dead_behind_a_log() {
    the_dead_stay_dead_with(logged(), 20);
}

fn the_dead_stay_dead_with(config: Config, alive_min: usize) {
    let drive = drive();
    let mut rig = Rig::open(config.clone(), &drive);
    fill(&rig, 1);
    let mut version = vec![Some(1); 460];
    let mut rng = fastrand::Rng::with_seed(4);
    for round in 2..12 {
        for _ in 0..60 {
            let key = rng.u32(..460);
            version[key as usize] = if rng.u8(..3) == 0 {
                rig.delete(key);
                None
            } else {
                // Sometimes in the other engine.
                let large = (key >= 400) != (rng.u8(..4) == 0);
                rig.set(key, round, if large { 20_000 } else { 90 });
                Some(round)
            };
        }
        drop(rig);
        rig = Rig::open(config.clone(), &drive);
        crashed(&rig);
        if round % 2 == 1 {
            block_on(rig.cache.rebuild());
        }
        for (key, version) in (0..).zip(&mut version) {
            let found = rig.get(key);
            assert!(found.is_none() || found == *version, "key {key}: {found:?} for {version:?}");
            // If all regions were read, what a crash has lost is lost for good.
            if round % 2 == 1 {
                *version = found;
            }
        }
    }
    let alive = version.iter().flatten().count();
    assert!(alive > alive_min, "{alive}");
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(config.clone(), &drive);
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
    for (key, version) in (0..).zip(&version) {
        let found = rig.get(key);
        assert!(found == *version, "key {key}: {found:?} for {version:?} after a clean shutdown");
    }
}

/// A write that is reported as failed but reaches the device, for example after a timeout of the drive.
#[test]
fn what_a_failed_write_left_is_not_believed() {
    for bytes in [100, 5_000] {
        let device = faulty(5);
        let rig = Rig::open(config(), &device);
        let mut now = 1000;
        let mut set_and_flush = |key: u32, version: u32| {
            // So that no back-off prevents an attempt to write to flash.
            now += 100;
            rig.clock.advance_to(std::time::Duration::from_secs(now));
            rig.set(key, version, bytes);
            let _failed_too = block_on(rig.cache.flush()).unwrap();
        };
        (0..50).for_each(|key| set_and_flush(key, 1));
        // All writes "fail" except those of the tombstone log.
        let layout = *rig.cache.layout().unwrap();
        let failing = FaultRule::new(Fault::FailedButDone).on_writes();
        let failing = failing.within(layout.loc_offset..layout.capacity_bytes);
        device.set_plan(&FaultPlan::new(5).volatile_writes(0).with(failing));
        (0..50).for_each(|key| set_and_flush(key, 2));
        assert!(device.counts().failed_but_done >= 50);
        device.set_plan(&FaultPlan::new(5).volatile_writes(0));
        (0..50).for_each(|key| rig.set(key, 3, bytes.min(200)));
        (0..50).for_each(|key| assert!(rig.delete(key)));
        drop(rig);
        let rig = Rig::open(config(), &device);
        crashed(&rig);
        block_on(rig.cache.rebuild());
        let back = (0..50).filter(|&key| rig.get(key).is_some()).count();
        assert_eq!(back, 0, "of 50 deleted keys of {bytes} bytes");
    }
}

/// Many regions, and crashes before all of them have been read.
#[test]
fn what_changes_before_it_is_found_again_stays_changed() {
    let (unindexed, found) = changes_before_it_is_found_again(CrashSafety::Process, 8);
    assert!(unindexed > 60 && found > 5000, "{unindexed} {found}");
}

/// The same with clean shutdowns, where the next opening serves before it has read any region.
#[test]
fn what_changes_while_a_clean_opening_indexes_stays_changed() {
    for (crash_safety, closed_of_8) in [(CrashSafety::Process, 2), (CrashSafety::Off, 1)] {
        let (unindexed, found) = changes_before_it_is_found_again(crash_safety, closed_of_8);
        assert!(unindexed > 60 && found > 5000, "{crash_safety:?}: {unindexed} {found}");
    }
}

/// One opening in `closed_one_in` ends with a close, the others with a crash. Returns how many ended before all regions
/// were read, and how many objects were found again.
fn changes_before_it_is_found_again(crash_safety: CrashSafety, closed_one_in: u8) -> (u32, u32) {
    let config = Config {
        loc: LocConfig { region_bytes: Some(16 << 10), eager_index_objects: 0, ..config().loc },
        soc: SocConfig { percent: Some(5.0), ..config().soc },
        crash_safety,
        ..config()
    };
    let drive = drive();
    let mut rig = Rig::open(config.clone(), &drive);
    let mut rng = fastrand::Rng::with_seed(9);
    let mut version = vec![None; 500];
    let (mut unindexed_lives, mut found_again) = (0, 0);
    for round in 1..150_u32 {
        let calls = if round % 10 == 1 { 1500 } else { rng.u32(..150) };
        for _ in 0..calls {
            let key = rng.u32(..500);
            version[key as usize] = match rng.u8(..8) {
                // After a close, each miss and delete has read all regions.
                0 | 4.. if round.is_multiple_of(2) => version[key as usize],
                0 => {
                    rig.delete(key);
                    None
                }
                1..4 => {
                    rig.set(key, round, if rng.u8(..8) == 0 { 100 } else { rng.usize(700..6000) });
                    Some(round)
                }
                _ => {
                    let found = rig.get(key);
                    let known = version[key as usize];
                    assert!(found.is_none() || found == known, "key {key}: {found:?}, {known:?}");
                    known
                }
            };
        }
        unindexed_lives += u32::from(rig.cache.stats().loc_unindexed_regions > 0);
        if rng.u8(..closed_one_in) == 0 {
            block_on(rig.cache.close()).unwrap();
        }
        drop(rig);
        rig = Rig::open(config.clone(), &drive);
        if round % 5 == 0 {
            block_on(rig.cache.rebuild());
            assert_eq!(rig.cache.stats().loc_unindexed_regions, 0);
            for (key, version) in (0..).zip(&mut version) {
                let found = rig.get(key);
                assert!(found.is_none() || found == *version, "key {key}: {found:?}, {version:?}");
                found_again += u32::from(found.is_some());
                *version = found;
            }
        }
    }
    (unindexed_lives, found_again)
}

#[test]
fn a_clean_opening_reads_no_regions_and_indexes_them_later() {
    for crash_safety in [CrashSafety::Process, CrashSafety::Off] {
        let config = Config {
            crash_safety,
            loc: LocConfig { eager_index_objects: 0, ..config().loc },
            ..config()
        };
        let drive = drive();
        let rig = Rig::open(config.clone(), &drive);
        fill(&rig, 1);
        block_on(rig.cache.close()).unwrap();
        let layout = *rig.cache.layout().unwrap();
        drop(rig);
        let before = drive.stats().host_read_bytes;
        let rig = Rig::open(config.clone(), &drive);
        let read = drive.stats().host_read_bytes - before;
        let front = (128 << 10) + layout.metadata_bytes + layout.tombstone_log_bytes;
        assert!(read <= front, "{read} bytes");
        assert_eq!(rig.cache.recovery(), Some(Recovery::Clean { large_objects: 0 }));
        assert!(rig.cache.stats().loc_unindexed_regions >= 4);
        // During this time changes take effect, and nothing old is found.
        rig.set(410, 2, 20_000);
        assert!(rig.delete(411) || rig.get(411).is_none());
        assert_eq!((rig.get(410), rig.get(411)), (Some(2), None));
        std::thread::scope(|scope| {
            (0..2).for_each(|_| _ = scope.spawn(|| block_on(rig.cache.rebuild())));
        });
        assert_eq!(rig.cache.stats().loc_unindexed_regions, 0);
        let there = |key: u32| match key {
            410 => Some(2),
            411 => None,
            _ => Some(1),
        };
        (400..460).for_each(|key| assert_eq!(rig.get(key), there(key), "{crash_safety:?} {key}"));
        let eager =
            Config { loc: LocConfig { eager_index_objects: 100_000, ..config.loc }, ..config };
        block_on(rig.cache.close()).unwrap();
        drop(rig);
        let rig = Rig::open(eager, &drive);
        assert_eq!(rig.cache.stats().loc_unindexed_regions, 0, "few are looked at before");
        (400..460).for_each(|key| assert_eq!(rig.get(key), there(key), "{crash_safety:?} {key}"));
    }
}

/// Nothing that a clean shutdown has left is a miss, even if no index knows it yet.
#[test]
fn after_a_clean_shutdown_everything_is_found_at_once() {
    for crash_safety in [CrashSafety::Process, CrashSafety::Off] {
        let config = Config {
            crash_safety,
            loc: LocConfig { eager_index_objects: 0, ..config().loc },
            ..config()
        };
        let drive = drive();
        let rig = Rig::open(config.clone(), &drive);
        fill(&rig, 1);
        block_on(rig.cache.close()).unwrap();
        drop(rig);
        for way in 0..3 {
            let rig = Rig::open(config.clone(), &drive);
            assert!(rig.cache.stats().loc_unindexed_regions >= 4, "nothing was looked at");
            assert!(rig.cache.estimated_len() >= 60, "{}", rig.cache.estimated_len());
            for key in (400..460).rev() {
                let name = key_of(key);
                match way {
                    0 => assert_eq!(rig.get(key), Some(1), "{crash_safety:?} {key}"),
                    1 => assert!(block_on(rig.cache.contains(&name)).unwrap(), "{key}"),
                    _ => {
                        let added = rig.cache.add(&name, b"another", SetOptions::default());
                        assert!(!block_on(added).unwrap(), "{crash_safety:?} {key}");
                    }
                }
            }
            assert_eq!(rig.get(461), None, "a look-up of what is not there comes to an end");
            assert_eq!(rig.cache.stats().loc_unindexed_regions, 0);
            block_on(rig.cache.close()).unwrap();
        }
    }
}

/// A change that depends on whether a key is there waits until that is known.
#[test]
fn a_store_with_a_condition_knows_what_a_crash_has_left() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    fill(&rig, 1);
    drop(rig);
    let rig = Rig::open(config(), &drive);
    assert!(rig.cache.stats().loc_unindexed_regions >= 4, "nothing was looked at");
    let is_added = |key: &u32| {
        let name = key_of(*key);
        block_on(rig.cache.add(&name, b"another", SetOptions::default())).unwrap()
    };
    let added = (400..460).filter(is_added).count();
    // The last records of a region in memory have not reached flash.
    assert!(added <= 14, "{added} of 60 were stored over what is there");
}

#[test]
fn an_opening_after_a_crash_reads_the_log_and_no_regions() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    fill(&rig, 1);
    drop(rig);
    let before = drive.stats().host_read_bytes;
    let rig = Rig::open(config(), &drive);
    let read = drive.stats().host_read_bytes - before;
    let layout = *rig.cache.layout().unwrap();
    // The front, and both copies of the label again: the only whole copy is written last.
    let label = (128 << 10) + AREA_BYTES;
    assert!(read <= label + layout.tombstone_log_bytes, "{read} bytes");
    assert_eq!(rig.cache.stats().loc_unindexed_regions, u64::from(layout.loc_regions));
}

/// An application that never calls `rebuild` gets there too.
#[test]
fn a_miss_or_a_change_looks_at_a_region() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    fill(&rig, 1);
    let large = rig.cache.stats().loc_objects;
    drop(rig);
    let rig = Rig::open(config(), &drive);
    let regions = rig.cache.layout().unwrap().loc_regions;
    (0..regions).for_each(|key| match key % 3 {
        0 => assert_eq!(rig.get(100_000 + key), None),
        1 => assert!(!rig.delete(100_000 + key)),
        _ => rig.set(100_000 + key, 1, 100),
    });
    assert_eq!(rig.cache.stats().loc_unindexed_regions, 0);
    assert!(rig.cache.stats().loc_objects + 14 >= large);
    assert!((400..460).filter(|&key| rig.get(key) == Some(1)).count() >= 40);
}

/// A clean shutdown also keeps what has not been read yet.
#[test]
fn a_shutdown_before_all_is_found_again_loses_nothing() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    fill(&rig, 1);
    assert_eq!(block_on(rig.cache.flush()).unwrap().lost, 0);
    let large = rig.cache.stats().loc_objects;
    drop(rig);
    let rig = Rig::open(config(), &drive);
    assert!(rig.delete(410) || rig.get(410).is_none());
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(config(), &drive);
    // Small objects that DRAM held are among them.
    let Some(Recovery::Clean { large_objects }) = rig.cache.recovery() else { panic!() };
    assert!(large_objects >= large - 1, "{large_objects} of {large}");
    assert_eq!((rig.get(410), rig.get(411)), (None, Some(1)));
}

#[test]
fn the_log_goes_around_and_forgets_nothing() {
    let drive = drive();
    let mut rig = Rig::open(config(), &drive);
    fill(&rig, 1);
    for version in 2..40 {
        (0..440).for_each(|key| {
            if key < 400 {
                rig.set(key, version, 100);
            }
        });
        if version % 10 == 0 {
            drop(rig);
            rig = Rig::open(config(), &drive);
            crashed(&rig);
            for key in 0..400 {
                let found = rig.get(key);
                assert!(found.is_none() || found == Some(version), "key {key}: {found:?}");
            }
        }
    }
    let stats = rig.cache.stats();
    assert!(stats.tombstones > 1000 && stats.tombstone_logs_given_up == 0, "{stats:?}");
}

#[test]
fn a_loss_of_power_empties_the_cache() {
    let device = faulty(1);
    let rig = Rig::open(config(), &device);
    fill(&rig, 1);
    drop(rig);
    device.crash().unwrap();
    device.restart().unwrap();
    let rig = Rig::open(config(), &device);
    let Some(Recovery::Discarded { reason }) = rig.cache.recovery() else { panic!() };
    assert!(reason.contains("power"), "{reason}");
    (0..460).for_each(|key| assert_eq!(rig.get(key), None));
}

#[test]
fn a_damaged_log_is_not_believed() {
    let device = faulty(2);
    let rig = Rig::open(config(), &device);
    fill(&rig, 1);
    fill(&rig, 2);
    let log = rig.cache.layout().unwrap().metadata_bytes;
    drop(rig);
    let mut block = device.submit(Io::Read { offset: log, buffer: IoBuffer::zeroed(4096) });
    let mut buffer = block_on(&mut block).unwrap();
    assert_eq!(&buffer.as_slice()[..4], b"LTMB");
    buffer.as_mut_slice()[100] ^= 4;
    let handle = PlacementHandle::DEFAULT;
    device.submit(Io::write(log, buffer, handle)).wait().unwrap();
    let rig = Rig::open(config(), &device);
    let Some(Recovery::Discarded { reason }) = rig.cache.recovery() else { panic!() };
    assert!(reason.contains("damaged"), "{reason}");
    (0..460).for_each(|key| assert_eq!(rig.get(key), None));
}

#[test]
fn a_log_that_cannot_be_written_is_given_up_and_a_crash_empties_the_cache() {
    let device = faulty(3);
    let rig = Rig::open(config(), &device);
    fill(&rig, 1);
    let layout = *rig.cache.layout().unwrap();
    let log = layout.metadata_bytes..layout.loc_offset;
    device.set_plan(&FaultPlan::new(3).with(FaultRule::new(Fault::Error).on_writes().within(log)));
    fill(&rig, 2);
    let stats = rig.cache.stats();
    assert_eq!((stats.crash_safe, stats.tombstone_logs_given_up), (0, 1));
    drop(rig);
    device.set_plan(&FaultPlan::new(3));
    let rig = Rig::open(config(), &device);
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Discarded { .. })));
    (0..460).for_each(|key| assert_eq!(rig.get(key), None));
    assert_eq!(rig.cache.stats().crash_safe, 1, "a new log");
}

#[test]
fn where_nothing_can_be_written_down_the_caller_is_told() {
    let device = faulty(4);
    let rig = Rig::open(config(), &device);
    fill(&rig, 1);
    device.set_plan(&FaultPlan::new(4).with(FaultRule::new(Fault::Error).on_writes()));
    let set = |key| block_on(rig.cache.set(&key_of(key), b"new", None));
    let told = (0..400).filter_map(|key| set(key).err()).inspect(|error| {
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.to_string().contains("after a crash"), "{error}");
    });
    assert!(told.count() > 300);
    let new = block_on(rig.cache.get(&key_of(399))).unwrap();
    assert_eq!(new.as_deref(), Some(&b"new"[..]), "stored all the same");
    // The device works again: what is owed is written first.
    device.set_plan(&FaultPlan::new(4));
    set(0).unwrap();
    drop(rig);
    let rig = Rig::open(config(), &device);
    (0..400).for_each(|key| {
        let found = block_on(rig.cache.get(&key_of(key))).unwrap();
        assert!(found.is_none_or(|found| *found == *b"new"), "key {key}");
    });
}

/// Not everything that a crash has left has been found again, so no clean shutdown is possible; but a shutdown that
/// returns success owes nothing.
#[test]
fn a_shutdown_that_leaves_something_owed_says_so() {
    let device = faulty(6);
    let rig = Rig::open(config(), &device);
    fill(&rig, 1);
    drop(rig);
    let rig = Rig::open(config(), &device);
    device.set_plan(&FaultPlan::new(6).with(FaultRule::new(Fault::Error).on_writes()));
    block_on(rig.cache.set(&key_of(0), b"new", None)).unwrap_err();
    let closed = block_on(rig.cache.close()).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Device);
    assert!(closed.to_string().contains("after a crash"), "{closed}");
}

/// The device refuses all writes from a certain time on, and the process dies; repeatedly.
#[test]
fn a_device_that_refuses_its_last_writes_brings_nothing_back() {
    let device = faulty(5);
    let mut rng = fastrand::Rng::with_seed(5);
    let mut version = vec![None; 300];
    let mut found_again = 0_u32;
    let mut told = None;
    for round in 1..120_u32 {
        device.set_plan(&FaultPlan::new(5));
        let shared: Arc<dyn Device> = Arc::clone(&device) as _;
        let cache = block_on(Larder::open(config(), Some(shared), Arc::new(RealClock))).unwrap();
        let rig = Rig { cache, clock: Arc::default() };
        for (key, version) in (0..).zip(&mut version) {
            let found = rig.get(key);
            let allowed = found.is_none() || found == *version || Some(key) == told;
            assert!(allowed, "round {round}, key {key}: {found:?} for {version:?}");
            found_again += u32::from(found.is_some());
            *version = found;
        }
        told = None;
        let healthy = rng.u32(..150);
        for call in 0..200 {
            if call == healthy {
                let refused = FaultRule::new(Fault::Error).on_writes();
                device.set_plan(&FaultPlan::new(5).with(refused));
            }
            let key = rng.u32(..300);
            let bytes = if key.is_multiple_of(5) { 9_000 } else { 150 };
            let value = crate::rig::value_of(key, round, bytes);
            let done = if rng.u8(..4) == 0 {
                block_on(rig.cache.delete(&key_of(key))).map(|_| None)
            } else {
                block_on(rig.cache.set(&key_of(key), &value, None)).map(|()| Some(round))
            };
            match done {
                Ok(done) => version[key as usize] = done,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Device);
                    told = Some(key); // both versions may come back now
                    break;
                }
            }
        }
        drop(rig);
    }
    assert!(found_again > 1000, "{found_again}");
}

/// If the footer of a region could not be read, nothing in it is valid any more: not even after the next crash, when it
/// can be read again. In between, its content could be changed without a tombstone.
#[test]
fn what_was_void_once_stays_void() {
    let device = faulty(7);
    let rig = Rig::open(config(), &device);
    (0..60).for_each(|key| rig.set(key, 1, 20_000));
    let layout = *rig.cache.layout().unwrap();
    drop(rig);
    let unreadable = FaultRule::new(Fault::Error).on_reads();
    // The opening itself reads only bytes before that; all footers lie after it.
    let unreadable = unreadable.within(layout.loc_offset.max(128 << 10)..layout.soc_offset);
    device.set_plan(&FaultPlan::new(7).volatile_writes(0).with(unreadable));
    let rig = Rig::open(config(), &device);
    block_on(rig.cache.rebuild());
    assert_eq!(rig.cache.stats().loc_unindexed_regions, 0);
    (0..60).for_each(|key| assert!(!rig.delete(key), "nothing of it is known"));
    drop(rig);
    device.set_plan(&FaultPlan::new(7).volatile_writes(0));
    let rig = Rig::open(config(), &device);
    crashed(&rig);
    block_on(rig.cache.rebuild());
    let back = (0..60).filter(|&key| rig.get(key).is_some()).count();
    assert_eq!(back, 0, "of 60 deleted keys");
}
