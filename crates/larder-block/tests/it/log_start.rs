//! Device time of a start after a crash, until it has read what it needs for its first answer: a terabyte of lines of
//! 4 KiB.
//!
//! A terabyte does not fit into memory. So the test times the start of smaller caches with segments of the same
//! length: each further segment takes the same time, and the two segments being filled take the same time in each
//! case.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use larder_block::layout::log::{LogOptions, LogRecovery};
use larder_device::model::virtual_time::shape::{Sourced, Transfer};
use larder_device::model::virtual_time::{Moment, Shape, ShapedStorage, TimingModel, shapes};
use larder_device::{Io, IoBuffer};

use super::crashed::{Crashed, IDENTITY, SEGMENT_BYTES};

const TERABYTE: u64 = 1_000_000_000_000;
/// Reads in flight during a start.
const DEPTH: usize = 64;

/// The least that a drive promises: 80 us and 3 GB/s, 32 requests at a time.
fn modest() -> Shape {
    let read = Transfer {
        latency_ns: Sourced::fitted(80_000, "a read of TLC flash"),
        bytes_per_s: Sourced::fitted(3_000_000_000, "four lanes of PCIe 3"),
    };
    Shape { name: "modest", channels: Sourced::fitted(32, "dies"), read, ..shapes::NVME_TLC }
}

/// Nanoseconds until everything is read, number of reads, and bytes read.
fn start(crashed: &Crashed, shape: Shape) -> [u64; 3] {
    let mut drive = ShapedStorage::new(shape, crashed.geometry.capacity_bytes()).unwrap();
    let mut recovery = LogRecovery::new(crashed.geometry, IDENTITY.uuid);
    let (mut now, mut reads, mut bytes) = (Moment::default(), 0, 0);
    let (mut under_way, mut ends) = (Vec::new(), BinaryHeap::new());
    loop {
        while ends.len() < DEPTH
            && let Some(read) = recovery.next_read()
        {
            let io = Io::Read { offset: read.offset, buffer: IoBuffer::zeroed(read.bytes) };
            ends.push(Reverse((drive.serve(now, &io).unwrap(), under_way.len())));
            under_way.push(read);
            (reads, bytes) = (reads + 1, bytes + read.bytes as u64);
        }
        let Some(Reverse((end, number))) = ends.pop() else { break };
        now = end;
        let mut content = vec![0; under_way[number].bytes];
        crashed.read(under_way[number].offset, &mut content);
        recovery.completed(under_way[number], Some(&content));
    }
    let info = Crashed::device(crashed.geometry.capacity_bytes());
    let (_, found) = recovery.finish(2, &info, &LogOptions::default());
    assert_eq!(found.failed_reads, 0);
    [now.as_nanos(), reads, bytes]
}

#[test]
fn a_terabyte_answers_within_two_seconds_of_device_time() {
    let sizes = [8, 16];
    let full = sizes.map(|segments| Crashed::new(segments, true));
    let almost = Crashed::new(sizes[0], false);
    for shape in [modest(), shapes::NVME_TLC] {
        let [small, large] = full.each_ref().map(|cache| start(cache, shape));
        let open = start(&almost, shape);
        let more = TERABYTE / u64::from(SEGMENT_BYTES) - sizes[0];
        let [nanoseconds, reads, bytes] =
            [0, 1, 2].map(|of| open[of] + more * (large[of] - small[of]) / (sizes[1] - sizes[0]));
        let s = nanoseconds as f64 / 1e9;
        println!(
            "{}: {s:.2} s, {reads} reads, {} MB; {sizes:?} segments: {} and {} us; {} us while one is almost full",
            shape.name,
            bytes / 1_000_000,
            small[0] / 1000,
            large[0] / 1000,
            open[0] / 1000
        );
        assert!(s <= 2.0, "{}: {s} s", shape.name);
        // Each segment has a header and a footer to read.
        assert!(reads >= 2 * more && bytes > TERABYTE / 4608 * 16, "{reads} reads, {bytes} bytes");
    }
}
