//! The bytes of files on blocks: pieces, each within one block.

use larder_blocks::{BlockId, BlockStore};
use larder_device::IoBuffer;
use rusty_leveldb::{Status, StatusCode};
use serde::{Deserialize, Serialize};

/// A result with LevelDB's error type.
pub(super) type Result<T> = std::result::Result<T, Status>;

/// Bytes of a file that are contiguous in one block. They begin at the start of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    pub(super) block: u64,
    /// Offset in the block.
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// Converts an error of the store to LevelDB's.
pub(super) fn of_store(error: &larder_device::Error) -> Status {
    Status::new(StatusCode::IOError, &error.to_string())
}

pub(super) fn corrupt(what: &str) -> Status {
    Status::new(StatusCode::Corruption, what)
}

/// A buffer with these bytes.
pub(super) fn buffer_of(bytes: &[u8]) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.copy_in(0, bytes);
    buffer
}

/// Fills `bytes` from offset `at` of `block`.
pub(super) fn read(
    store: &dyn BlockStore,
    block: BlockId,
    at: u64,
    bytes: &mut [u8],
) -> Result<()> {
    let page = u64::from(store.info().page_bytes);
    let first = at / page * page;
    let end = (at + bytes.len() as u64).next_multiple_of(page);
    let skip = usize::try_from(at - first).unwrap_or(usize::MAX);
    let length = usize::try_from(end - first).unwrap_or(usize::MAX);
    let buffer = store.read(block, first, IoBuffer::zeroed(length)).wait();
    let buffer = buffer.map_err(|failure| of_store(&failure.error))?;
    buffer.copy_out(skip, bytes);
    Ok(())
}

/// Finds the place of `offset` in a file: the piece, and the offset in it.
pub(super) fn find(pieces: &[Piece], mut offset: u64) -> Option<(Piece, u64)> {
    for piece in pieces {
        if offset < piece.bytes {
            return Some((*piece, offset));
        }
        offset -= piece.bytes;
    }
    None
}

pub(super) fn length(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.bytes).sum()
}
