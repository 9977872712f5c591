//! The expected content of a part of a device, and random requests that are checked against it.

use std::collections::VecDeque;

use fastrand::Rng;
use larder_device::{BufferPool, Device, Io, IoBuffer, IoFuture, PlacementHandle};

use crate::{Failure, RUN_BLOCKS_MAX};

/// Counts of the requests and of what was found.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) writes: u64,
    pub(super) lists: u64,
    pub(super) reads: u64,
    pub(super) zeroed: u64,
    pub(super) deallocations: u64,
    pub(super) flushes: u64,
    pub(super) compared: u64,
    /// Blocks that were read with metadata.
    pub(super) beside: u64,
    pub(super) different: u64,
}

/// The expected content of a part of the device.
pub(super) struct Shadow<'a> {
    device: &'a dyn Device,
    /// Bytes of a block.
    block: usize,
    seed: u64,
    rng: Rng,
    first: u64,
    /// Version of each block; 0 if its content is unspecified.
    versions: Vec<u32>,
    /// Whether a request to the block is in flight.
    busy: Vec<bool>,
    pool: BufferPool,
    counts: Counts,
}

enum Kind {
    Write,
    Zero,
    Read,
    Other,
}

struct UnderWay {
    kind: Kind,
    first: u64,
    blocks: u64,
    future: IoFuture,
}

impl<'a> Shadow<'a> {
    /// The part has `blocks` blocks of `block` bytes, from block `first` on.
    pub(super) fn new(
        device: &'a dyn Device,
        block: usize,
        seed: u64,
        (first, blocks): (u64, u64),
    ) -> Self {
        let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
        Self {
            device,
            block,
            seed,
            rng: Rng::with_seed(seed),
            first,
            versions: vec![0; blocks],
            busy: vec![false; blocks],
            pool: BufferPool::new(),
            counts: Counts::default(),
        }
    }

    /// Submits `ops` requests, `depth` of them in flight at the same time, and reads all blocks at the end.
    pub(super) fn run(mut self, ops: u64, depth: usize) -> Result<Counts, Failure> {
        let mut under_way = VecDeque::new();
        for _ in 0..ops {
            if under_way.len() >= depth
                && let Some(oldest) = under_way.pop_front()
            {
                self.end(oldest)?;
            }
            let request = self.begin();
            under_way.extend(request);
        }
        for request in under_way {
            self.end(request)?;
        }
        let all = self.versions.len() as u64;
        for first in (0..all).step_by(32) {
            let request = self.read(first, RUN_BLOCKS_MAX.min(all - first));
            self.end(request)?;
        }
        Ok(self.counts)
    }

    fn range(first: u64, blocks: u64) -> std::ops::Range<usize> {
        let index = |block| usize::try_from(block).unwrap_or(usize::MAX);
        index(first)..index(first + blocks)
    }

    /// A random request to blocks without a request in flight; `None` after 100 failed attempts to find some.
    fn begin(&mut self) -> Option<UnderWay> {
        let all = self.versions.len() as u64;
        let (first, blocks) = (0..100).find_map(|_| {
            let blocks = self.rng.u64(1..=RUN_BLOCKS_MAX);
            let first = self.rng.u64(..=all - blocks);
            let free = self.busy[Self::range(first, blocks)].iter().all(|busy| !busy);
            free.then_some((first, blocks))
        })?;
        Some(match self.rng.u32(..1000) {
            0..450 => self.write(first, blocks),
            450..500 => self.zero(first, blocks),
            500..900 => self.read(first, blocks),
            900..999 => self.deallocate(first, blocks),
            _ => self.flush(),
        })
    }

    fn start(&mut self, kind: Kind, first: u64, blocks: u64, io: Io) -> UnderWay {
        self.busy[Self::range(first, blocks)].fill(true);
        UnderWay { kind, first, blocks, future: self.device.submit(io) }
    }

    fn offset(&self, first: u64) -> u64 {
        (self.first + first) * self.block as u64
    }

    /// A buffer, with metadata every second time if the device keeps metadata for blocks of this size.
    fn buffer(&mut self, blocks: u64) -> IoBuffer {
        let buffer = self.bytes(blocks);
        let info = self.device.info();
        if !info.keeps_metadata || info.block_bytes as usize != self.block || self.rng.bool() {
            return buffer;
        }
        let blocks = buffer.len() / self.block;
        buffer.with_metadata(self.pool.take(blocks * usize::from(info.metadata_bytes)))
    }

    /// One buffer, or every fourth time a list, divided at random.
    fn bytes(&mut self, blocks: u64) -> IoBuffer {
        let mut left = usize::try_from(blocks).unwrap_or(1);
        if self.rng.u8(..4) > 0 {
            return self.pool.take(left * self.block);
        }
        let mut buffers = Vec::new();
        while left > 0 {
            let part = self.rng.usize(1..=left);
            buffers.push(self.pool.take(part * self.block));
            left -= part;
        }
        IoBuffer::list(buffers)
    }

    fn write(&mut self, first: u64, blocks: u64) -> UnderWay {
        self.counts.writes += 1;
        let mut buffer = self.buffer(blocks);
        self.counts.lists += u64::from(buffer.is_list());
        let pages = buffer.runs_mut().flat_map(|run| run.chunks_exact_mut(self.block));
        for ((index, block), page) in Self::range(first, blocks).zip(first..).zip(pages) {
            self.versions[index] += 1;
            let words = words((self.seed, self.block), block, self.versions[index]);
            for (word, bytes) in words.zip(page.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
        }
        // A first byte of 1 says that metadata was written; without, it reads as zeros.
        if let Some(metadata) = buffer.metadata_mut() {
            let each = usize::from(self.device.info().metadata_bytes);
            for (index, own) in Self::range(first, blocks).zip(metadata.chunks_exact_mut(each)) {
                own.fill(self.versions[index].to_le_bytes()[0]);
                own[0] = 1;
            }
        }
        let handle = PlacementHandle::new(self.rng.u16(..self.device.info().placement.handles));
        let io = Io::write(self.offset(first), buffer, handle);
        self.start(Kind::Write, first, blocks, io)
    }

    fn read(&mut self, first: u64, blocks: u64) -> UnderWay {
        self.counts.reads += 1;
        let (offset, buffer) = (self.offset(first), self.buffer(blocks));
        let io = Io::Read { offset, buffer };
        self.start(Kind::Read, first, blocks, io)
    }

    fn zero(&mut self, first: u64, blocks: u64) -> UnderWay {
        self.counts.zeroed += 1;
        let (offset, bytes) = (self.offset(first), blocks * self.block as u64);
        let request = self.start(Kind::Zero, first, blocks, Io::WriteZeroes { offset, bytes });
        self.versions[Self::range(first, blocks)].iter_mut().for_each(|it| *it |= ZERO);
        request
    }

    fn deallocate(&mut self, first: u64, blocks: u64) -> UnderWay {
        self.counts.deallocations += 1;
        let io = Io::Deallocate { offset: self.offset(first), bytes: blocks * self.block as u64 };
        let request = self.start(Kind::Other, first, blocks, io);
        // The content is unspecified until the next write, which uses a version that the block never had.
        self.versions[Self::range(first, blocks)].iter_mut().for_each(|it| *it |= DEAD);
        request
    }

    fn flush(&mut self) -> UnderWay {
        self.counts.flushes += 1;
        self.start(Kind::Other, 0, 0, Io::Flush)
    }

    fn end(&mut self, request: UnderWay) -> Result<(), Failure> {
        let buffer = request.future.wait()?;
        let range = Self::range(request.first, request.blocks);
        self.busy[range.clone()].fill(false);
        match request.kind {
            Kind::Read => {
                if let Some(metadata) = buffer.metadata() {
                    let each = usize::from(self.device.info().metadata_bytes);
                    for (index, own) in range.clone().zip(metadata.chunks_exact(each)) {
                        let version = self.versions[index];
                        let written = own[1..].iter().all(|byte| *byte == version.to_le_bytes()[0]);
                        let is_live = version != 0 && version & (DEAD | ZERO) == 0;
                        let right =
                            if own[0] == 1 { written } else { own.iter().all(|it| *it == 0) };
                        self.counts.beside += u64::from(own[0] == 1);
                        self.counts.different += u64::from(is_live && !right);
                    }
                }
                let pages = buffer.runs().flat_map(|run| run.chunks_exact(self.block));
                let pages: Vec<&[u8]> = pages.collect();
                for ((index, block), page) in range.zip(request.first..).zip(pages) {
                    self.compare(block, self.versions[index], page);
                }
            }
            // A write makes a deallocated block live again.
            Kind::Write => self.versions[range].iter_mut().for_each(|it| *it &= !(DEAD | ZERO)),
            Kind::Zero => self.versions[range].iter_mut().for_each(|it| *it &= !DEAD),
            Kind::Other => {}
        }
        Ok(())
    }

    fn compare(&mut self, block: u64, version: u32, page: &[u8]) {
        if version == 0 || version & DEAD != 0 {
            return;
        }
        self.counts.compared += 1;
        let is_zero = version & ZERO != 0;
        let words = words((self.seed, self.block), block, version);
        let words = words.map(|word| if is_zero { 0 } else { word });
        let same = words.zip(page.chunks_exact(8)).all(|(word, bytes)| bytes == word.to_le_bytes());
        if !same {
            self.counts.different += 1;
            eprintln!("block {} (version {version}) holds something else", self.first + block);
        }
    }
}

/// Marks the version of a block that was deallocated.
const DEAD: u32 = 1 << 31;

/// Marks the version of a block that was zeroed.
const ZERO: u32 = 1 << 30;

/// The content of a block with this number of bytes, in words of 8.
fn words((seed, bytes): (u64, usize), block: u64, version: u32) -> impl Iterator<Item = u64> {
    let version = u64::from(version & !(DEAD | ZERO));
    let mut rng = Rng::with_seed(seed ^ block.rotate_left(20) ^ version.rotate_left(44));
    let (start, step) = (rng.u64(..), rng.u64(..) | 1);
    (0..bytes as u64 / 8).map(move |i| start.wrapping_add(i.wrapping_mul(step)))
}
