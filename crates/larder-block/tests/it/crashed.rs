//! The metadata that a log leaves on its device after a crash: simulates a cache without the memory for its data.

use std::collections::BTreeMap;

use larder_block::accounting::{BLIND_BYTE, Blind};
use larder_block::layout::log::{Geometry, LogIdentity, LogLayout, LogOptions};
use larder_block::layout::{CoreId, Data, DeviceIo, LayoutRequest, Span, Target};
use larder_device::DeviceInfo;

pub(crate) const IDENTITY: LogIdentity = LogIdentity { uuid: *b"a cache's UUID..", epoch: 1 };
pub(crate) const SEGMENT_BYTES: u32 = 16 << 20;

/// Headers and footers of a cache that was filled and is in use. All other bytes are `BLIND_BYTE`.
pub(crate) struct Crashed {
    pub(crate) geometry: Geometry,
    metadata: BTreeMap<u64, Data>,
    /// Where the last batch was written, and whether it was the last of its segment.
    last: (u64, bool),
}

impl Crashed {
    /// A crash after sequential writes of the lines of a core that is half as large again as the cache; then of more
    /// lines, until the open segment is full, or almost full.
    pub(crate) fn new(segments: u64, is_full: bool) -> Self {
        let lines = segments * u64::from(SEGMENT_BYTES) / 4096;
        let is_enough = |crashed: &Self, written| {
            assert!(written < lines * 2, "no segment ends with a footer");
            written >= lines * 3 / 2 && crashed.is_there(is_full)
        };
        Self::written(segments, |number| number, is_enough)
    }

    /// A crash after writes of lines, 32 at a time. `line` maps the number of a write to its line.
    pub(crate) fn written(
        segments: u64,
        mut line: impl FnMut(u64) -> u64,
        is_enough: impl Fn(&Self, u64) -> bool,
    ) -> Self {
        let options = LogOptions { write_buffer_bytes: 0, ..LogOptions::default() };
        let info = Self::device(segments * u64::from(SEGMENT_BYTES));
        let geometry = Geometry::new(&info, 0, &options).expect("segments enough");
        let mut crashed = Self { geometry, metadata: BTreeMap::new(), last: (0, false) };
        let mut blind = Blind::new(LogLayout::new(geometry, IDENTITY, &info, &options));
        let core = CoreId::new(0).expect("a low number");
        let data = Data::copy_of(&[BLIND_BYTE; 4096]);
        let mut number = 0;
        while !is_enough(&crashed, number) {
            let mut lines: Vec<u64> = (number..number + 32).map(&mut line).collect();
            lines.sort_unstable();
            lines.dedup();
            let write = |line: u64| {
                let span = Span { core, first: line * 8, sectors: 8 };
                LayoutRequest::Write { span, data: data.clone() }
            };
            blind.run(lines.into_iter().map(write), |io| crashed.write(io));
            number += 32;
        }
        crashed
    }

    /// A device with `bytes` bytes, in blocks of a sector.
    pub(crate) fn device(bytes: u64) -> DeviceInfo {
        let info = DeviceInfo::new("cache", bytes, 512, 1 << 20);
        DeviceInfo { atomic_write_bytes: Some(4096), ..info }
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
        // Remove what it overwrites.
        let gone: Vec<u64> =
            self.metadata.range(offset..&(offset + whole)).map(|(at, _)| *at).collect();
        gone.iter().for_each(|at| drop(self.metadata.remove(at)));
        self.metadata.insert(*offset, header.clone());
        self.last = (*offset, *metadata_bytes > header.len());
        if *metadata_bytes > header.len() {
            self.metadata.insert(offset + whole - last.len() as u64, last.clone());
        }
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        into.fill(BLIND_BYTE);
        let end = offset + into.len() as u64;
        let before = self.metadata.range(..offset).next_back();
        for (at, bytes) in before.into_iter().chain(self.metadata.range(offset..end)) {
            let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
            if from < to {
                let within = |at: u64| usize::try_from(at).expect("within a read");
                let part = |base: u64| within(from - base)..within(to - base);
                into[part(offset)].copy_from_slice(&bytes.bytes()[part(*at)]);
            }
        }
    }
}
