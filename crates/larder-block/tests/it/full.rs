//! A stream of writes to a cache full of dirty lines, in virtual time: the core remains available to it.

use std::time::Duration;

use larder_block::accounting::timed::{Bare, ProcessorCost, TimedLayout, TimedRun};
use larder_block::cache::{self, Cache, CacheOptions, CacheShape, Mode};
use larder_block::layout::log::{Geometry, LogLayout, LogOptions};
use larder_block::layout::{Data, LayoutRequest, Span};
use larder_device::model::virtual_time::{Shape, ShapedStorage, shapes};

use super::rig::{IDENTITY, core, device};

const CACHE_BYTES: u64 = 32 << 20;
const CORE_BYTES: u64 = 1 << 40;
const WRITE: usize = 128 << 10;

fn storage(shape: Shape, bytes: u64) -> ShapedStorage {
    ShapedStorage::new(shape, bytes).unwrap()
}

/// A write-back cache on an NVMe drive in front of `shape`, with segments of a MiB.
fn cache(shape: Shape, options: CacheOptions) -> TimedLayout<Cache> {
    let info = device(CACHE_BYTES, 512);
    let log = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let geometry = Geometry::new(&info, 0, &log).unwrap();
    let layout = LogLayout::new(geometry, IDENTITY, &info, &log);
    let capacity_bytes = geometry.capacity_bytes();
    let options = CacheOptions { mode: Mode::WriteBack, ..options };
    let shape_of = CacheShape { capacity_bytes, line_bytes: 4096 };
    let cache = Cache::new(Box::new(layout), shape_of, options).unwrap();
    let devices = (storage(shapes::NVME_TLC, CACHE_BYTES), storage(shape, CORE_BYTES));
    TimedLayout::new(cache, devices.0, devices.1, ProcessorCost::default())
}

fn write(first: u64, bytes: usize) -> cache::Request {
    let span = Span { core: core(0), first, sectors: u32::try_from(bytes / 512).unwrap() };
    cache::Request::Write { span, data: Data::copy_of(&vec![0; bytes]), durable: false }
}

/// Writes lines in random order over a file as large as the cache.
fn fill(run: &mut TimedLayout<Cache>, seed: u64) {
    let mut lines: Vec<u64> = (0..CACHE_BYTES / 4096).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut lines);
    run.run(32, lines.into_iter().map(|line| write(line * 8, 4096)));
    assert!(run.layout().usage().dirty_sectors * 512 > CACHE_BYTES / 2);
}

/// A stream of four times the size of the cache.
fn stream() -> impl Iterator<Item = u64> {
    let first = (1 << 38) / 512;
    (0..4 * CACHE_BYTES / WRITE as u64).map(move |number| first + number * (WRITE as u64 / 512))
}

fn alone(shape: Shape) -> TimedRun {
    let mut bare = TimedLayout::new(
        Bare::new(false),
        storage(shapes::NVME_TLC, CACHE_BYTES),
        storage(shape, CORE_BYTES),
        ProcessorCost::default(),
    );
    let data = Data::copy_of(&[0; WRITE]);
    let span = |first| Span { core: core(0), first, sectors: u32::try_from(WRITE / 512).unwrap() };
    bare.run(
        32,
        stream().map(|first| LayoutRequest::Write { span: span(first), data: data.clone() }),
    )
}

/// The log alone, full of scattered dirty lines, while a segment drains.
fn log(shape: Shape) -> TimedLayout<LogLayout> {
    let info = device(CACHE_BYTES, 512);
    let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let geometry = Geometry::new(&info, 0, &options).unwrap();
    let layout = LogLayout::new(geometry, IDENTITY, &info, &options);
    let devices = (storage(shapes::NVME_TLC, CACHE_BYTES), storage(shape, CORE_BYTES));
    let mut run = TimedLayout::new(layout, devices.0, devices.1, ProcessorCost::default());
    let mut lines: Vec<u64> = (0..CACHE_BYTES / 4096).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut lines);
    let data = Data::copy_of(&[0; 4096]);
    run.run(
        32,
        lines
            .into_iter()
            .map(|line| LayoutRequest::Write { span: line_at(line), data: data.clone() }),
    );
    run
}

fn line_at(line: u64) -> Span {
    Span { core: core(0), first: line * 8, sectors: 8 }
}

#[test]
fn what_is_written_around_does_not_wait_for_the_segment_that_holds_it() {
    let mut run = log(shapes::HDD);
    let data = Data::copy_of(&[0; 4096]);
    let around = |span| LayoutRequest::Bypass { span, data: data.clone(), durable: false };
    // Among a stream: one write in eight hits a dirty line, in any segment.
    let requests = (0..800).map(|number| match number % 8 {
        0 => around(line_at(number / 8 * 80)),
        _ => around(line_at((1 << 26) + number)),
    });
    let ours = run.run(8, requests);
    // Draining a segment takes more than a second.
    assert!(ours.latency(100.0) < Duration::from_millis(500), "{:?}", ours.latency(100.0));
}

#[test]
fn a_stream_has_most_of_the_core_while_scattered_lines_drain() {
    for shape in [shapes::HDD, shapes::SATA_SSD] {
        for seed in 0..2 {
            let mut run = cache(shape, CacheOptions::default());
            fill(&mut run, seed);
            let ours = run.run(32, stream().map(|first| write(first, WRITE)));
            let part = ours.bytes_per_second() / alone(shape).bytes_per_second();
            assert!(part >= 0.75, "{}, seed {seed}: {part:.3} of the core's bandwidth", shape.name);
        }
    }
}
