//! Layouts and caches on devices with modelled timing.

use std::time::Duration;

use larder_block::accounting::timed::{Bare, IoCost, ProcessorCost, TimedLayout};
use larder_block::cache::{self, Cache, CacheOptions, CacheShape, Mode};
use larder_block::layout::log::{Geometry, LogLayout, LogOptions};
use larder_block::layout::{Data, LayoutRequest, Span};
use larder_block::policy::{CutOffPolicy, ReadAheadOptions, ReadAheadPolicy};
use larder_device::model::virtual_time::{Shape, ShapedStorage, shapes};

use super::rig::{IDENTITY, core, device};

const CACHE_BYTES: u64 = 16 << 20;
const CORE_BYTES: u64 = 1 << 30;
const LINE: usize = 4096;

fn storage(shape: Shape, bytes: u64) -> ShapedStorage {
    ShapedStorage::new(shape, bytes).unwrap()
}

fn lines(numbers: std::ops::Range<u64>) -> impl Iterator<Item = Span> {
    numbers.map(|number| Span { core: core(0), first: number * 8, sectors: 8 })
}

fn writes(numbers: std::ops::Range<u64>) -> impl Iterator<Item = LayoutRequest> {
    let data = Data::copy_of(&[0; LINE]);
    lines(numbers).map(move |span| LayoutRequest::Write { span, data: data.clone() })
}

fn bare(shape: Shape, processor: ProcessorCost) -> TimedLayout<Bare> {
    let cache = storage(shapes::PERSISTENT_MEMORY, CACHE_BYTES);
    TimedLayout::new(Bare::new(false), cache, storage(shape, CORE_BYTES), processor)
}

/// The time that a write of a line takes on this device alone.
fn write_ns(shape: Shape) -> u64 {
    let moving = (LINE as u64 * 1_000_000_000).div_ceil(shape.write.bytes_per_s.value);
    shape.write.latency_ns.value + moving
}

#[test]
fn one_at_a_time_takes_what_its_parts_take() {
    let cost = ProcessorCost {
        request_ns: 700,
        core: IoCost { io_ns: 300, is_held: false },
        ..ProcessorCost::default()
    };
    for (processor, more_ns) in [(ProcessorCost::default(), 0), (cost, 1000)] {
        let run = bare(shapes::NVME_TLC, processor).run(1, writes(0..100));
        let each = write_ns(shapes::NVME_TLC) + more_ns;
        assert_eq!(run.elapsed, Duration::from_nanos(100 * each));
        assert_eq!(run.mean_latency(), Duration::from_nanos(each));
        assert_eq!(run.latency(99.0), Duration::from_nanos(each));
        assert_eq!((run.requests, run.bytes), (100, 100 * LINE as u64));
        let busy = more_ns as f64 / each as f64;
        assert!((run.processor_busy - busy).abs() < 1e-9, "{}", run.processor_busy);
    }
}

/// A log on an NVMe drive before a core of this shape.
fn cached(core_shape: Shape, options: CacheOptions) -> TimedLayout<Cache> {
    let info = device(CACHE_BYTES, 512);
    let log = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let layout = LogLayout::new(Geometry::new(&info, 0, &log).unwrap(), IDENTITY, &info, &log);
    let shape = CacheShape { capacity_bytes: CACHE_BYTES, line_bytes: 4096 };
    let mut cache = Cache::new(Box::new(layout), shape, options).unwrap();
    cache.set_core_bytes(core(0), CORE_BYTES);
    let cache_device = storage(shapes::NVME_TLC, CACHE_BYTES);
    TimedLayout::new(cache, cache_device, storage(core_shape, CORE_BYTES), ProcessorCost::default())
}

/// The gain of read-ahead for streams of reads of 16 KiB with one read in flight each: MB/s without and with it.
#[test]
fn streams_are_faster_when_they_are_read_ahead() {
    let per_second = |core_shape: Shape, streams: u64, read_ahead| {
        let options =
            CacheOptions { read_ahead, cut_off: CutOffPolicy::Never, ..CacheOptions::default() };
        let mut timed = cached(core_shape, options);
        // 8 MiB in total; the streams are 64 MiB apart.
        let reads = (0..512).map(|number| {
            let first = number % streams * (64 << 11) + number / streams * 32;
            cache::Request::Read { span: Span { core: core(0), first, sectors: 32 } }
        });
        timed.run(1, reads).bytes_per_second() / 1e6
    };
    println!(
        "{:28}{:>10}{:>12}{:>12}{:>8}{:>16}",
        "core", "streams", "off", "on", "gain", "window=1M"
    );
    for (core_shape, streams, at_least) in [
        (shapes::HDD, 1, 1.2),
        (shapes::HDD, 4, 4.0),
        (shapes::SATA_SSD, 1, 1.1),
        (shapes::SATA_SSD, 4, 1.1),
    ] {
        let usual = ReadAheadOptions::default();
        let wide = ReadAheadOptions { window_bytes: 1 << 20, ..usual };
        let [off, on, wide] =
            [ReadAheadPolicy::Off, ReadAheadPolicy::On(usual), ReadAheadPolicy::On(wide)]
                .map(|it| per_second(core_shape, streams, it));
        let name = core_shape.name;
        println!("{name:28}{streams:>10}{off:>12.1}{on:>12.1}{:>8.2}{wide:>16.1}", on / off);
        assert!(on / off >= at_least, "{name}, {streams} streams: {off} and {on} MB/s");
    }
}

#[test]
fn a_processor_that_moves_bytes_does_nothing_else() {
    let time = |is_held, depth| {
        let core = IoCost { io_ns: 100, is_held };
        let cost = ProcessorCost { core, ..ProcessorCost::default() };
        bare(shapes::OPTANE_SSD, cost).run(depth, writes(0..120)).elapsed
    };
    let alone = Duration::from_nanos(120 * (write_ns(shapes::OPTANE_SSD) + 100));
    assert_eq!([time(true, 1), time(true, 6), time(false, 1)], [alone; 3]);
    assert!(time(false, 6) < alone / 3, "{:?}", time(false, 6));
}

#[test]
fn a_cache_is_as_fast_as_the_device_that_it_needs() {
    let options = CacheOptions { mode: Mode::WriteBack, ..CacheOptions::default() };
    let mut timed = cached(shapes::HDD, options);
    let reads = |numbers| lines(numbers).map(|span| cache::Request::Read { span });
    let missed = timed.run(1, reads(0..100).step_by(2));
    assert!(missed.latency(50.0) >= Duration::from_nanos(shapes::HDD.read.latency_ns.value));
    timed.settle();
    let hit = timed.run(1, reads(0..100).step_by(2));
    let nvme_ns = shapes::NVME_TLC.read.latency_ns.value;
    let range = Duration::from_nanos(nvme_ns)..Duration::from_nanos(nvme_ns + 1000);
    assert!(range.contains(&hit.latency(100.0)), "{:?}", hit.latency(100.0));
    assert_eq!(hit.counts.core_read_bytes, 0);
    // Four at a time, for half of the time that this takes, and then to the end.
    let mut rest = reads(0..100).step_by(2);
    let first = timed.run_for(hit.elapsed / 8, 4, rest.by_ref());
    assert!(first.elapsed >= hit.elapsed / 8 && (1..49).contains(&first.requests), "{first:?}");
    let last = timed.run(4, rest);
    assert_eq!(first.requests + last.requests, 50);
}
