//! A cached core as a device.

use std::sync::Arc;

use larder_device::io::CheckedIo;
use larder_device::{
    Device, DeviceInfo, DeviceStats, Durability, Io, IoBuffer, IoFuture, IoResult, VolatileCache,
    steps,
};

use super::{Operation, RunningCache, UnsubmittedRequest, User};
use crate::cache::Request;
use crate::layout::{CoreId, Data, SECTOR_BYTES, Span};

/// Longest part of a `WriteZeroes` that goes to the cache as one request.
const ZEROES_BYTES: u64 = 1 << 20;
/// Longest part of a trim that goes to the cache as one request.
const TRIM_BYTES: u64 = 1 << 30;

/// A cached core as a device. Its capacity is that of the core, in blocks that both core and cache support. Writes are
/// as durable as requested; in the write-back modes all writes are durable.
///
/// Its counters are those of the core.
#[derive(Clone)]
pub struct CachedCore {
    cache: RunningCache,
    core: CoreId,
    below: Arc<dyn Device>,
    info: DeviceInfo,
}

impl CachedCore {
    /// `blocks_of_cache`: no cache device of this cache may have larger blocks, unless the blocks of the core are
    /// larger.
    pub(super) fn new(
        cache: RunningCache,
        core: CoreId,
        below: Arc<dyn Device>,
        blocks_of_cache: u32,
    ) -> Self {
        let (about, cached) = (below.info(), cache.device());
        let cached = cached.as_ref().map(|device| device.info());
        let block_bytes = block_bytes(about, blocks_of_cache);
        let info = DeviceInfo {
            volatile_cache: VolatileCache::Yes,
            ..DeviceInfo::new(
                match cached {
                    Some(cached) => format!("{} cached on {}", about.name, cached.name),
                    None => format!("{} without a cache device", about.name),
                },
                whole_bytes(about, blocks_of_cache),
                block_bytes,
                about.max_transfer_bytes,
            )
        };
        Self { cache, core, below, info }
    }

    /// The cache of this core.
    pub fn cache(&self) -> &RunningCache {
        &self.cache
    }

    /// The number of the core.
    pub fn id(&self) -> CoreId {
        self.core
    }

    /// The core device.
    pub fn below(&self) -> &Arc<dyn Device> {
        &self.below
    }

    fn span(&self, offset: u64, bytes: u64) -> Span {
        let sectors =
            u32::try_from(bytes / SECTOR_BYTES as u64).expect("a request fits into memory");
        Span { core: self.core, first: offset / SECTOR_BYTES as u64, sectors }
    }

    fn ask(&self, request: Request, waits: UnsubmittedRequest) -> IoFuture {
        self.cache.ask((self.core, &self.below), request, waits)
    }

    fn write(&self, offset: u64, data: Data, durable: bool) -> IoFuture {
        let span = self.span(offset, data.len() as u64);
        let waits = UnsubmittedRequest {
            data: Some(data.clone()),
            ..User::of(Operation::Write, Some(self.core))
        };
        self.ask(Request::Write { span, data, durable }, waits)
    }

    /// Writes one piece after the other: a request may be as long as the device.
    async fn write_zeroes(self, mut offset: u64, end: u64) -> IoResult {
        let longest = usize::try_from(ZEROES_BYTES.min(end - offset)).expect("a MiB at most");
        let zeros = Data::new(IoBuffer::zeroed(longest));
        while offset < end {
            let bytes = ZEROES_BYTES.min(end - offset);
            let part = zeros.slice(0..usize::try_from(bytes).expect("a MiB at most"));
            self.write(offset, part, false).await?;
            offset += bytes;
        }
        Ok(IoBuffer::empty())
    }

    async fn trim(self, mut offset: u64, end: u64) -> IoResult {
        while offset < end {
            let bytes = TRIM_BYTES.min(end - offset);
            let span = self.span(offset, bytes);
            self.ask(Request::Trim { span }, User::of(Operation::Trim, Some(self.core))).await?;
            offset += bytes;
        }
        Ok(IoBuffer::empty())
    }
}

impl Device for CachedCore {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        match io.into_inner() {
            Io::Read { buffer, .. } if buffer.is_empty() => IoFuture::ready(Ok(buffer)),
            Io::Read { offset, buffer } => {
                let span = self.span(offset, buffer.len() as u64);
                let waits = UnsubmittedRequest {
                    buffer: Some(buffer),
                    ..User::of(Operation::Read, Some(self.core))
                };
                self.ask(Request::Read { span }, waits)
            }
            Io::Write { buffer, .. } if buffer.is_empty() => IoFuture::ready(Ok(buffer)),
            Io::Write { offset, buffer, durability, .. } => {
                self.write(offset, Data::new(joined(buffer)), durability == Durability::Power)
            }
            Io::Deallocate { offset, bytes } => {
                steps::request(self.clone().trim(offset, offset + bytes))
            }
            Io::WriteZeroes { bytes: 0, .. } => IoFuture::ready(Ok(IoBuffer::empty())),
            Io::WriteZeroes { offset, bytes } => {
                steps::request(self.clone().write_zeroes(offset, offset + bytes))
            }
            Io::Flush => self.ask(Request::Flush, User::of(Operation::Flush, None)),
        }
    }

    fn stats(&self) -> DeviceStats {
        self.below.stats()
    }

    fn boot(&self) -> Option<u64> {
        self.below.boot()
    }
}

/// Block size that a cached core reports: at least a 512-byte sector, even for memory devices with smaller blocks.
fn block_bytes(core: &DeviceInfo, blocks_of_cache: u32) -> u32 {
    core.block_bytes.max(blocks_of_cache).max(512)
}

/// Capacity of a core, rounded down to whole blocks of that size.
pub(super) fn whole_bytes(core: &DeviceInfo, blocks_of_cache: u32) -> u64 {
    let whole = u64::from(block_bytes(core, blocks_of_cache));
    core.capacity_bytes - core.capacity_bytes % whole
}

/// Copies a list of buffers into one.
fn joined(buffer: IoBuffer) -> IoBuffer {
    if !buffer.is_list() {
        return buffer;
    }
    let mut one = IoBuffer::zeroed(buffer.len());
    one.copy_buffer_in(0, &buffer);
    one
}
