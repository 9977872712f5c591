//! What a power loss leaves with `crash_safety = Power`: everything flushed, and nothing that was deleted or replaced,
//! whichever unflushed sectors the drive has lost.

use std::sync::Arc;

use larder::{Config, CrashSafety, LocConfig, Recovery, block_on};
use larder_device::{Device, Fault, FaultDevice, FaultPlan, FaultRule, ModelDevice};

use crate::rig::{Rig, config, drive_of};

type Drive = Arc<FaultDevice<Arc<ModelDevice>>>;

/// Blocks of 4 KiB are written whole or not at all: no bucket that is being written is lost.
fn plan(seed: u64) -> FaultPlan {
    FaultPlan::new(seed).volatile_writes(1 << 20).atomic_write_bytes(4096)
}

fn drive(plan: &FaultPlan) -> Drive {
    Arc::new(FaultDevice::new(drive_of(16 << 20, true), plan))
}

/// DRAM for everything, so that only what a test flushes reaches flash.
fn safe() -> Config {
    Config { dram_bytes: 4 << 20, crash_safety: CrashSafety::Power, ..config() }
}

fn lose_power(drive: &Drive) {
    drive.crash().unwrap();
    drive.restart().unwrap();
}

/// Small and large values.
fn bytes_of(key: u32) -> usize {
    if key.is_multiple_of(10) { 9_000 } else { 100 }
}

fn set_all(rig: &Rig, version: u32, keys: std::ops::Range<u32>) {
    keys.for_each(|key| rig.set(key, version, bytes_of(key)));
}

fn flush(rig: &Rig) {
    let flushed = block_on(rig.cache.flush()).unwrap();
    assert_eq!((flushed.refused, flushed.lost), (0, 0));
}

fn reopened(config: Config, drive: &Drive) -> Rig {
    let rig = Rig::open(config, drive);
    block_on(rig.cache.rebuild());
    rig
}

#[test]
fn what_was_flushed_is_there_after_a_loss_of_power() {
    for seed in 0..8 {
        let drive = drive(&plan(seed));
        let rig = Rig::open(safe(), &drive);
        for (version, keys) in [(1, 0..300), (2, 100..200)] {
            set_all(&rig, version, keys);
            flush(&rig);
        }
        // What is not flushed may be there or not.
        set_all(&rig, 3, 300..400);
        drop(rig);
        for _ in 0..2 {
            lose_power(&drive);
            let rig = reopened(safe(), &drive);
            assert!(matches!(rig.cache.recovery(), Some(Recovery::Crashed { .. })));
            for key in 0..300 {
                let version = if (100..200).contains(&key) { 2 } else { 1 };
                assert_eq!(rig.get(key), Some(version), "key {key}, seed {seed}");
            }
            (300..400).for_each(|key| assert!([None, Some(3)].contains(&rig.get(key))));
        }
    }
}

#[test]
fn the_dead_stay_dead_after_a_loss_of_power() {
    for seed in 0..8 {
        let drive = drive(&plan(seed));
        let rig = Rig::open(safe(), &drive);
        set_all(&rig, 1, 0..300);
        flush(&rig);
        for key in 0..300 {
            match key % 3 {
                0 => assert!(rig.delete(key)),
                1 => rig.set(key, 2, bytes_of(key)),
                _ => {}
            }
        }
        drop(rig);
        lose_power(&drive);
        let rig = reopened(safe(), &drive);
        for key in 0..300 {
            let allowed: &[Option<u32>] = match key % 3 {
                0 => &[None],
                1 => &[None, Some(2)],
                _ => &[Some(1)],
            };
            assert!(allowed.contains(&rig.get(key)), "key {key}, seed {seed}: {:?}", rig.get(key));
        }
    }
}

/// Buckets and regions have been rewritten without the dead keys, and the log has gone round: remains of the old
/// versions must not come back from under writes that were not flushed.
#[test]
fn the_dead_stay_dead_when_their_tombstones_are_gone() {
    let (small, large) = (0..300, 1000..1060);
    for seed in 0..12 {
        let drive = drive(&plan(seed));
        let config = Config {
            dram_bytes: 20 << 10,
            utilization_percent: 25.0,
            tombstone_log_bytes: Some(16 << 10),
            loc: LocConfig {
                // Regions that are being filled are partly on flash.
                write_bytes: 16 << 10,
                ..safe().loc
            },
            ..safe()
        };
        let rig = Rig::open(config.clone(), &drive);
        small.clone().for_each(|key| rig.set(key, 1, 100));
        large.clone().for_each(|key| rig.set(key, 1, 9_000));
        flush(&rig);
        delete_all(&rig, small.clone().chain(large.clone()));
        // Other keys cause every region to be refilled, and every bucket to be written.
        (2000..2500).for_each(|key| rig.set(key, 1, 9_000));
        go_round(&rig);
        let stats = rig.cache.stats();
        assert!(stats.tombstones > 3000 && stats.loc_reclaimed_regions > 0, "{stats:?}");
        drop(rig);
        lose_power(&drive);
        let dead = || small.clone().chain(large.clone()).chain(3000..4500);
        let rig = reopened(config.clone(), &drive);
        dead().for_each(|key| assert_eq!(rig.get(key), None, "key {key}, seed {seed}"));
        // That opening has written footers for the regions that were being filled, next to older ones.
        delete_all(&rig, 2000..2500);
        go_round(&rig);
        drop(rig);
        lose_power(&drive);
        let rig = reopened(config, &drive);
        let dead = || dead().chain(2000..2500);
        dead().for_each(|key| assert_eq!(rig.get(key), None, "key {key}, seed {seed}, again"));
    }
}

/// Deletes keys, whether they are there or not.
fn delete_all(rig: &Rig, keys: impl Iterator<Item = u32>) {
    for key in keys {
        let _was_there = rig.delete(key);
    }
}

/// Thousands of tombstones that are needed only for a short time.
fn go_round(rig: &Rig) {
    for round in 1..4 {
        (3000..4500).for_each(|key| rig.set(key, round, 100));
        delete_all(rig, 3000..4500);
    }
}

/// What an opening with `Process` has left may be only in the drive's cache.
#[test]
fn a_cache_for_the_process_goes_on_for_power() {
    for seed in 0..8 {
        let drive = drive(&plan(seed));
        let process = Config { crash_safety: CrashSafety::Process, ..safe() };
        let rig = Rig::open(process.clone(), &drive);
        set_all(&rig, 1, 0..300);
        flush(&rig);
        (0..300).filter(|key| key % 3 == 0).for_each(|key| assert!(rig.delete(key)));
        drop(rig);
        // The process dies, the drive keeps its power.
        let rig = reopened(safe(), &drive);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Crashed { .. })));
        drop(rig);
        lose_power(&drive);
        let rig = reopened(safe(), &drive);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Crashed { .. })));
        for key in 0..300 {
            let version = (key % 3 != 0).then_some(1);
            assert_eq!(rig.get(key), version, "key {key}, seed {seed}");
        }
        drop(rig);
        let rig = reopened(process.clone(), &drive);
        assert_eq!(rig.get(1), Some(1));
        drop(rig);
        lose_power(&drive);
        let rig = Rig::open(process, &drive);
        let recovery = rig.cache.recovery();
        assert!(matches!(recovery, Some(Recovery::Discarded { .. })), "{recovery:?}");
    }
}

/// A label that promises more than the previous one may reach flash before or after what it promises.
#[test]
fn an_opening_that_is_cut_off_promises_no_more_than_is_there() {
    let mut discarded = 0;
    for seed in 0..30 {
        for write in 0..2 {
            let drive = drive(&plan(seed));
            let process = Config { crash_safety: CrashSafety::Process, ..safe() };
            let rig = Rig::open(process, &drive);
            set_all(&rig, 1, 0..60);
            flush(&rig);
            (0..60).for_each(|key| assert!(rig.delete(key)));
            drop(rig);
            let crash = FaultRule::new(Fault::Crash).on_writes().at_match(write);
            drive.set_plan(&plan(seed).with(crash));
            assert!(Rig::try_open(safe(), &drive).is_err());
            drive.restart().unwrap();
            drive.set_plan(&plan(seed));
            let rig = reopened(safe(), &drive);
            discarded +=
                u64::from(matches!(rig.cache.recovery(), Some(Recovery::Discarded { .. })));
            (0..60).for_each(|key| assert_eq!(rig.get(key), None, "key {key}, seed {seed}"));
        }
    }
    assert!((1..60).contains(&discarded), "{discarded} of 60");
}

#[test]
fn a_drive_without_a_volatile_cache_is_not_asked_to_flush() {
    let asked = |has_cache: bool| {
        // Flushes fail, so a flush request shows as an error.
        let rule = FaultRule::new(Fault::Error).on_flushes();
        let plan = plan(1).volatile_cache(has_cache);
        let drive = drive(&plan);
        let rig = Rig::open(safe(), &drive);
        set_all(&rig, 1, 0..100);
        drive.set_plan(&plan.with(rule));
        let flushed = block_on(rig.cache.flush());
        drive.set_plan(&FaultPlan::new(1));
        drop(rig);
        lose_power(&drive);
        let rig = reopened(safe(), &drive);
        (flushed.is_err(), (0..100).filter(|key| rig.get(*key) == Some(1)).count())
    };
    assert!(asked(true).0);
    assert_eq!(asked(false), (false, 100));
}

/// Concurrent writes share one durable write or flush; operations that do not concern flash wait for none.
#[test]
fn durable_writes_are_few() {
    let drive = drive(&plan(1));
    let rig = Rig::open(safe(), &drive);
    set_all(&rig, 1, 0..100);
    flush(&rig);
    let region_begun = 4096;
    let durable = drive.stats().durable_written_bytes;
    assert_eq!(durable, region_begun, "buckets are made durable by flushes");
    let stats = rig.cache.stats();
    assert!((1..=stats.soc_bucket_writes).contains(&stats.soc_flushes), "{stats:?}");
    for key in 0..10 {
        assert!(rig.delete(key));
    }
    assert_eq!(drive.stats().durable_written_bytes - durable, 10 * 4096, "a block each");
    assert_eq!(rig.cache.stats().soc_flushes, stats.soc_flushes, "and no more");
}

/// A bucket that is written but not flushed is not there yet: its sender gets an error if the flush fails.
#[test]
fn a_bucket_whose_flush_fails_is_lost() {
    let drive = drive(&plan(1));
    let rig = Rig::open(safe(), &drive);
    rig.set(1, 1, 100);
    drive.set_plan(&plan(1).with(FaultRule::new(Fault::Error).on_flushes().at_most(1)));
    let flushed = block_on(rig.cache.flush()).unwrap();
    assert_eq!((flushed.objects, flushed.lost), (0, 1));
    assert_eq!(rig.cache.stats().soc_retired_buckets, 1);
    assert_eq!(rig.get(1), Some(1), "from DRAM");
}

/// The label of a clean shutdown may be on flash as soon as its write starts. What it vouches for must be there before.
#[test]
fn a_close_that_is_cut_off_keeps_what_was_flushed() {
    let mut cut_off = 0;
    for seed in 0..24 {
        for request in 0..16 {
            let drive = drive(&plan(seed));
            let rig = Rig::open(safe(), &drive);
            set_all(&rig, 1, 0..60);
            flush(&rig);
            set_all(&rig, 2, 100..110);
            let crash = FaultRule::new(Fault::Crash).on_writes().on_flushes().at_match(request);
            drive.set_plan(&plan(seed).with(crash));
            let closed = block_on(rig.cache.close()).is_ok();
            drop(rig);
            drive.set_plan(&plan(seed));
            if closed {
                break;
            }
            cut_off += 1;
            drive.restart().unwrap();
            let rig = reopened(safe(), &drive);
            let recovery = rig.cache.recovery();
            assert!(
                matches!(recovery, Some(Recovery::Crashed { .. } | Recovery::Clean { .. })),
                "{recovery:?}, seed {seed}, cut off in request {request}"
            );
            (0..60).for_each(|key| assert_eq!(rig.get(key), Some(1), "key {key}, seed {seed}"));
        }
    }
    assert!(cut_off > 100, "{cut_off}");
}
