//! The blocks of the log on the device.

use std::sync::Arc;

use larder_device::{Device, Durability, Io, IoBuffer, IoFuture, PlacementHandle};

use super::block::{BLOCK_BYTES, LogBlock, Tombstone};
use super::number::BlockNumber;
use super::place::TombstonesPlace;
use crate::engine::superblock::Superblock;
use crate::observe::stats::Counters;

/// The ring of blocks. It reads and writes blocks of its own identity, at the slots that their numbers give.
pub(super) struct BlockRing {
    device: Arc<dyn Device>,
    place: TombstonesPlace,
    /// What the device's superblock says; the identity of the cache and of the ring does not change.
    superblock: Superblock,
    counters: Arc<Counters>,
}

impl BlockRing {
    pub(super) fn new(
        device: Arc<dyn Device>,
        place: TombstonesPlace,
        superblock: Superblock,
        counters: Arc<Counters>,
    ) -> Self {
        Self { device, place, superblock, counters }
    }

    /// The entries of a block. `None` if it cannot be read, or is not there.
    pub(super) async fn read(&self, number: BlockNumber) -> Option<Vec<Tombstone>> {
        let buffer = IoBuffer::zeroed(BLOCK_BYTES);
        let read = Io::Read { offset: self.place.slot_offset(number), buffer };
        let block = match self.device.submit(read).await {
            Ok(buffer) => LogBlock::parse(buffer.as_slice(), self.superblock.cache),
            Err(failure) => {
                self.counters.device_failed(&failure.error);
                None
            }
        };
        let is_it = |block: &LogBlock| (block.ring, block.number) == (self.superblock.ring, number);
        block.filter(is_it).map(|block| block.entries)
    }

    /// Starts writing a block, so that it survives what a tombstone must survive.
    pub(super) fn write(&self, block: NewBlock) -> IoFuture {
        let NewBlock { number, oldest, clock, second, entries } = block;
        let mut buffer = IoBuffer::zeroed(BLOCK_BYTES);
        let Superblock { cache, ring, .. } = self.superblock;
        LogBlock { cache, ring, number, oldest, clock, second, entries }
            .encode(buffer.as_mut_slice());
        self.submit(number, buffer, self.durability())
    }

    /// Starts writing these bytes of a block again, so that the device itself confirms them.
    pub(super) fn seal(&self, number: BlockNumber, bytes: IoBuffer) -> IoFuture {
        self.submit(number, bytes, Durability::Device)
    }

    /// Whether blocks must be sealed: otherwise the first write of a block is enough.
    pub(super) fn seals(&self) -> bool {
        self.durability() == Durability::Process
    }

    /// What a tombstone must survive before its caller may continue (rule 1).
    fn durability(&self) -> Durability {
        if self.superblock.power { Durability::Power } else { Durability::Process }
    }

    fn submit(&self, number: BlockNumber, buffer: IoBuffer, durability: Durability) -> IoFuture {
        let offset = self.place.slot_offset(number);
        let log = self.place.offset..self.place.offset + self.place.blocks * BLOCK_BYTES as u64;
        assert!(log.contains(&offset) && buffer.len() == BLOCK_BYTES, "{offset} of {log:?}");
        self.counters.tombstone_log_written_bytes.add(buffer.len() as u64);
        let handle = PlacementHandle::DEFAULT;
        self.device.submit(Io::Write { offset, buffer, handle, durability })
    }
}

/// A block to write.
pub(super) struct NewBlock {
    pub(super) number: BlockNumber,
    pub(super) oldest: BlockNumber,
    pub(super) clock: u64,
    pub(super) second: u32,
    pub(super) entries: Vec<Tombstone>,
}
