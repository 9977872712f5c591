//! `flush`: what was set before it is there after a crash, unless flash refused it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use larder::{
    AdmissionPolicy, Config, CrashSafety, Flushed, LocConfig, Recovery, SocConfig, block_on,
};
use larder_device::{Fault, FaultDevice, FaultPlan, FaultRule};

use crate::rig::{Rig, config, drive, drive_of};

/// DRAM for everything that the tests set.
fn roomy() -> Config {
    Config { dram_bytes: 4 << 20, ..config() }
}

fn flush(rig: &Rig) -> Flushed {
    block_on(rig.cache.flush()).unwrap()
}

/// Small and large values.
fn bytes_of(key: u32) -> usize {
    if key.is_multiple_of(10) { 9_000 } else { 100 }
}

#[test]
fn what_was_flushed_is_found_again_after_a_crash() {
    for dram_bytes in [20 << 10, 200 << 10, 4 << 20] {
        let drive = drive();
        let rig = Rig::open(Config { dram_bytes, ..config() }, &drive);
        (0..400).for_each(|key| rig.set(key, 1, bytes_of(key)));
        let items = rig.cache.stats().dram_items;
        let flushed = flush(&rig);
        assert!(flushed.objects <= items, "{flushed:?}");
        assert_eq!((flushed.refused, flushed.lost), (0, 0));
        drop(rig);
        let rig = Rig::open(config(), &drive);
        block_on(rig.cache.rebuild());
        assert!(matches!(
            rig.cache.recovery(),
            Some(Recovery::Crashed { large_objects: 40, regions_left: 0 })
        ));
        (0..400).for_each(|key| assert_eq!(rig.get(key), Some(1), "key {key}, {dram_bytes}"));
    }
}

#[test]
fn what_was_flushed_stays_in_dram_and_is_not_written_again() {
    let drive = drive();
    let rig = Rig::open(roomy(), &drive);
    (0..400).for_each(|key| rig.set(key, 1, bytes_of(key)));
    let objects = (0..400).map(|key| (12 + bytes_of(key)) as u64);
    let flushed = flush(&rig);
    assert_eq!((flushed.objects, flushed.bytes), (400, objects.sum()));
    let written = rig.cache.stats();
    assert_eq!(flush(&rig), Flushed::default());
    (0..400).for_each(|key| assert_eq!(rig.get(key), Some(1)));
    let stats = rig.cache.stats();
    assert_eq!((stats.dram_hits, stats.dram_items), (400, 400));
    assert_eq!(stats.flash_written_bytes(), written.flash_written_bytes());
    // Now they leave DRAM.
    let stats = block_on(rig.cache.close()).unwrap();
    assert_eq!((stats.evicted_clean_objects, stats.admitted_objects), (400, 400));
    assert_eq!(stats.soc_bucket_writes, written.soc_bucket_writes);
}

#[test]
fn a_flush_of_little_writes_little() {
    let drive = drive();
    let rig = Rig::open(roomy(), &drive);
    let mut rng = fastrand::Rng::with_seed(11);
    // Over several regions of 256 KiB, with all kinds of ends.
    let sizes: Vec<usize> = (0..150).map(|_| rng.usize(1_000..20_000)).collect();
    for (key, &size) in (0..).zip(&sizes) {
        rig.set(key, 1, size);
        let before = rig.cache.stats();
        assert_eq!(flush(&rig).objects, 1);
        let stats = rig.cache.stats();
        if stats.loc_sealed_regions == before.loc_sealed_regions {
            let written = stats.loc_written_bytes - before.loc_written_bytes;
            assert!(written <= size as u64 + 64 + 4096, "{written} bytes for {size}");
        }
    }
    assert!(rig.cache.stats().loc_sealed_regions >= 5);
    drop(rig);
    let rig = Rig::open(config(), &drive);
    block_on(rig.cache.rebuild());
    (0..150).for_each(|key| assert_eq!(rig.get(key), Some(1), "key {key}"));
}

#[test]
fn the_dead_stay_dead_among_the_flushed() {
    let drive = drive();
    let mut rig = Rig::open(roomy(), &drive);
    let mut rng = fastrand::Rng::with_seed(12);
    let mut version = vec![None; 200];
    for round in 1..12 {
        for _ in 0..80 {
            let key = rng.u32(..200);
            version[key as usize] = if rng.u8(..4) == 0 {
                rig.delete(key);
                None
            } else {
                rig.set(key, round, if rng.bool() { 5_000 } else { 100 });
                Some(round)
            };
            if rng.u8(..20) == 0 {
                assert_eq!(flush(&rig).lost, 0);
            }
        }
        let _all = flush(&rig);
        drop(rig);
        rig = Rig::open(roomy(), &drive);
        block_on(rig.cache.rebuild());
        for (key, version) in (0..).zip(&version) {
            assert_eq!(rig.get(key), *version, "key {key} in round {round}");
        }
    }
}

#[test]
fn what_is_refused_is_counted_and_stays_in_dram() {
    let drive = drive();
    let refusing = Config { admission: AdmissionPolicy::Random(0.0), ..roomy() };
    let rig = Rig::open(refusing, &drive);
    (0..50).for_each(|key| rig.set(key, 1, 100));
    let flushed = flush(&rig);
    assert_eq!((flushed.objects, flushed.refused), (0, 50));
    (0..50).for_each(|key| assert_eq!(rig.get(key), Some(1)));
    let region_bytes = Some(64 << 10);
    let config = Config {
        soc: SocConfig { percent: Some(0.0), ..roomy().soc },
        loc: LocConfig { region_bytes, ..roomy().loc },
        ..roomy()
    };
    let rig = Rig::open(config, &drive_of(8 << 20, true));
    // Longer than a region, which has no room for the head with this key.
    block_on(rig.cache.set(&[7; 65_535], &[1; 40_000], None)).unwrap();
    rig.set(1, 1, 100);
    let flushed = flush(&rig);
    assert_eq!((flushed.objects, flushed.refused), (1, 1));
}

#[test]
fn a_device_that_takes_no_writes_is_told_of_and_costs_nothing() {
    let plan = FaultPlan::new(1);
    let device = Arc::new(FaultDevice::new(drive(), &plan));
    let rig = Rig::open(roomy(), &device);
    (0..50).for_each(|key| rig.set(key, 1, 9_000));
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
    let flushed = flush(&rig);
    assert!(flushed.lost > 0, "{flushed:?}");
    (0..50).for_each(|key| assert_eq!(rig.get(key), Some(1)));
    device.set_plan(&plan);
    let flushed = flush(&rig);
    assert_eq!(
        (flushed.objects, flushed.lost),
        (0, 50),
        "nothing is tried yet, and nothing is there"
    );
    // Writes are retried after a back-off that doubles each time.
    rig.clock.advance_to(std::time::Duration::from_secs(1100));
    let flushed = flush(&rig);
    assert_eq!((flushed.objects, flushed.lost), (50, 0), "in another region");
    drop(rig);
    let rig = Rig::open(config(), &device);
    block_on(rig.cache.rebuild());
    (0..50).for_each(|key| assert_eq!(rig.get(key), Some(1)));
}

#[test]
fn a_flush_during_changes_loses_none_of_them() {
    for crash_safety in [CrashSafety::Process, CrashSafety::Off] {
        let drive = drive();
        let rig = Rig::open(Config { crash_safety, dram_bytes: 60 << 10, ..config() }, &drive);
        let ended = AtomicBool::new(false);
        let last = thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    assert_eq!(flush(&rig).lost, 0);
                }
            });
            let changers: Vec<_> = (0..3)
                .map(|thread| {
                    let rig = &rig;
                    scope.spawn(move || change(rig, thread))
                })
                .collect();
            let last: Vec<_> = changers.into_iter().map(|thread| thread.join().unwrap()).collect();
            ended.store(true, Ordering::Relaxed);
            last
        });
        let rig = match crash_safety {
            CrashSafety::Off => rig,
            _ => {
                let _all = flush(&rig);
                drop(rig);
                Rig::open(config(), &drive)
            }
        };
        for (key, version) in last.into_iter().flatten() {
            assert_eq!(rig.get(key), version, "key {key}");
        }
    }
}

/// Sets and deletes keys of its own; returns what they have at the end.
fn change(rig: &Rig, thread: u32) -> Vec<(u32, Option<u32>)> {
    let mut rng = fastrand::Rng::with_seed(u64::from(thread));
    let mut last: Vec<_> = (0..60).map(|key| (thread * 1000 + key, None)).collect();
    for version in 1..800 {
        let (key, has) = &mut last[rng.usize(..60)];
        match rng.u8(..4) {
            0 => {
                rig.delete(*key);
                *has = None;
            }
            1 => assert_eq!(rig.get(*key), *has),
            _ => {
                rig.set(*key, version, if rng.u8(..16) == 0 { 3_000 } else { 100 });
                *has = Some(version);
            }
        }
    }
    last
}
