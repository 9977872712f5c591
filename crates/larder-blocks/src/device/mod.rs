//! A device on blocks: addresses that can be overwritten, on an append-only store.
//!
//! Most of it is *slots*, each in a block, which are written from start to end and then anew, as the regions of a log
//! are. They need no page map; the tags of the blocks say which block is which slot. *Front* and *tail* are pages that
//! are written in any order, for a label, tombstones, and buckets of small objects. Their batches follow one another in
//! blocks of their own, which are cleaned (LFS, SOSP'91; f2fs has such an area next to its zones).
//!
//! Every completed request is durable, because everything that a store has acknowledged is. A cache sees no difference
//! from a drive, except that a write into the middle of a slot is refused, and that a write at the start of a slot
//! discards the whole slot.

mod area;
mod batch;
mod changes;
mod counts;
mod map;
mod queue;
mod recover;
mod shape;
mod slots;
mod tag;
mod writer;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use larder_device::label::Uuid;
use larder_device::{
    CheckedIo, Device, DeviceIdentity, DeviceInfo, DeviceStats, Error, Extent, Io, IoBuffer,
    IoFailure, IoFuture, IoResult, PlacementHandle, PlacementInfo, VolatileCache, steps,
};

use super::info::Stream;
use super::ledger::BlockState;
use super::store::BlockStore;
use area::Area;
use changes::Changes;
pub use counts::OnBlocksCounts;
use counts::{Counters, add, get};
use map::PageMap;
use recover::RecoveredDevice;
pub use shape::DeviceOnBlocksOptions;
use shape::{PAGE_BYTES, Part, Place, Shape};
use slots::BlockSlots;
use tag::Purpose;
use writer::Writer;

/// Longest transfer to report; longer requests are accepted too.
const TRANSFER_BYTES: u32 = 1 << 20;

/// A device on a block store, which it has for itself. Placement handles are streams of the store.
///
/// ```
/// use larder_blocks::{DeviceOnBlocks, DeviceOnBlocksOptions, MemoryBlocks};
/// use larder_device::{Device, Io, IoBuffer, PlacementHandle, block_on};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(MemoryBlocks::new(32, 256 << 10, 4096)?);
/// let options = DeviceOnBlocksOptions {
///     capacity_bytes: 5 << 20,
///     front_bytes: 512 << 10,
///     tail_bytes: 512 << 10,
///     spare_percent: 25,
///     slots_together: 1,
///     handles: 1,
/// };
/// let device = block_on(DeviceOnBlocks::format(store, &options))?;
/// let write = |offset, buffer| Io::write(offset, buffer, PlacementHandle::DEFAULT);
/// device.submit(write(8192, IoBuffer::zeroed(4096))).wait()?;
/// // A slot is written from its start on.
/// device.submit(write(1 << 20, IoBuffer::zeroed(8192))).wait()?;
/// device.submit(write((1 << 20) + 8192, IoBuffer::zeroed(4096))).wait()?;
/// let mut other = IoBuffer::zeroed(4096);
/// other.as_mut_slice().fill(7);
/// let refused = device.submit(write((1 << 20) + 4096, other)).wait().unwrap_err();
/// assert!(refused.to_string().contains("is written up to"), "{refused}");
/// # Ok(())
/// # }
/// ```
pub struct DeviceOnBlocks {
    store: Arc<dyn BlockStore>,
    info: DeviceInfo,
    identity: DeviceIdentity,
    shape: Shape,
    area: Arc<Area>,
    changes: Arc<Changes>,
    slots: Arc<BlockSlots>,
    counters: Arc<Counters>,
    host: HostBytes,
}

/// Bytes of the host's requests.
#[derive(Debug)]
struct HostBytes {
    read: AtomicU64,
    written: Vec<AtomicU64>,
    durable: AtomicU64,
    deallocated: AtomicU64,
    zeroed: AtomicU64,
}

impl DeviceOnBlocks {
    /// Makes a device of the whole store. Its content is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](larder_device::ErrorKind::Setup) if no such device fits the store; errors of the store.
    pub async fn format(
        store: Arc<dyn BlockStore>,
        options: &DeviceOnBlocksOptions,
    ) -> Result<Self, Error> {
        let shape = Shape::fitting(options, store.info())?;
        let (pages, others): (Vec<_>, Vec<_>) = store
            .list()
            .into_iter()
            .partition(|state| Purpose::of(state.tag) == Some(Purpose::Pages));
        free_all(&*store, others).await?;
        // As long as this block exists, an interrupted format is not mistaken for a device.
        let mark = store.alloc(Stream::DEFAULT, Purpose::Formatting.tag()).await?;
        free_all(&*store, pages).await?;
        let fresh = RecoveredDevice {
            uuid: Uuid::draw(),
            map: PageMap::new(&shape),
            sequence: 1,
            slots: vec![None; shape.slots as usize],
        };
        let mut writer = Writer::new(&shape, fresh.sequence);
        let device = Self::with(store, shape, fresh);
        writer.begin(&device.area).await?;
        device.changes.rest(writer);
        let freed = device.store.free(mark).await;
        freed.map_err(|failure| failure.error)?;
        Ok(device)
    }

    /// The options that the device on a store was made with; `None` if there is none. Writes nothing.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn options_of(
        store: &Arc<dyn BlockStore>,
    ) -> Result<Option<DeviceOnBlocksOptions>, Error> {
        recover::options_of(store).await
    }

    /// Opens the device on the store, with the options that it was made with.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](larder_device::ErrorKind::Setup) if there is no device, if it was made with other options,
    /// if there are foreign blocks, or if its data are damaged: nothing is written then. Errors of the store.
    pub async fn open(
        store: Arc<dyn BlockStore>,
        options: &DeviceOnBlocksOptions,
    ) -> Result<Self, Error> {
        let shape = Shape::fitting(options, store.info())?;
        let recovered = recover::recover(&store, &shape).await?;
        let writer = Writer::new(&shape, recovered.sequence);
        let device = Self::with(store, shape, recovered);
        device.changes.rest(writer);
        Ok(device)
    }

    fn with(store: Arc<dyn BlockStore>, shape: Shape, recovered: RecoveredDevice) -> Self {
        let RecoveredDevice { uuid, map, slots, .. } = recovered;
        let below = store.info();
        let placement = PlacementInfo {
            handles: below.streams.max(shape.options.handles),
            reclaim_unit_bytes: Some(below.block_bytes),
            path: "streams of blocks",
            ..PlacementInfo::none()
        };
        let name = format!("device on {}", below.name);
        let page_bytes = u32::try_from(PAGE_BYTES).expect("a page is short");
        let capacity_bytes = shape.options.capacity_bytes;
        let info = DeviceInfo {
            placement,
            // Everything that a store has acknowledged is durable.
            volatile_cache: VolatileCache::No,
            atomic_write_bytes: Some(page_bytes),
            ..DeviceInfo::new(name, capacity_bytes, page_bytes, TRANSFER_BYTES)
        };
        let counters = Arc::new(Counters::default());
        let area = Area::new((Arc::clone(&store), shape, uuid), Arc::clone(&counters), map);
        let slots = BlockSlots::new(Arc::clone(&store), shape, Arc::clone(&counters), slots);
        let host = HostBytes {
            read: AtomicU64::new(0),
            written: (0..info.placement.handles).map(|_| AtomicU64::new(0)).collect(),
            durable: AtomicU64::new(0),
            deallocated: AtomicU64::new(0),
            zeroed: AtomicU64::new(0),
        };
        let (area, slots) = (Arc::new(area), Arc::new(slots));
        let changes = Arc::new(Changes::new(&area));
        let identity = DeviceIdentity::draw();
        Self { store, info, identity, shape, area, changes, slots, counters, host }
    }

    /// What it has written in addition to what it was asked to.
    pub fn counts(&self) -> OnBlocksCounts {
        self.counters.snapshot()
    }

    fn count(&self, io: &Io) {
        let (_, _, bytes) = io.extent();
        match io {
            Io::Read { .. } => add(&self.host.read, bytes),
            Io::Write { handle, .. } => {
                add(&self.host.written[usize::from(handle.index())], bytes);
            }
            Io::Deallocate { .. } => add(&self.host.deallocated, bytes),
            Io::WriteZeroes { .. } => add(&self.host.zeroed, bytes),
            Io::Flush => {}
        }
        if io.is_power_durable() {
            add(&self.host.durable, bytes);
        }
    }

    fn read_part(&self, place: Place, buffer: IoBuffer) -> IoFuture {
        match place {
            Place::Page(first) => steps::request(Arc::clone(&self.area).read(first, buffer)),
            Place::Slot { slot, at } => {
                steps::request(Arc::clone(&self.slots).read(slot, at, buffer))
            }
        }
    }

    fn write_part(&self, place: Place, buffer: IoBuffer, handle: PlacementHandle) -> IoFuture {
        match place {
            Place::Page(first) => self.changes.write(first, buffer, handle.index()),
            Place::Slot { slot, at } => {
                self.slots.write((slot, at), buffer, self.store.info().stream_of(handle.index()))
            }
        }
    }

    /// Frees a slot that the range covers from start to end. A part of a slot cannot be freed, so it is ignored.
    fn deallocate_part(&self, part: Part) -> Option<IoFuture> {
        match part.place {
            Place::Page(first) => Some(self.changes.clear(first, pages_of(part.bytes))),
            Place::Slot { slot, at: 0 } if part.bytes as u64 == self.shape.block_bytes => {
                Some(self.slots.free(slot))
            }
            Place::Slot { .. } => None,
        }
    }

    fn clear_part(&self, part: Part) -> IoFuture {
        match part.place {
            Place::Page(first) => self.changes.clear(first, pages_of(part.bytes)),
            Place::Slot { slot, at } => self.slots.clear(slot, at),
        }
    }

    fn read(&self, parts: &[Part], buffer: IoBuffer) -> IoFuture {
        if let [part] = parts {
            return self.read_part(part.place, buffer);
        }
        let start = |part: &Part| (*part, self.read_part(part.place, IoBuffer::zeroed(part.bytes)));
        let under_way: Vec<(Part, IoFuture)> = parts.iter().map(start).collect();
        steps::request(async move {
            let mut buffer = buffer;
            let mut failed = None;
            for (part, read) in under_way {
                match read.await {
                    Ok(read) => buffer.copy_in(part.skip, read.as_slice()),
                    Err(failure) => failed = failed.or(Some(failure.error)),
                }
            }
            together(failed, buffer)
        })
    }

    fn write(&self, parts: &[Part], buffer: IoBuffer, handle: PlacementHandle) -> IoFuture {
        if let [part] = parts {
            return self.write_part(part.place, buffer, handle);
        }
        let start = |part: &Part| {
            let mut own = IoBuffer::zeroed(part.bytes);
            buffer.copy_out(part.skip, own.as_mut_slice());
            self.write_part(part.place, own, handle)
        };
        let under_way: Vec<IoFuture> = parts.iter().map(start).collect();
        all_of(under_way, buffer)
    }
}

fn pages_of(bytes: usize) -> u32 {
    u32::try_from(bytes / PAGE_BYTES).expect("the shape was checked")
}

/// Ends when all have ended, with the first failure if there is one.
fn all_of(under_way: Vec<IoFuture>, buffer: IoBuffer) -> IoFuture {
    steps::request(async move {
        let mut failed = None;
        for part in under_way {
            if let Err(failure) = part.await {
                failed = failed.or(Some(failure.error));
            }
        }
        together(failed, buffer)
    })
}

fn together(failed: Option<Error>, buffer: IoBuffer) -> IoResult {
    match failed {
        None => Ok(buffer),
        Some(error) => Err(IoFailure { error, buffer }),
    }
}

async fn free_all(store: &dyn BlockStore, blocks: Vec<BlockState>) -> Result<(), Error> {
    for state in blocks {
        store.free(state.block).await.map_err(|failure| failure.error)?;
    }
    Ok(())
}

impl Device for DeviceOnBlocks {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let io = io.into_inner();
        self.count(&io);
        let (_, offset, bytes) = io.extent();
        let parts = self.shape.parts(offset, bytes);
        match io {
            Io::Read { buffer, .. } => self.read(&parts, buffer),
            Io::Write { buffer, handle, .. } => self.write(&parts, buffer, handle),
            Io::Deallocate { .. } => {
                let under_way = parts.iter().filter_map(|part| self.deallocate_part(*part));
                all_of(under_way.collect(), IoBuffer::empty())
            }
            Io::WriteZeroes { .. } => {
                let under_way = parts.iter().map(|part| self.clear_part(*part));
                all_of(under_way.collect(), IoBuffer::empty())
            }
            Io::Flush => self.store.flush(),
        }
    }

    /// Media bytes are everything that the store writes.
    fn stats(&self) -> DeviceStats {
        let below = self.store.stats();
        let by_handle: Vec<u64> = self.host.written.iter().map(get).collect();
        DeviceStats {
            host_read_bytes: get(&self.host.read),
            host_written_bytes: by_handle.iter().sum(),
            host_written_bytes_by_handle: by_handle,
            media_written_bytes: Some(below.flash_written_bytes()),
            copied_bytes: Some(below.copied_bytes.unwrap_or(0) + get(&self.counters.moved)),
            deallocated_bytes: get(&self.host.deallocated),
            zeroed_bytes: get(&self.host.zeroed),
            zeroes_written_bytes: 0,
            durable_written_bytes: get(&self.host.durable),
            failed_requests: get(&self.counters.failed_requests),
            ..below
        }
    }

    fn boot(&self) -> Option<u64> {
        self.store.boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        vec![Extent::on(self.identity, range)]
    }
}
