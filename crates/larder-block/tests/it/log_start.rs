//! How long devices take until a start after a crash has read what it needs for its first answer: a terabyte of lines
//! of 4 KiB.
//!
//! So much does not fit into memory. What is timed is the start of smaller caches with segments of the same length: it
//! takes the same for each segment more, and the two that were being filled take the same each time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use larder_block::layout::log::{Geometry, LogLayout, LogOptions, LogRecovery};
use larder_block::layout::{Data, DeviceIo, Request, Span, Target};
use larder_device::model::virtual_time::shape::{Sourced, Transfer};
use larder_device::model::virtual_time::{Moment, Shape, ShapedStorage, TimingModel, shapes};
use larder_device::{Io, IoBuffer};

use super::blind::{BYTE, Blind};
use super::rig::{IDENTITY, core, device};

const SEGMENT_BYTES: u32 = 16 << 20;
const TERABYTE: u64 = 1_000_000_000_000;
/// Whoever starts has so many reads under way.
const DEPTH: usize = 64;

/// What a drive promises at the least: 80 us and 3 GB/s, 32 requests at a time.
fn modest() -> Shape {
    let read = Transfer {
        latency_ns: Sourced::fitted(80_000, "a read of TLC flash"),
        bytes_per_s: Sourced::fitted(3_000_000_000, "four lanes of PCIe 3"),
    };
    Shape { name: "modest", channels: Sourced::fitted(32, "dies"), read, ..shapes::NVME_TLC }
}

/// Headers and footers of a cache that was filled and is in use; all else there is `BYTE`.
struct Crashed {
    geometry: Geometry,
    metadata: BTreeMap<u64, Data>,
    /// Where the last batch was written, and whether it was the last of its segment.
    last: (u64, bool),
}

impl Crashed {
    /// After writes of lines, 32 at a time, of a core that is larger by half; then of more of them, until the open
    /// segment is full, or almost.
    fn new(segments: u64, is_full: bool) -> Self {
        let bytes = segments * u64::from(SEGMENT_BYTES);
        let options = LogOptions { write_buffer_bytes: 0, ..LogOptions::default() };
        let info = device(bytes, 512);
        let geometry = Geometry::new(&info, 0, &options).unwrap();
        let mut crashed = Self { geometry, metadata: BTreeMap::new(), last: (0, false) };
        let mut blind = Blind::new(LogLayout::new(geometry, IDENTITY, &info, &options));
        let data = Data::copy_of(&[BYTE; 4096]);
        let write = |line| {
            let span = Span { core: core(0), first: line * 8, sectors: 8 };
            Request::Write { span, data: data.clone() }
        };
        let mut first = 0;
        while first < bytes / 4096 * 3 / 2 || !crashed.is_there(is_full) {
            blind.run((first..first + 32).map(write), |io| crashed.write(io));
            first += 32;
            assert!(first < bytes / 4096 * 2, "no segment ends with a footer");
        }
        crashed
    }

    fn is_there(&self, is_full: bool) -> bool {
        let (offset, has_ended) = self.last;
        has_ended == is_full && offset % u64::from(SEGMENT_BYTES) > 15 << 20
    }

    fn write(&mut self, io: &DeviceIo) {
        let DeviceIo::Write { target: Target::Cache, offset, parts, metadata_bytes, .. } = io
        else {
            return;
        };
        let whole: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let (header, last) = (&parts[0], &parts[parts.len() - 1]);
        // What it overwrites.
        let gone: Vec<u64> =
            self.metadata.range(offset..&(offset + whole)).map(|(at, _)| *at).collect();
        gone.iter().for_each(|at| drop(self.metadata.remove(at)));
        self.metadata.insert(*offset, header.clone());
        self.last = (*offset, *metadata_bytes > header.len());
        if *metadata_bytes > header.len() {
            self.metadata.insert(offset + whole - last.len() as u64, last.clone());
        }
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        into.fill(BYTE);
        let end = offset + into.len() as u64;
        let before = self.metadata.range(..offset).next_back();
        for (at, bytes) in before.into_iter().chain(self.metadata.range(offset..end)) {
            let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
            if from < to {
                let part = |base: u64| {
                    usize::try_from(from - base).unwrap()..usize::try_from(to - base).unwrap()
                };
                into[part(offset)].copy_from_slice(&bytes.bytes()[part(*at)]);
            }
        }
    }

    /// Nanoseconds until all is read, reads, and bytes read.
    fn start(&self, shape: Shape) -> [u64; 3] {
        let mut drive = ShapedStorage::new(shape, self.geometry.capacity_bytes()).unwrap();
        let mut recovery = LogRecovery::new(self.geometry, IDENTITY.uuid);
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
            self.read(under_way[number].offset, &mut content);
            recovery.completed(under_way[number], Some(&content));
        }
        let info = device(self.geometry.capacity_bytes(), 512);
        let (_, found) = recovery.finish(2, &info, &LogOptions::default());
        assert_eq!(found.failed_reads, 0);
        [now.as_nanos(), reads, bytes]
    }
}

#[test]
fn a_terabyte_answers_within_two_seconds_of_device_time() {
    let sizes = [8, 16];
    let full = sizes.map(|segments| Crashed::new(segments, true));
    let almost = Crashed::new(sizes[0], false);
    for shape in [modest(), shapes::NVME_TLC] {
        let [small, large] = full.each_ref().map(|cache| cache.start(shape));
        let open = almost.start(shape);
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
        // Each segment has a header and a footer to be read.
        assert!(reads >= 2 * more && bytes > TERABYTE / 4608 * 16, "{reads} reads, {bytes} bytes");
    }
}
