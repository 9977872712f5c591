//! What a restart brings back: after a clean shutdown everything on flash; after a crash what had reached flash, or
//! nothing, as configured; and never anything wrong.

use std::sync::Arc;

use larder::{
    Config, CrashSafety, ErrorKind, Larder, OnChange, RealClock, Recovery, SocConfig, block_on,
};
use larder_device::label;
use larder_device::{
    Device, Fault, FaultDevice, FaultPlan, FaultRule, FileDevice, FileOptions, Io, IoBuffer,
    PlacementHandle,
};

use crate::rig::{Rig, config, drive, drive_of, logged};

/// Writes what [`expected`] tells.
pub(crate) fn fill(rig: &Rig) {
    (0..400).for_each(|key| rig.set(key, 1, 100));
    (400..440).for_each(|key| rig.set(key, 1, 20_000));
    // Newer versions, other engines, and deletions: none of the first versions may return.
    (0..50).for_each(|key| rig.set(key, 2, 150));
    (50..60).for_each(|key| rig.set(key, 2, 5_000));
    (400..405).for_each(|key| rig.set(key, 2, 50));
    (60..80).chain(410..415).for_each(|key| assert!(rig.delete(key)));
}

/// The version of each key below 440 after [`fill`].
pub(crate) fn expected(key: u32) -> Option<u32> {
    match key {
        0..60 | 400..405 => Some(2),
        60..80 | 410..415 => None,
        _ => Some(1),
    }
}

#[test]
fn a_clean_shutdown_keeps_everything() {
    [config(), logged()].into_iter().for_each(a_clean_shutdown_keeps_everything_with);
}

fn a_clean_shutdown_keeps_everything_with(config: Config) {
    let drive = drive();
    let rig = Rig::open(config.clone(), &drive);
    assert_eq!(rig.cache.recovery(), Some(Recovery::Fresh));
    fill(&rig);
    block_on(rig.cache.close()).unwrap();
    for round in 0..3 {
        let rig = Rig::open(config.clone(), &drive);
        let Some(Recovery::Clean { large_objects }) = rig.cache.recovery() else {
            panic!("{:?}", rig.cache.recovery())
        };
        // Small objects that DRAM held are among them.
        let large = 40 - 5 - 5 + 10;
        assert!((large..large + 200).contains(&large_objects), "{large_objects}, round {round}");
        (0..440).for_each(|key| assert_eq!(rig.get(key), expected(key), "key {key} round {round}"));
        block_on(rig.cache.close()).unwrap();
    }
}

#[test]
fn without_crash_safety_a_crash_empties_the_cache() {
    [config(), logged()].into_iter().for_each(a_crash_empties_the_cache_with);
}

fn a_crash_empties_the_cache_with(config: Config) {
    let config = Config { crash_safety: CrashSafety::Off, ..config };
    let drive = drive();
    let rig = Rig::open(config.clone(), &drive);
    fill(&rig);
    assert_eq!(rig.cache.stats().crash_safe, 0);
    drop(rig);
    let rig = Rig::open(config.clone(), &drive);
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Discarded { .. })));
    (0..440).for_each(|key| assert_eq!(rig.get(key), None));
    // What is written now lies between buckets and regions of the old epoch.
    (0..100).for_each(|key| rig.set(key, 9, 300));
    (0..440).for_each(|key| assert!(matches!(rig.get(key), None | Some(9)), "key {key}"));
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(config.clone(), &drive);
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
    (0..440).for_each(|key| assert!(matches!(rig.get(key), None | Some(9)), "key {key}"));
}

#[test]
fn without_crash_safety_a_crash_after_a_clean_restart_empties_the_cache_too() {
    [config(), logged()]
        .into_iter()
        .for_each(a_crash_after_a_clean_restart_empties_the_cache_too_with);
}

fn a_crash_after_a_clean_restart_empties_the_cache_too_with(config: Config) {
    let config = Config { crash_safety: CrashSafety::Off, ..config };
    let drive = drive();
    let rig = Rig::open(config.clone(), &drive);
    fill(&rig);
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(config.clone(), &drive);
    rig.set(0, 3, 100);
    drop(rig);
    let rig = Rig::open(config.clone(), &drive);
    (0..440).for_each(|key| assert_eq!(rig.get(key), None));
}

#[test]
fn another_configuration_costs_nothing_unasked() {
    [config(), logged()].into_iter().for_each(another_configuration_costs_nothing_unasked_with);
}

fn another_configuration_costs_nothing_unasked_with(config: Config) {
    let drive = drive();
    let rig = Rig::open(config.clone(), &drive);
    fill(&rig);
    block_on(rig.cache.close()).unwrap();
    let other =
        Config { soc: SocConfig { percent: Some(30.0), ..config.clone().soc }, ..config.clone() };
    let written = drive.stats().host_written_bytes;
    let error = Rig::try_open(other.clone(), &drive).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
    let said = "soc.percent = 30 (it was made with 25): that would empty the cache on model";
    assert!(error.to_string().contains(said), "{error}");
    assert_eq!(drive.stats().host_written_bytes, written);
    let rig = Rig::open(config, &drive);
    (0..440).for_each(|key| assert_eq!(rig.get(key), expected(key), "key {key}"));
    // After a crash as after a clean shutdown.
    drop(rig);
    assert!(Rig::try_open(other.clone(), &drive).is_err());
    let rig = Rig::open(Config { on_change: OnChange::Discard, ..other }, &drive);
    let Some(Recovery::Discarded { reason }) = rig.cache.recovery() else { panic!() };
    assert!(reason.contains("differently than before: soc.percent = 30 (it was made"), "{reason}");
    (0..440).for_each(|key| assert_eq!(rig.get(key), None));
}

/// If nothing could be recovered anyway, changed settings are accepted.
#[test]
fn a_cache_of_which_nothing_is_left_does_not_hold_to_its_settings() {
    let drive = drive();
    let config = Config { crash_safety: CrashSafety::Off, ..config() };
    let rig = Rig::open(config.clone(), &drive);
    fill(&rig);
    drop(rig);
    let rig = Rig::open(
        Config { soc: SocConfig { percent: Some(30.0), ..config.soc }, ..config },
        &drive,
    );
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Discarded { .. })));
    (0..440).for_each(|key| assert_eq!(rig.get(key), None));
}

#[test]
fn a_device_that_has_grown_keeps_its_cache() {
    let directory = tempfile::tempdir().unwrap();
    let file = |mebibytes: u64| {
        let path = directory.path().join("cache");
        Arc::new(FileDevice::create(path, mebibytes << 20).unwrap())
    };
    let rig = Rig::open(config(), &file(8));
    fill(&rig);
    assert_eq!(rig.cache.unused_bytes(), 0);
    let layout = *rig.cache.layout().unwrap();
    block_on(rig.cache.close()).unwrap();
    drop(rig); // a file is locked as long as it is open
    // Twice: what was taken over is recorded unchanged.
    for mebibytes in [11, 16] {
        let rig = Rig::open(config(), &file(mebibytes));
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
        (0..440).for_each(|key| assert_eq!(rig.get(key), expected(key), "key {key}"));
        assert_eq!(rig.cache.layout(), Some(&layout));
        assert_eq!(rig.cache.unused_bytes(), (mebibytes - 8) << 20);
        block_on(rig.cache.close()).unwrap();
    }
    let cut = FileOptions { capacity_bytes: Some(7 << 20), ..FileOptions::default() };
    let cut = FileDevice::open(directory.path().join("cache"), &cut).unwrap();
    let error = Rig::try_open(config(), &Arc::new(cut)).err().unwrap().to_string();
    let said = "the bytes of the device = 7340032 (it was made with 8388608)";
    assert!(error.contains(said), "{error}");
    let all = Rig::open(Config { on_change: OnChange::Discard, ..config() }, &file(16));
    assert!(matches!(all.cache.recovery(), Some(Recovery::Discarded { .. })));
    assert_eq!(all.cache.unused_bytes(), 0);
}

#[test]
fn a_cache_can_be_asked_to_start_empty() {
    let drive = drive();
    let rig = Rig::open(config(), &drive);
    fill(&rig);
    block_on(rig.cache.close()).unwrap();
    let rig = Rig::open(Config { start_empty: true, ..config() }, &drive);
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Discarded { .. })));
    (0..440).for_each(|key| assert_eq!(rig.get(key), None));
}

/// Without the superblock, a new cache must not reuse numbers of the old one: a device that then loses writes would
/// return data of the old cache.
#[test]
fn a_lost_superblock_brings_nothing_back() {
    [config(), logged()].into_iter().for_each(a_lost_superblock_brings_nothing_back_with);
}

fn a_lost_superblock_brings_nothing_back_with(config: Config) {
    let device = Arc::new(FaultDevice::new(drive_of(8 << 20, true), &FaultPlan::new(1)));
    let rig = Rig::open(config.clone(), &device);
    fill(&rig);
    block_on(rig.cache.close()).unwrap();
    let handle = PlacementHandle::DEFAULT;
    let area = usize::try_from(label::AREA_BYTES).unwrap();
    device.submit(Io::write(0, IoBuffer::zeroed(area), handle)).wait().unwrap();
    let rig = Rig::open_at(config.clone(), &device, 2000);
    assert_eq!(rig.cache.recovery(), Some(Recovery::Fresh));
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::LostWrite).on_writes()));
    (0..440).for_each(|key| rig.set(key, 7, if key < 400 { 100 } else { 20_000 }));
    (0..440).for_each(|key| assert!(matches!(rig.get(key), None | Some(7)), "key {key}"));
}

#[test]
fn data_of_another_program_is_not_overwritten() {
    // File systems leave their first block alone.
    [0, 4096, 64 << 10].into_iter().for_each(refused_with_data_at);
}

fn refused_with_data_at(offset: u64) {
    let drive = drive();
    let mut buffer = IoBuffer::zeroed(4096);
    buffer.as_mut_slice()[..8].copy_from_slice(b"precious");
    let handle = PlacementHandle::DEFAULT;
    drive.submit(Io::write(offset, buffer, handle)).wait().unwrap();
    let device: Arc<dyn Device> = Arc::clone(&drive) as _;
    let error = block_on(Larder::open(config(), Some(device), Arc::new(RealClock))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Foreign);
    assert!(error.to_string().contains("erase its first 131072 bytes"), "{error}");
    assert_eq!(drive.stats().host_written_bytes, 4096);
}

#[test]
fn a_damaged_snapshot_costs_the_cache_but_nothing_else() {
    [config(), logged()]
        .into_iter()
        .for_each(a_damaged_snapshot_costs_the_cache_but_nothing_else_with);
}

fn a_damaged_snapshot_costs_the_cache_but_nothing_else_with(config: Config) {
    for damaged in [0, 16, 40].map(|at| label::AREA_BYTES + at) {
        let drive = drive();
        let rig = Rig::open(config.clone(), &drive);
        fill(&rig);
        block_on(rig.cache.close()).unwrap();
        let block = damaged / 4096 * 4096;
        let read = Io::Read { offset: block, buffer: IoBuffer::zeroed(4096) };
        let mut buffer = drive.submit(read).wait().unwrap();
        buffer.as_mut_slice()[usize::try_from(damaged - block).unwrap()] ^= 0x10;
        let handle = PlacementHandle::DEFAULT;
        drive.submit(Io::write(block, buffer, handle)).wait().unwrap();
        let rig = Rig::open(config.clone(), &drive);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Discarded { .. })));
        (0..440).for_each(|key| assert_eq!(rig.get(key), None));
    }
}

/// After an invalid snapshot, buckets of the old epochs are void, even if a device that loses writes returns them.
#[test]
fn a_discarded_cache_stays_discarded_on_a_device_that_loses_writes() {
    [config(), logged()]
        .into_iter()
        .for_each(a_discarded_cache_stays_discarded_on_a_device_that_loses_writes_with);
}

fn a_discarded_cache_stays_discarded_on_a_device_that_loses_writes_with(config: Config) {
    let device = Arc::new(FaultDevice::new(drive_of(8 << 20, true), &FaultPlan::new(1)));
    let rig = Rig::open(config.clone(), &device);
    fill(&rig);
    block_on(rig.cache.close()).unwrap();
    let handle = PlacementHandle::DEFAULT;
    let damaged = Io::write(label::AREA_BYTES, IoBuffer::zeroed(4096), handle);
    device.submit(damaged).wait().unwrap();
    let rig = Rig::open(config.clone(), &device);
    assert!(matches!(rig.cache.recovery(), Some(Recovery::Discarded { .. })));
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::LostWrite).on_writes()));
    (0..440).for_each(|key| rig.set(key, 7, if key < 400 { 100 } else { 20_000 }));
    (0..440).for_each(|key| assert!(matches!(rig.get(key), None | Some(7)), "key {key}"));
}

#[test]
fn metadata_that_cannot_be_read_is_an_error_and_costs_nothing() {
    [config(), logged()]
        .into_iter()
        .for_each(metadata_that_cannot_be_read_is_an_error_and_costs_nothing_with);
}

fn metadata_that_cannot_be_read_is_an_error_and_costs_nothing_with(config: Config) {
    let device = Arc::new(FaultDevice::new(drive_of(8 << 20, true), &FaultPlan::new(1)));
    let rig = Rig::open(config.clone(), &device);
    fill(&rig);
    block_on(rig.cache.close()).unwrap();
    for read in 0..3 {
        let rule = FaultRule::new(Fault::Error).on_reads().within(0..64 << 10).at_match(read);
        device.set_plan(&FaultPlan::new(1).with(rule));
        let shared: Arc<dyn Device> = Arc::clone(&device) as _;
        let opened = block_on(Larder::open(config.clone(), Some(shared), Arc::new(RealClock)));
        assert_eq!(opened.err().map(|error| error.kind()), Some(ErrorKind::Device), "read {read}");
    }
    device.set_plan(&FaultPlan::new(1));
    let rig = Rig::open(config.clone(), &device);
    (0..440).for_each(|key| assert_eq!(rig.get(key), expected(key), "key {key}"));
}

/// What a shutdown reports as written is there, even if the power is lost right after it.
#[test]
fn a_clean_shutdown_outlives_a_loss_of_power() {
    for seed in 0..4 {
        let device = FaultDevice::new(drive(), &FaultPlan::new(seed));
        let device = Arc::new(device);
        let rig = Rig::open(config(), &device);
        (0..300).for_each(|key| rig.set(key, 1, 100));
        (300..340).for_each(|key| rig.set(key, 1, 20_000));
        let there: Vec<u32> = (0..340).filter(|&key| rig.get(key).is_some()).collect();
        block_on(rig.cache.close()).unwrap();
        device.crash().unwrap();
        device.restart().unwrap();
        let rig = Rig::open(config(), &device);
        assert!(matches!(rig.cache.recovery(), Some(Recovery::Clean { .. })));
        let found = there.iter().filter(|&&key| rig.get(key) == Some(1)).count();
        assert!(found * 100 >= there.len() * 95, "{found} of {}", there.len());
    }
}
