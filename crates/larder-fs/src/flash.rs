//! The underlying store, in pages of the file system.

use std::sync::{Arc, OnceLock};

use larder_blocks::{BlockId, BlockState, BlockStore, Stream};
use larder_device::{IoBuffer, IoFuture};

use crate::address::{Address, BLOCK_NUMBERS, Pointer};
use crate::error::{Error, Result};
use crate::formats::tag::Use;
use crate::geometry::{Geometry, size};

/// Maximum bytes per read request.
const READ_BYTES_MAX: u64 = 1 << 20;

/// A store, with its geometry for a file system.
#[derive(Clone)]
pub(crate) struct Flash {
    store: Arc<dyn BlockStore>,
    pub(crate) geometry: Geometry,
    /// The upper part that all block numbers of the store have in common, above the bits that an address holds; for
    /// blocks of a virtual SSD it is the number of the vSSD. Known from the first block on. Block numbers in this crate
    /// are without it.
    base: Arc<OnceLock<u64>>,
}

impl Flash {
    pub(crate) fn new(store: Arc<dyn BlockStore>) -> Result<Self> {
        let geometry = Geometry::of(store.info())?;
        Ok(Self { store, geometry, base: Arc::default() })
    }

    fn without_base(&self, block: BlockId) -> BlockId {
        let base = self.base.get_or_init(|| block.number() & !(BLOCK_NUMBERS - 1));
        BlockId::new(block.number().wrapping_sub(*base))
    }

    fn with_base(&self, block: u64) -> BlockId {
        BlockId::new(block.wrapping_add(self.base.get().copied().unwrap_or(0)))
    }

    fn page_bytes(&self) -> u64 {
        self.geometry.page_bytes as u64
    }

    pub(crate) fn list(&self) -> Vec<BlockState> {
        let known = self.store.list().into_iter();
        known.map(|state| BlockState { block: self.without_base(state.block), ..state }).collect()
    }

    /// Whole readable pages of a block.
    pub(crate) fn written_pages(&self, state: &BlockState) -> u32 {
        u32::try_from(state.written_bytes / self.page_bytes()).unwrap_or(u32::MAX)
    }

    /// Reads `pages` pages from `at` on, without checks.
    pub(crate) fn read(&self, at: Address, pages: u32) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(size(u64::from(pages) * self.page_bytes()));
        let mut offset = u64::from(at.page()) * self.page_bytes();
        let end = offset + u64::from(pages) * self.page_bytes();
        while offset < end {
            let length = READ_BYTES_MAX.min(end - offset);
            let buffer = IoBuffer::zeroed(size(length));
            let read = self.store.read(self.with_base(at.block().number()), offset, buffer).wait();
            let read = read.map_err(|failure| {
                Error::below(format!("reading {pages} pages from {at:?}"), failure.error)
            })?;
            bytes.extend_from_slice(read.as_slice());
            offset += length;
        }
        Ok(bytes)
    }

    /// Reads the page of a pointer and verifies its checksum.
    pub(crate) fn read_checked(&self, pointer: Pointer) -> Result<Vec<u8>> {
        let page = self.read(pointer.address, 1)?;
        if larder_checksum::crc32c(&page) != pointer.checksum {
            return Err(Error::damaged(format!("{:?} fails its checksum", pointer.address)));
        }
        Ok(page)
    }

    /// Allocates a block. Durable when it returns.
    pub(crate) fn alloc(&self, what_for: Use) -> Result<u64> {
        let stream = Stream::new(what_for.stream(self.store.info().streams));
        let block = self.store.alloc(stream, what_for.tag()).wait();
        block
            .map(|block| self.without_base(block).number())
            .map_err(|error| Error::below("allocating a block", error))
    }

    /// Starts a write of pages to a block, from `page` on.
    pub(crate) fn append(&self, block: u64, page: u32, bytes: &[u8]) -> IoFuture {
        let mut buffer = IoBuffer::zeroed(bytes.len());
        buffer.copy_in(0, bytes);
        self.store.append(self.with_base(block), u64::from(page) * self.page_bytes(), buffer)
    }

    pub(crate) fn free(&self, block: u64) -> Result<()> {
        let freed = self.store.free(self.with_base(block)).wait();
        let context = || format!("freeing block {block}");
        freed.map(drop).map_err(|failure| Error::below(context(), failure.error))
    }

    pub(crate) fn flush(&self) -> Result<()> {
        let flushed = self.store.flush().wait();
        flushed.map(drop).map_err(|failure| Error::below("flushing the store", failure.error))
    }
}
