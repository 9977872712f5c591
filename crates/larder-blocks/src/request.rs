//! Requests to a block store.

use larder_device::{Error, IoBuffer, IoFailure, IoFuture};

use super::info::{BlockId, Stream};

/// A request to a block store. It owns its buffer; the completion gives it back.
#[derive(Debug)]
pub enum BlockIo {
    /// Allocate the block. The ledger chooses its number, so only [`BlockStore::alloc`](super::BlockStore::alloc) makes
    /// such a request.
    Alloc {
        /// The block.
        block: BlockId,
        /// Its stream.
        stream: Stream,
        /// The tag that the block's user gives it.
        tag: u64,
    },
    /// Write the whole `buffer` at `at`.
    Append {
        /// The block.
        block: BlockId,
        /// Offset in bytes: the end of what was submitted to the block.
        at: u64,
        /// The bytes to write.
        buffer: IoBuffer,
    },
    /// Fill `buffer` from `offset` on.
    Read {
        /// The block.
        block: BlockId,
        /// Offset in the block in bytes.
        offset: u64,
        /// Filled whole, or the request fails.
        buffer: IoBuffer,
    },
    /// Free the block.
    Free {
        /// The block.
        block: BlockId,
    },
    /// Make sure that everything is durable.
    Flush,
}

impl BlockIo {
    /// Takes the buffer out of the request.
    pub fn into_buffer(self) -> IoBuffer {
        match self {
            Self::Append { buffer, .. } | Self::Read { buffer, .. } => buffer,
            Self::Alloc { .. } | Self::Free { .. } | Self::Flush => IoBuffer::empty(),
        }
    }
}

/// A request that a [`Ledger`](super::Ledger) has admitted. Only the ledger makes one.
#[derive(Debug)]
pub struct CheckedBlockIo(BlockIo);

impl CheckedBlockIo {
    pub(super) fn new(io: BlockIo) -> Self {
        Self(io)
    }

    /// The request, to inspect.
    pub fn get(&self) -> &BlockIo {
        &self.0
    }

    /// The request, to carry out.
    pub fn into_inner(self) -> BlockIo {
        self.0
    }

    /// Ends the request with `error`, giving its buffer back.
    pub fn fail(self, error: Error) -> IoFuture {
        IoFuture::ready(Err(IoFailure { error, buffer: self.0.into_buffer() }))
    }
}
