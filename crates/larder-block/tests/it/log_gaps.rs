//! Damage of a log without an orderly stop: missing batches that were complete are distinguished from a torn end.

use std::collections::HashMap;

use fastrand::Rng;
use larder_block::accounting::{Image, stamps};
use larder_block::layout::log::{Geometry, LogOptions, LogRecovery, RecoveredLog};
use larder_block::layout::{CoreId, LayoutRequest, Span};
use larder_device::DeviceInfo;

use super::rig::{IDENTITY, Log, core, device, read_back, start};

const SEGMENT_BYTES: u32 = 64 << 10;
const SEGMENTS: u64 = 16;
const BLOCK_BYTES: u32 = 512;

fn options() -> LogOptions {
    LogOptions { segment_bytes: SEGMENT_BYTES, write_buffer_bytes: 0, ..LogOptions::default() }
}

/// Nothing is overwritten in place, so checksums of data stay valid.
fn info() -> DeviceInfo {
    let device = device(SEGMENTS * u64::from(SEGMENT_BYTES), BLOCK_BYTES);
    DeviceInfo { atomic_write_bytes: None, ..device }
}

fn line(number: u64) -> Span {
    Span { core: core(0), first: number * 8, sectors: 8 }
}

/// The state after a power loss.
struct Crashed {
    cache: Image,
    cores: HashMap<CoreId, Image>,
    /// The last written version of each line.
    versions: Vec<u64>,
}

/// Random writes to these lines.
fn crashed(lines: u64, writes: u64) -> Crashed {
    let mut log = Log::new(info(), options());
    let mut rng = Rng::with_seed(writes);
    let mut versions = vec![0; usize::try_from(lines).unwrap()];
    for version in 1..=writes {
        let number = rng.u64(..lines);
        versions[usize::try_from(number).unwrap()] = version;
        let span = line(number);
        log.run.run(LayoutRequest::Write { span, data: stamps(span, version) });
    }
    let (cache, cores) = log.run.lose_power(|| true);
    Crashed { cache, cores, versions }
}

fn recover(image: &Image) -> RecoveredLog {
    let geometry = Geometry::new(&info(), 0, &options()).unwrap();
    let mut recovery = LogRecovery::new(geometry, IDENTITY.uuid).verifying_dirty(true);
    while let Some(read) = recovery.next_read() {
        let (bytes, metadata) = read_back(image, BLOCK_BYTES, &read);
        recovery.completed_with(read, Some((&bytes, &metadata)));
    }
    recovery.finish(2, &info(), &options()).1
}

/// The number of lines whose content is not the last acknowledged version.
fn wrong(image: &Image, crashed: &Crashed) -> usize {
    let mut run = start(&info(), &options(), 2, image.clone());
    run = run.with_cores(crashed.cores.clone());
    let mut wrong = 0;
    for (number, version) in (0..).zip(&crashed.versions).filter(|(_, version)| **version > 0) {
        let span = line(number);
        let (_, read) = run.run(LayoutRequest::Read { span });
        wrong += usize::from(read != stamps(span, *version).bytes());
    }
    wrong
}

#[test]
fn zeros_over_headers_are_told_where_they_lose_what_was_acknowledged() {
    // First without any void data, then after the log has wrapped several times.
    for (lines, writes) in [(100, 90), (60, 900)] {
        let crashed = crashed(lines, writes);
        let image = &crashed.cache;
        assert_eq!((recover(image).missing_batches, wrong(image, &crashed)), (0, 0));
        let (mut lost, mut told, mut false_alarms) = (0, 0, 0);
        for block in 0..SEGMENTS * u64::from(SEGMENT_BYTES / BLOCK_BYTES) {
            let mut damaged = image.clone();
            let mut before = [0; BLOCK_BYTES as usize];
            image.read(block * u64::from(BLOCK_BYTES), &mut before);
            // Only headers and footers: damaged data is detected by checksums.
            if !before.starts_with(b"LB") {
                continue;
            }
            damaged.write(block * u64::from(BLOCK_BYTES), &[0; 4096]);
            let found = recover(&damaged);
            let is_told = found.missing_batches > 0 || !found.unsound.is_empty();
            let is_lost = wrong(&damaged, &crashed) > 0;
            lost += u32::from(is_lost);
            told += u32::from(is_lost && is_told);
            false_alarms += u32::from(is_told && !is_lost);
        }
        println!("{writes} writes: {lost} lost, {told} told, {false_alarms} told of what is void");
        assert!(lost > 20, "{writes}: {lost}");
        assert!(told + 2 >= lost, "{writes}: {told} of {lost}");
    }
}
