//! What a crash may still undo: the writes since the last flush, and what lay under them.
//!
//! The device below always holds the live image. For every block that an unflushed write touched,
//! `durable` holds what a crash that loses all of these writes would leave. A crash goes through
//! the writes in order and keeps, loses or tears each; what that leaves of the touched blocks is
//! the surviving image.

use std::collections::{BTreeMap, VecDeque};

use crate::buffer::IoBuffer;
use crate::device::Device;
use crate::error::Error;
use crate::io::Io;
use crate::placement::PlacementHandle;

/// Unflushed bytes beyond which the oldest writes count as durable, however few they are: no
/// drive's cache is endless, nor is memory.
const UNFLUSHED_BYTES_MAX: usize = 64 << 20;

/// Bytes that the fault device moved for its own purposes; the host did not ask for them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Housekeeping {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

/// How the unflushed writes fared in crashes.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Fates {
    pub(super) kept: u64,
    pub(super) lost: u64,
    pub(super) torn: u64,
}

/// The volatile part of a device.
pub(super) struct Volatile {
    writes: VecDeque<Unflushed>,
    durable: BTreeMap<u64, Under>,
    writes_max: usize,
    /// Bytes of `writes`.
    unflushed_bytes: usize,
    pub(super) housekeeping: Housekeeping,
}

struct Unflushed {
    /// Index of the first block.
    first: u64,
    bytes: Box<[u8]>,
}

/// What lies under the unflushed writes to one block.
struct Under {
    bytes: Box<[u8]>,
    /// Unflushed writes that touch the block, at least one.
    writes: usize,
}

impl Volatile {
    pub(super) fn new(writes_max: usize) -> Self {
        Self {
            writes: VecDeque::new(),
            durable: BTreeMap::new(),
            writes_max,
            unflushed_bytes: 0,
            housekeeping: Housekeeping::default(),
        }
    }

    /// Takes note of a write before it reaches `device`.
    pub(super) fn record(
        &mut self,
        device: &dyn Device,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Error> {
        if self.writes_max == 0 {
            return Ok(());
        }
        let block = u64::from(device.info().block_bytes);
        let first = offset / block;
        let blocks = first..first + bytes.len() as u64 / block;
        for index in blocks.clone() {
            if !self.durable.contains_key(&index) {
                let bytes = self.read_block(device, index)?;
                self.durable.insert(index, Under { bytes, writes: 0 });
            }
        }
        for index in blocks {
            self.durable.entry(index).and_modify(|under| under.writes += 1);
        }
        self.writes.push_back(Unflushed { first, bytes: bytes.into() });
        self.unflushed_bytes += bytes.len();
        while self.writes.len() > self.writes_max
            || (self.unflushed_bytes > UNFLUSHED_BYTES_MAX && self.writes.len() > 1)
        {
            self.retire(block);
        }
        Ok(())
    }

    fn read_block(&mut self, device: &dyn Device, index: u64) -> Result<Box<[u8]>, Error> {
        let block = device.info().block_bytes;
        let buffer = IoBuffer::zeroed(block as usize);
        let offset = index * u64::from(block);
        let read = device.submit(Io::Read { offset, buffer }).wait();
        self.housekeeping.read_bytes += u64::from(block);
        Ok(read.map_err(|failure| failure.error)?.as_slice().into())
    }

    /// The oldest write has become durable.
    fn retire(&mut self, block: u64) {
        let Some(write) = self.writes.pop_front() else { return };
        self.unflushed_bytes -= write.bytes.len();
        for (index, bytes) in write.blocks(block) {
            let Some(under) = self.durable.get_mut(&index) else { continue };
            under.bytes.copy_from_slice(bytes);
            under.writes -= 1;
            if under.writes == 0 {
                self.durable.remove(&index);
            }
        }
    }

    /// Everything has become durable.
    pub(super) fn flushed(&mut self) {
        self.writes.clear();
        self.unflushed_bytes = 0;
        self.durable.clear();
    }

    /// Power is lost: decides the fate of each unflushed write and brings `device` to the image
    /// that survives.
    pub(super) fn crash(
        &mut self,
        device: &dyn Device,
        rng: &mut fastrand::Rng,
    ) -> Result<Fates, Error> {
        let block = u64::from(device.info().block_bytes);
        let durable = std::mem::take(&mut self.durable);
        let mut surviving: BTreeMap<u64, Box<[u8]>> =
            durable.into_iter().map(|(index, under)| (index, under.bytes)).collect();
        let mut live = surviving.clone();
        let mut fates = Fates::default();
        self.unflushed_bytes = 0;
        for write in std::mem::take(&mut self.writes) {
            let kept = write.draw_fate(block, rng, &mut fates);
            for (position, (index, bytes)) in write.blocks(block).enumerate() {
                live.insert(index, bytes.into());
                if position < kept {
                    surviving.insert(index, bytes.into());
                }
            }
        }
        for (index, bytes) in &surviving {
            if live.get(index) != Some(bytes) {
                self.write_block(device, index * block, bytes)?;
            }
        }
        Ok(fates)
    }

    fn write_block(&mut self, device: &dyn Device, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut buffer = IoBuffer::zeroed(bytes.len());
        buffer.as_mut_slice().copy_from_slice(bytes);
        let handle = PlacementHandle::DEFAULT;
        let write = device.submit(Io::write(offset, buffer, handle)).wait();
        self.housekeeping.written_bytes += bytes.len() as u64;
        write.map(drop).map_err(|failure| failure.error)
    }
}

impl Unflushed {
    fn blocks(&self, block: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let size = usize::try_from(block).unwrap_or(usize::MAX);
        (self.first..).zip(self.bytes.chunks_exact(size))
    }

    /// How many of the write's blocks survive. A single block is written whole or not at all.
    fn draw_fate(&self, block: u64, rng: &mut fastrand::Rng, fates: &mut Fates) -> usize {
        let all = self.blocks(block).count();
        match rng.u8(..3) {
            0 => {
                fates.lost += 1;
                0
            }
            1 if all > 1 => {
                fates.torn += 1;
                rng.usize(1..all)
            }
            _ => {
                fates.kept += 1;
                all
            }
        }
    }
}
