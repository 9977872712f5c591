//! Blocks in memory: the simplest store, with which the others are compared.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_device::{DeviceStats, Error, ErrorKind, IoBuffer, IoFuture, IoResult};

use super::info::{BlockId, PAGE_BYTES_MIN, StoreInfo};
use super::ledger::Ledger;
use super::request::{BlockIo, CheckedBlockIo};
use super::store::BlockStore;
use crate::isolation::IsolationLevel;

/// A store in memory. It starts empty, and is gone with its process.
///
/// ```
/// use larder_blocks::{BlockStore, MemoryBlocks, Stream};
/// use larder_device::IoBuffer;
///
/// # fn main() -> Result<(), larder_device::Error> {
/// let store = MemoryBlocks::new(16, 1 << 20, 4096)?;
/// let block = store.alloc(Stream::DEFAULT, 7).wait()?;
/// store.append(block, 0, IoBuffer::zeroed(8192)).wait().map_err(|failure| failure.error)?;
/// assert_eq!((store.list()[0].tag, store.list()[0].written_bytes), (7, 8192));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryBlocks {
    info: StoreInfo,
    ledger: Ledger,
    state: Mutex<MemoryState>,
}

#[derive(Debug)]
struct MemoryState {
    bytes: HashMap<BlockId, Vec<u8>>,
    stats: DeviceStats,
}

impl MemoryBlocks {
    /// A store of `blocks` blocks of `block_bytes` bytes in pages of `page_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the page size is no power of two of at least 512 bytes, or the block size no multiple of
    /// it.
    pub fn new(blocks: u64, block_bytes: u64, page_bytes: u32) -> Result<Self, Error> {
        let info = StoreInfo {
            name: "memory".to_owned(),
            block_bytes,
            page_bytes,
            blocks,
            streams: 4,
            open_blocks_max: None,
            isolation: IsolationLevel::Unknown,
            kind: "memory",
        };
        Self::with_info(info)
    }

    /// A store with the given description.
    ///
    /// # Errors
    /// As [`MemoryBlocks::new`].
    pub fn with_info(info: StoreInfo) -> Result<Self, Error> {
        let StoreInfo { block_bytes, page_bytes, .. } = info;
        if !page_bytes.is_power_of_two() || page_bytes < PAGE_BYTES_MIN {
            let context = format!(
                "memory blocks: page_bytes of {page_bytes}: must be a power of two of at least {PAGE_BYTES_MIN}"
            );
            return Err(Error::new(ErrorKind::Setup, context));
        }
        if block_bytes == 0 || !block_bytes.is_multiple_of(page_bytes.into()) {
            let context = format!(
                "memory blocks: block_bytes of {block_bytes}: must be some pages of {page_bytes} bytes"
            );
            return Err(Error::new(ErrorKind::Setup, context));
        }
        let by_stream = vec![0; info.streams.into()];
        let stats = DeviceStats { host_written_bytes_by_handle: by_stream, ..Default::default() };
        let state = MemoryState { bytes: HashMap::new(), stats };
        Ok(Self { info, ledger: Ledger::new(1), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, block: BlockId, at: u64, buffer: IoBuffer) -> IoBuffer {
        let stream = self.ledger.get(block).map_or(0, |state| usize::from(state.stream.index()));
        let mut state = self.lock();
        state.stats.host_written_bytes += buffer.len() as u64;
        state.stats.host_written_bytes_by_handle[stream] += buffer.len() as u64;
        let bytes = state.bytes.entry(block).or_default();
        let place = place(at, buffer.len());
        // Appends of several threads may get here out of order.
        if bytes.len() < place.end {
            bytes.resize(place.end, 0);
        }
        let end = at + buffer.len() as u64;
        buffer.copy_out(0, &mut bytes[place]);
        drop(state);
        self.ledger.landed(block, at, end);
        buffer
    }

    fn read(&self, block: BlockId, offset: u64, mut buffer: IoBuffer) -> IoResult {
        let mut state = self.lock();
        state.stats.host_read_bytes += buffer.len() as u64;
        match state.bytes.get(&block) {
            Some(bytes) => {
                buffer.copy_in(0, &bytes[place(offset, buffer.len())]);
                Ok(buffer)
            }
            None => Err(Ledger::gone(block, buffer)),
        }
    }
}

fn place(at: u64, length: usize) -> Range<usize> {
    let start = usize::try_from(at).expect("what is in memory has such addresses");
    start..start + length
}

impl BlockStore for MemoryBlocks {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        IoFuture::ready(match io.into_inner() {
            BlockIo::Alloc { block, .. } => {
                self.ledger.allocated(block, true);
                Ok(IoBuffer::empty())
            }
            BlockIo::Append { block, at, buffer } => Ok(self.append(block, at, buffer)),
            BlockIo::Read { block, offset, buffer } => self.read(block, offset, buffer),
            BlockIo::Free { block } => {
                let mut state = self.lock();
                let freed = state.bytes.remove(&block).map_or(0, |bytes| bytes.len() as u64);
                state.stats.deallocated_bytes += freed;
                drop(state);
                self.ledger.freed(block, true);
                Ok(IoBuffer::empty())
            }
            BlockIo::Flush => Ok(IoBuffer::empty()),
        })
    }

    fn stats(&self) -> DeviceStats {
        self.lock().stats.clone()
    }

    /// The same for every such store: none of them loses power while its process runs.
    fn boot(&self) -> Option<u64> {
        Some(1)
    }
}
