//! Blocks in memory that record what LevelDB does with them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_blocks::{
    AllocFuture, BlockId, BlockIo, BlockStore, CheckedBlockIo, Ledger, MemoryBlocks, StoreInfo,
    Stream,
};
use larder_device::{DeviceStats, IoFuture};

use crate::leveldb;

/// What is done with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Reads bytes, and waits for them.
    Read {
        block: BlockId,
        at: u64,
        bytes: u64,
    },
    /// Appends bytes, and goes on.
    Append {
        block: BlockId,
        at: u64,
        bytes: u64,
    },
    Free {
        block: BlockId,
    },
}

/// The steps of an operation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recording {
    /// Of the client.
    pub(super) client: Vec<Step>,
    /// Of the compaction that the operation has begun.
    pub(super) compaction: Vec<Step>,
}

/// A store in memory. It does everything at once, and records it.
pub(super) struct RecordedBlocks {
    blocks: MemoryBlocks,
    recording: Mutex<Recording>,
}

impl RecordedBlocks {
    pub(super) fn new(blocks: MemoryBlocks) -> Self {
        Self { blocks, recording: Mutex::default() }
    }

    /// Returns what was recorded since the last call.
    pub(super) fn take(&self) -> Recording {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only compactions change the list of files: what follows such a change belongs to one.
    fn record(&self, io: &BlockIo) {
        let step = match *io {
            BlockIo::Read { block, offset, ref buffer } => {
                Step::Read { block, at: offset, bytes: buffer.len() as u64 }
            }
            BlockIo::Append { block, at, ref buffer } => {
                Step::Append { block, at, bytes: buffer.len() as u64 }
            }
            BlockIo::Free { block } => Step::Free { block },
            BlockIo::Alloc { .. } | BlockIo::Flush => return,
        };
        let lists_files = |block| {
            self.blocks.ledger().get(block).is_some_and(|state| leveldb::lists_files(state.tag))
        };
        let begins = matches!(step, Step::Append { block, .. } if lists_files(block));
        let mut recording = self.lock();
        if begins || !recording.compaction.is_empty() {
            recording.compaction.push(step);
        } else {
            recording.client.push(step);
        }
    }
}

impl BlockStore for RecordedBlocks {
    fn info(&self) -> &StoreInfo {
        self.blocks.info()
    }

    fn ledger(&self) -> &Ledger {
        self.blocks.ledger()
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        self.record(io.get());
        self.blocks.start(io)
    }

    fn stats(&self) -> DeviceStats {
        self.blocks.stats()
    }

    fn alloc(&self, stream: Stream, tag: u64) -> AllocFuture {
        self.blocks.alloc(stream, tag)
    }
}
