//! A cache that is cleared: at once, for good, and whatever else happens at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};

use larder::{
    Config, CrashSafety, ErrorKind, Larder, LocConfig, RealClock, Recovery, SetOptions, Shards,
    block_on,
};
use larder_device::label;
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule, ModelDevice};

use crate::rig::{Rig, config, drive, drive_of, key_of, logged, value_of, version_in};

const KEYS: u32 = 340;

/// Small and large values, and one that is longer than a region.
fn bytes_of(key: u32) -> usize {
    match key {
        0 => 600_000,
        _ if key.is_multiple_of(5) => 9_000,
        _ => 200,
    }
}

fn fill(rig: &Rig, version: u32) {
    (0..KEYS).for_each(|key| rig.set(key, version, bytes_of(key)));
}

fn classes() -> Config {
    Config { loc: LocConfig { ttl_classes: vec![60], ..config().loc }, ..config() }
}

/// The keys that are there, and their versions.
fn found(rig: &Rig) -> Vec<(u32, u32)> {
    (0..KEYS).filter_map(|key| Some((key, rig.get(key)?))).collect()
}

#[test]
fn a_cleared_cache_goes_on() {
    let off = Config { crash_safety: CrashSafety::Off, ..config() };
    for config in [config(), logged(), classes(), off] {
        let drive = drive();
        let rig = Rig::open(config.clone(), &drive);
        for round in 1..6 {
            let version = round * 10;
            fill(&rig, version);
            let writes = drive.stats().host_written_bytes;
            block_on(rig.cache.clear()).unwrap();
            // Writes in flight may have ended during the clear; no other write was started.
            assert_eq!(drive.stats().host_written_bytes - writes, 2 * 4096, "a label");
            assert_eq!((rig.cache.stats().dram_items, rig.cache.stats().loc_objects), (0, 0));
            assert_eq!(found(&rig), []);
            let mut scan = rig.cache.scan();
            assert!(block_on(scan.next()).is_none() && scan.is_whole());
            fill(&rig, version + 1);
            (0..KEYS).step_by(3).for_each(|key| _ = rig.delete(key));
            let there = found(&rig);
            assert!(there.iter().all(|&(key, found)| found == version + 1 && key % 3 > 0));
            assert!(there.len() > 200, "{}", there.len());
        }
        assert_eq!(rig.cache.stats().clears, 5);
        let before = found(&rig);
        block_on(rig.cache.close()).unwrap();
        let rig = Rig::open(config.clone(), &drive);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
        assert_eq!(found(&rig), before, "what came after the last clear");
        block_on(rig.cache.clear()).unwrap();
        block_on(rig.cache.close()).unwrap();
        let rig = Rig::open(config, &drive);
        assert_eq!(found(&rig), []);
    }
}

fn faulty() -> (Arc<ModelDevice>, Arc<FaultDevice<Arc<ModelDevice>>>) {
    let drive = drive_of(8 << 20, true);
    let device = Arc::new(FaultDevice::new(Arc::clone(&drive), &FaultPlan::new(1)));
    (drive, device)
}

/// The process dies at each request of the device in turn: during the clear, and afterwards. `filled` brings a cache to
/// the state in which it is cleared.
fn nothing_comes_back(config: &Config, filled: impl Fn(&Rig)) {
    let mut cleared_before_death = 0;
    for request in 0..40 {
        let (drive, device) = faulty();
        let rig = Rig::open(config.clone(), &device);
        fill(&rig, 1);
        filled(&rig);
        let dies = FaultRule::new(Fault::Gone).at_io(device.submissions() + request);
        device.set_plan(&FaultPlan::new(1).with(dies));
        let cleared = block_on(rig.cache.clear()).is_ok();
        if cleared {
            cleared_before_death += 1;
            // Written over voided content; some of it reaches flash.
            (0..KEYS).step_by(2).for_each(|key| rig.set(key, 2, bytes_of(key)));
            let _gone = block_on(rig.cache.flush());
        }
        drop(rig);
        let rig = Rig::open(config.clone(), &drive);
        for pass in ["at once", "when all is known"] {
            for (key, version) in found(&rig) {
                let is_new = version == 2 && key % 2 == 0;
                assert!(is_new || !cleared, "request {request}: {version} of key {key}, {pass}");
            }
            block_on(rig.cache.rebuild());
        }
        // And the state after a clean shutdown.
        let left = found(&rig);
        block_on(rig.cache.close()).unwrap();
        let again = found(&Rig::open(config.clone(), &drive));
        assert!(again.iter().all(|item| left.contains(item)), "request {request}");
    }
    assert!(cleared_before_death > 20, "{cleared_before_death}");
}

#[test]
fn nothing_comes_back_wherever_a_crash_hits() {
    for config in [config(), logged(), classes()] {
        nothing_comes_back(&config, |_| ());
        // With everything on flash, and dead keys in the log.
        nothing_comes_back(&config, |rig| {
            (0..KEYS).step_by(7).for_each(|key| _ = rig.delete(key));
            let _all = block_on(rig.cache.flush()).unwrap();
        });
    }
}

/// A crash has left regions and buckets that have not been read when they are cleared.
#[test]
fn what_a_crash_has_left_is_cleared_unseen() {
    for config in [config(), classes()] {
        let drive = drive();
        let rig = Rig::open(config.clone(), &drive);
        fill(&rig, 1);
        let _all = block_on(rig.cache.flush()).unwrap();
        drop(rig);
        for round in 0..3 {
            drop(Rig::open(config.clone(), &drive)); // never closed
            let rig = Rig::open(config.clone(), &drive);
            if round == 0 {
                assert!(rig.cache.stats().loc_unindexed_regions > 0);
                assert_eq!(rig.get(1), Some(1), "they are found when they are asked for");
                block_on(rig.cache.clear()).unwrap();
            }
            assert_eq!(rig.cache.stats().loc_unindexed_regions > 0, round > 0);
            assert_eq!(block_on(rig.cache.rebuild()) > 0, round > 0);
            assert_eq!(found(&rig), []);
            rig.set(5, 9, 9_000);
            rig.delete(5);
        }
    }
}

#[test]
fn a_clear_that_fails_changes_nothing() {
    for fault in [Fault::Error, Fault::FailedButDone] {
        let (drive, device) = faulty();
        let rig = Rig::open(config(), &device);
        fill(&rig, 1);
        let before = found(&rig);
        let superblock = FaultRule::new(fault).on_writes().within(0..label::AREA_BYTES);
        device.set_plan(&FaultPlan::new(1).with(superblock));
        assert_eq!(block_on(rig.cache.clear()).unwrap_err().kind(), ErrorKind::Device);
        assert_eq!(found(&rig), before);
        device.set_plan(&FaultPlan::new(1));
        // Newer versions, deletes, and a crash: nothing older comes back, whether or not it is void.
        (0..KEYS).step_by(2).for_each(|key| rig.set(key, 2, bytes_of(key)));
        (0..KEYS).step_by(3).for_each(|key| _ = rig.delete(key));
        let newest = found(&rig);
        drop(rig);
        let rig = Rig::open(config(), &drive);
        block_on(rig.cache.rebuild());
        let after = found(&rig);
        assert!(after.iter().all(|item| newest.contains(item)));
        assert_eq!(after.is_empty(), fault == Fault::FailedButDone, "{fault:?}");
        // The next attempt clears.
        block_on(rig.cache.clear()).unwrap();
        assert_eq!(found(&rig), []);
    }
}

#[test]
fn a_clear_that_is_dropped_changes_nothing() {
    let (drive, device) = faulty();
    let rig = Rig::open(config(), &device);
    fill(&rig, 1);
    let before = found(&rig);
    let delay = FaultRule::new(Fault::Delay { submissions: 1 << 20 }).on_writes();
    device.set_plan(&FaultPlan::new(1).with(delay));
    {
        let mut clearing = Box::pin(rig.cache.clear());
        let mut context = Context::from_waker(Waker::noop());
        assert!(clearing.as_mut().poll(&mut context).is_pending());
    }
    device.set_plan(&FaultPlan::new(1));
    device.release_delayed();
    assert_eq!(found(&rig), before, "it goes on");
    // The device has carried out the write although the caller was dropped: a crash finds what a clear would have left,
    // or what was there, and never what was replaced.
    (0..KEYS).step_by(2).for_each(|key| rig.set(key, 2, bytes_of(key)));
    let newest = found(&rig);
    drop(rig);
    let rig = Rig::open(config(), &drive);
    assert!(found(&rig).iter().all(|item| newest.contains(item)));
}

/// Threads set and read keys of their own while another thread clears repeatedly. `begun` counts the clears that have
/// begun, `ended` those that have returned.
#[test]
fn a_clear_during_other_calls_is_never_half_done() {
    let in_dram = Config { dram_bytes: 4 << 20, ..Config::default() };
    for (config, device) in [
        (config(), Some(drive() as Arc<dyn Device>)),
        (logged(), Some(drive() as Arc<dyn Device>)),
        (in_dram, None),
    ] {
        let cache = block_on(Larder::open(config, device, Arc::new(RealClock))).unwrap();
        let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        let ask = |thread: u32| {
            // For each key: the version that was set, and how many clears had begun at that time.
            let mut set: Vec<Option<(u32, u32)>> = vec![None; 100];
            for round in 1.. {
                if round >= 60 && ended.load(Ordering::SeqCst) >= 4 {
                    break;
                }
                for at in 0..100_u32 {
                    let key = thread * 1000 + at;
                    let before = ended.load(Ordering::SeqCst);
                    let found = block_on(cache.get(&key_of(key))).unwrap();
                    if let Some(found) = found {
                        let (version, when) = set[at as usize].unwrap();
                        assert_eq!(version_in(key, &found), version);
                        // Otherwise a clear that began after the set had returned has ended.
                        assert!(before <= when, "set before clear {when}, found after {before}");
                    }
                    if at % 3 == round % 3 {
                        let value = value_of(key, round, if at % 10 == 0 { 5_000 } else { 150 });
                        block_on(cache.set(&key_of(key), &value, None)).unwrap();
                        set[at as usize] = Some((round, begun.load(Ordering::SeqCst)));
                    }
                }
            }
        };
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let clears = std::thread::scope(|scope| {
            let clearing = scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    begun.fetch_add(1, Ordering::SeqCst);
                    block_on(cache.clear()).unwrap();
                    ended.fetch_add(1, Ordering::SeqCst);
                    std::thread::yield_now();
                }
            });
            let ask = &ask;
            let asking: Vec<_> = (0..3).map(|thread| scope.spawn(move || ask(thread))).collect();
            let ended: Vec<_> = asking.into_iter().map(|thread| thread.join()).collect();
            is_over.store(true, Ordering::SeqCst);
            clearing.join().unwrap();
            ended.into_iter().for_each(|thread| thread.unwrap());
            cache.stats().clears
        });
        assert!(clears >= 4, "{clears}");
        // A set that begins now stays.
        block_on(cache.set(b"after", b"all", None)).unwrap();
        assert!(block_on(cache.contains(b"after")).unwrap());
    }
}

#[test]
fn a_fetch_that_began_before_a_clear_is_not_stored() {
    for device in [Some(drive() as Arc<dyn Device>), None] {
        let cache = block_on(Larder::open(config(), device, Arc::new(RealClock))).unwrap();
        let fetch = async || {
            // The fetch may itself call the cache.
            cache.clear().await.map_err(|error| error.to_string())?;
            Ok::<_, String>(b"of before".to_vec())
        };
        let fetched = block_on(cache.get_or_fetch(b"key", SetOptions::default(), fetch)).unwrap();
        assert_eq!(fetched.as_ref(), b"of before");
        assert!(block_on(cache.get(b"key")).unwrap().is_none());
    }
}

#[test]
fn the_memory_of_dram_is_used_again() {
    let config = Config { dram_bytes: 8 << 20, ..Config::default() };
    let cache = block_on(Larder::open(config, None, Arc::new(RealClock))).unwrap();
    for _ in 0..4 {
        for key in 0..40_000 {
            block_on(cache.set(&key_of(key), &value_of(key, 1, 100), None)).unwrap();
        }
        let full = cache.stats();
        assert_eq!(full.dram_items, 40_000, "nothing makes way for what is dead");
        assert!(full.dram_used_bytes <= 8 << 20);
        let pinned = block_on(cache.get(&key_of(39_999))).unwrap().unwrap();
        block_on(cache.clear()).unwrap();
        assert_eq!(version_in(39_999, &pinned), 1, "a value in use stays as it is");
        assert_eq!(cache.stats().dram_items, 0);
    }
}

#[test]
fn shards_are_cleared_together() {
    let devices = vec![Some(drive() as Arc<dyn Device>), Some(drive() as Arc<dyn Device>)];
    let shards = block_on(Shards::open(config(), devices, Arc::new(RealClock))).unwrap();
    for key in 0..100 {
        block_on(shards.set(&key_of(key), b"1", None)).unwrap();
    }
    block_on(shards.clear()).unwrap();
    assert!((0..100).all(|key| block_on(shards.get(&key_of(key))).unwrap().is_none()));
}
