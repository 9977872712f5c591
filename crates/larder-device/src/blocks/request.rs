//! Requests to a block store.

use super::info::{BlockId, Stream};
use crate::buffer::IoBuffer;
use crate::error::Error;
use crate::io::{IoFailure, IoFuture};

/// A request to a block store. It owns its buffer; the completion gives it back.
#[derive(Debug)]
pub enum BlockIo {
    /// Make the block. Its number is the ledger's choice: [`BlockStore::alloc`](super::BlockStore::alloc) alone makes
    /// such a request.
    Alloc {
        /// Which one.
        block: BlockId,
        /// Its stream.
        stream: Stream,
        /// What its user knows it by.
        tag: u64,
    },
    /// Write all of `buffer` at `at`.
    Append {
        /// Where to.
        block: BlockId,
        /// The end of what was submitted to the block, in bytes.
        at: u64,
        /// The bytes.
        buffer: IoBuffer,
    },
    /// Fill `buffer` from `offset` on.
    Read {
        /// Where from.
        block: BlockId,
        /// Byte in the block.
        offset: u64,
        /// Filled whole, or the request fails.
        buffer: IoBuffer,
    },
    /// Give the block up.
    Free {
        /// Which one.
        block: BlockId,
    },
    /// See to it that all is durable.
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

/// A request that a [`Ledger`](super::Ledger) has admitted; it alone makes one.
#[derive(Debug)]
pub struct CheckedBlockIo(BlockIo);

impl CheckedBlockIo {
    pub(super) fn new(io: BlockIo) -> Self {
        Self(io)
    }

    /// The request, to look at.
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
