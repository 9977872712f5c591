//! Clocks that are set back, and expired values that must not come back with them.

use std::sync::Arc;
use std::time::Duration;

use larder::{AdmissionPolicy, Config, CrashSafety};
use larder_device::label;
use larder_device::{Device, Io, IoBuffer, ModelDevice, PlacementHandle};

use crate::rig::{Rig, config, drive, drive_of, key_of, logged};

const MINUTE: Duration = Duration::from_secs(60);

/// Values that live for a minute reach flash, expire, are requested and deleted.
fn expired_and_deleted(rig: &Rig, keys: u32, bytes: usize) {
    (0..keys).for_each(|key| rig.set_for(key, 1, bytes, MINUTE));
    // Push them out of DRAM.
    (1000..1300).for_each(|key| rig.set(key, 1, 200));
    rig.clock.advance_to(Duration::from_secs(1070));
    (0..keys).for_each(|key| assert_eq!(rig.get(key), None));
    (0..keys).for_each(|key| {
        rig.delete(key);
    });
}

#[test]
fn a_clock_that_is_set_back_revives_nothing() {
    for (config, bytes) in [(config(), 100), (config(), 5_000), (logged(), 100)] {
        let drive = drive();
        let rig = Rig::open(config, &drive);
        expired_and_deleted(&rig, 200, bytes);
        rig.clock.set(Duration::from_secs(980));
        let revived = (0..200).filter(|&key| rig.get(key).is_some()).count();
        assert_eq!(revived, 0, "of 200 values of {bytes} bytes");
        // Time continues: what is set now expires a minute later.
        rig.set_for(2000, 1, 100, MINUTE);
        rig.clock.set(Duration::from_secs(1035));
        assert_eq!(rig.get(2000), Some(1));
        rig.clock.set(Duration::from_secs(1045));
        assert_eq!(rig.get(2000), None, "a minute is over by any clock");
    }
}

#[test]
fn nor_does_it_over_a_crash_or_a_clean_restart() {
    for (bytes, crash) in [(100, true), (100, false), (5_000, true), (5_000, false)] {
        let drive = drive();
        let rig = Rig::open(config(), &drive);
        expired_and_deleted(&rig, 120, bytes);
        if crash {
            drop(rig);
        } else {
            larder::block_on(rig.cache.close()).unwrap();
        }
        let rig = Rig::open_at(config(), &drive, 980);
        larder::block_on(rig.cache.rebuild());
        let revived = (0..120).filter(|&key| rig.get(key).is_some()).count();
        assert_eq!(revived, 0, "of 120 values of {bytes} bytes; crash: {crash}");
    }
}

/// On flash, lifetimes are rounded up to seconds. A value that has expired before it would go there is expired after a
/// restart as well.
#[test]
fn what_is_over_does_not_come_back_with_a_restart_in_the_same_second() {
    let (now, later) = (Duration::from_millis(1_000_300), Duration::from_millis(1_000_310));
    for bytes in [100, 5_000] {
        let drive = drive();
        let rig = Rig::open(config(), &drive);
        rig.clock.advance_to(now);
        (0..6).for_each(|key| rig.set(key, 1, bytes));
        let _all = larder::block_on(rig.cache.flush()).unwrap();
        rig.set_for(0, 2, bytes, Duration::ZERO);
        assert!(larder::block_on(rig.cache.touch(&key_of(1), Some(Duration::ZERO))).unwrap());
        rig.clock.advance_to(later);
        assert!((0..2).all(|key| rig.get(key).is_none()));
        larder::block_on(rig.cache.close()).unwrap();
        let rig = Rig::open_at(config(), &drive, 1000);
        larder::block_on(rig.cache.rebuild());
        let found: Vec<u32> = (0..6).filter(|&key| rig.get(key).is_some()).collect();
        assert_eq!(found, [2, 3, 4, 5], "of values of {bytes} bytes");
    }
}

/// A wall clock that briefly says the year 2150 costs no value and no lifetime, neither then nor after a restart.
#[test]
fn a_year_that_cannot_be_leaves_lifetimes_as_they_are() {
    let drive = drive();
    let rig = Rig::open_at(config(), &drive, 1_800_000_000);
    rig.set_for(1, 1, 100, MINUTE);
    rig.clock.set(Duration::from_secs(5_680_000_000));
    assert_eq!(rig.get(1), Some(1));
    rig.set_for(2, 1, 100, MINUTE);
    rig.clock.set(Duration::from_secs(1_800_000_001));
    rig.set_for(3, 1, 100, MINUTE);
    assert!((1..4).all(|key| rig.get(key) == Some(1)));
    larder::block_on(rig.cache.close()).unwrap();
    let rig = Rig::open_at(config(), &drive, 1_800_000_002);
    larder::block_on(rig.cache.rebuild());
    rig.set_for(4, 1, 100, MINUTE);
    assert!((1..5).all(|key| rig.get(key) == Some(1)));
    rig.clock.set(Duration::from_secs(1_800_000_070));
    assert!((1..5).all(|key| rig.get(key).is_none()));
}

/// Without crash safety, only a clean shutdown passes anything on.
#[test]
fn nor_without_crash_safety() {
    let config = Config { crash_safety: CrashSafety::Off, ..config() };
    let drive = drive();
    let rig = Rig::open(config.clone(), &drive);
    expired_and_deleted(&rig, 120, 100);
    larder::block_on(rig.cache.close()).unwrap();
    let rig = Rig::open_at(config, &drive, 980);
    assert!((0..120).all(|key| rig.get(key).is_none()));
}

/// The write budget continues to accrue while the wall clock is behind.
#[test]
fn a_budget_does_not_starve_behind_a_step_back() {
    let day = 86_400_u64;
    let budget = AdmissionPolicy::Budget { bytes_per_day: 64 << 20 };
    let config = Config { admission: budget, ..config() };
    let written = |step_back: bool| {
        let rig = Rig::open(config.clone(), &drive_of(8 << 20, true));
        for hour in 0..48_u64 {
            let back = if step_back && hour >= 12 { day / 2 } else { 0 };
            for part in 0..60_u64 {
                let now = day + hour * 3600 + part * 60;
                rig.clock.set(Duration::from_secs(now - back));
                let key = u32::try_from(hour * 60 + part).unwrap();
                (0..12).for_each(|n| rig.set(key * 12 + n, 1, 6_000));
            }
        }
        rig.cache.stats().flash_written_bytes()
    };
    let (steady, stepped) = (written(false), written(true));
    assert!(stepped * 10 > steady * 9, "{stepped} bytes behind the step, {steady} without");
}

/// The first block is damaged, and the clock is set back: nothing of the previous cache is valid, not even after a
/// crash, when buckets are judged only by their own content.
#[test]
fn a_lost_superblock_and_a_clock_behind_revive_nothing() {
    for behind in [0, 500] {
        let drive: Arc<ModelDevice> = drive();
        let rig = Rig::open(config(), &drive);
        (0..50).for_each(|key| rig.set(key, 1, 100));
        (50..80).for_each(|key| rig.set(key, 1, 5_000));
        (1000..1300).for_each(|key| rig.set(key, 1, 200));
        drop(rig);
        for offset in label::COPIES {
            let read = Io::Read { offset, buffer: IoBuffer::zeroed(4096) };
            let mut buffer = drive.submit(read).wait().unwrap();
            buffer.as_mut_slice()[20] ^= 1;
            let handle = PlacementHandle::DEFAULT;
            drive.submit(Io::write(offset, buffer, handle)).wait().unwrap();
        }
        let rig = Rig::open_at(config(), &drive, 1000 - behind);
        assert!((0..80).all(|key| rig.get(key).is_none()), "it starts empty");
        drop(rig);
        let rig = Rig::open_at(config(), &drive, 1000 - behind);
        larder::block_on(rig.cache.rebuild());
        let revived = (0..80).filter(|&key| rig.get(key).is_some()).count();
        assert_eq!(revived, 0, "of 80 void values, {behind} s behind");
    }
}
