//! Blocks on any device: each is a region of addresses, and a journal at the front records which block is where.
//!
//! An append first writes its bytes, and then a record of how far the block has landed; both are durable when it
//! returns. Records of appends that end at about the same time share a page of the journal. So a half-written block
//! needs no search: the records say where it continues. The cost is a page of 4 KiB per append, or per several. Headers
//! within the pages would cost no extra write. But they would take space from each page, so a page would hold less than
//! a whole page of data, and offsets in blocks would not be those that users see.
//!
//! An allocation takes the region that has been free the longest. Freeing a block first writes its record and then
//! deallocates the region; only then may another block have it.

mod journal;
mod page;
mod places;
mod recover;
mod table;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::label::Uuid;
use larder_device::{
    Completer, Device, DeviceStats, Durability, Error, ErrorKind, Io, IoBuffer, IoFailure,
    IoFuture, PlacementHandle, steps,
};

use super::info::{BlockId, StoreInfo, Stream};
use super::ledger::{BlockState, Ledger};
use super::request::{BlockIo, CheckedBlockIo};
use super::store::BlockStore;
use crate::isolation::IsolationLevel;
use journal::Journal;
use page::{Filling, PAGE_BYTES, RECORDS_MAX, Record};
pub use places::BlocksOptions;
use places::Places;
use table::{DueWork, MappedBlock, PendingAppend, Table};

/// A block store on a device. Streams are the device's placement handles.
///
/// ```
/// use larder_blocks::{BlockStore, BlocksOnDevice, BlocksOptions, Stream};
/// use larder_device::{IoBuffer, MemoryDevice, block_on};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), larder_device::Error> {
/// let device = Arc::new(MemoryDevice::holding(vec![0; 8 << 20]));
/// let options = BlocksOptions { block_bytes: 256 << 10, journal_log_pages: None };
/// let store = block_on(BlocksOnDevice::format(device.clone(), &options))?;
/// let block = store.alloc(Stream::DEFAULT, 7).wait()?;
/// store.append(block, 0, IoBuffer::zeroed(8192)).wait().map_err(|failure| failure.error)?;
/// drop(store);
/// let store = block_on(BlocksOnDevice::open(device))?;
/// assert_eq!((store.list()[0].tag, store.list()[0].written_bytes), (7, 8192));
/// # Ok(())
/// # }
/// ```
pub struct BlocksOnDevice {
    core: Arc<StoreCore>,
}

struct StoreCore {
    device: Arc<dyn Device>,
    info: StoreInfo,
    places: Places,
    ledger: Ledger,
    state: Mutex<StoreState>,
    appended_bytes: Vec<AtomicU64>,
    read_bytes: AtomicU64,
    freed_bytes: AtomicU64,
}

struct StoreState {
    table: Table,
    /// Taken while it is being written.
    journal: Option<Journal>,
    /// Records that wait for a page of the journal, in order.
    pending: VecDeque<PendingRecord>,
}

/// A record in flight, and what to do once it is durable.
enum PendingRecord {
    Alloc { block: BlockId, region: u32, stream: Stream, tag: u64, completer: Completer },
    Append { block: BlockId, piece: PendingAppend },
    Free { block: BlockId, completer: Completer },
}

impl PendingRecord {
    fn record(&self) -> Record {
        match *self {
            Self::Alloc { block, region, stream, tag, .. } => Record::Allocated {
                block: block.number(),
                region,
                stream: stream.index(),
                tag,
                bytes: 0,
            },
            Self::Append { block, ref piece } => {
                Record::Written { block: block.number(), bytes: piece.end }
            }
            Self::Free { block, .. } => Record::Freed { block: block.number() },
        }
    }
}

impl BlocksOnDevice {
    /// Makes a store of the whole device. Its content is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if no such store fits the device; errors of the device.
    pub async fn format(device: Arc<dyn Device>, options: &BlocksOptions) -> Result<Self, Error> {
        let places = Places::plan(options, device.info())?;
        // Erase both heads first, so that an older store does not come back if this is interrupted: the newest head
        // counts.
        for half in 0..2 {
            journal::clear(&*device, &places, half).await?;
        }
        let filling = Filling { uuid: Uuid::draw(), generation: 1 };
        let journal = journal::begin(&*device, &places, 0, filling, (&[], 1)).await?;
        let table = Table::empty(places.regions);
        Ok(Self::with(device, recover::RecoveredBlocks { places, journal, table, next_block: 1 }))
    }

    /// Opens the store on the device.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is none, or its journal is damaged in a way that a loss of power cannot explain;
    /// errors of the device. Nothing is written then.
    pub async fn open(device: Arc<dyn Device>) -> Result<Self, Error> {
        let recovered = recover::recover(&*device).await?;
        Ok(Self::with(device, recovered))
    }

    fn with(device: Arc<dyn Device>, recovered: recover::RecoveredBlocks) -> Self {
        let recover::RecoveredBlocks { places, journal, table, next_block } = recovered;
        let page_bytes = u32::try_from(PAGE_BYTES).expect("a page is small");
        let streams = device.info().placement.handles;
        let info = StoreInfo {
            name: format!("blocks on {}", device.info().name),
            block_bytes: places.block_bytes,
            page_bytes,
            blocks: places.regions,
            streams,
            open_blocks_max: None,
            isolation: IsolationLevel::Partition,
            kind: "blocks on a device",
        };
        let blocks = table.blocks.iter().map(|(&number, mapped)| BlockState {
            block: BlockId::new(number),
            tag: mapped.tag,
            stream: Stream::new(mapped.stream),
            written_bytes: mapped.written,
            closed: false,
        });
        let ledger = Ledger::restored(blocks, next_block);
        let state = StoreState { table, journal: Some(journal), pending: VecDeque::new() };
        let core = StoreCore {
            device,
            info,
            places,
            ledger,
            state: Mutex::new(state),
            appended_bytes: (0..streams).map(|_| AtomicU64::new(0)).collect(),
            read_bytes: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
        };
        Self { core: Arc::new(core) }
    }
}

impl StoreCore {
    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alloc(self: &Arc<Self>, block: BlockId, stream: Stream, tag: u64) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        let region = self.lock().table.free.pop_front();
        let region = region.expect("the ledger admits no more blocks than there are regions");
        self.push([PendingRecord::Alloc { block, region, stream, tag, completer }]);
        future
    }

    fn append(self: &Arc<Self>, block: BlockId, at: u64, buffer: IoBuffer) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        let mut state = self.lock();
        let Some(mapped) = state.table.blocks.get_mut(&block.number()) else {
            drop(state);
            completer.complete(Err(IoFailure { error: freed_meanwhile(block), buffer }));
            return future;
        };
        mapped.begin(PendingAppend { at, end: at + buffer.len() as u64, ended: None, completer });
        let offset = self.places.region(mapped.region) + at;
        let stream = mapped.stream;
        drop(state);
        self.appended_bytes[usize::from(stream)].fetch_add(buffer.len() as u64, Ordering::Relaxed);
        let (handle, durability) = (PlacementHandle::new(stream), Durability::Power);
        let write = self.device.submit(Io::Write { offset, buffer, handle, durability });
        let core = Arc::clone(self);
        steps::carry_on(async move {
            let ended = write.await.map_err(|failure| (failure.error, failure.buffer));
            let due = {
                let mut state = core.lock();
                let mapped = state.table.blocks.get_mut(&block.number());
                mapped.expect("what is under way is not freed").ended(at, ended)
            };
            core.carry_out(block, due);
        });
        future
    }

    /// Handles the consequences of the end of a write.
    fn carry_out(self: &Arc<Self>, block: BlockId, due: DueWork) {
        let DueWork { landed, failed, freeing } = due;
        let landed = landed.into_iter().map(|piece| PendingRecord::Append { block, piece });
        let freeing = freeing.map(|completer| PendingRecord::Free { block, completer });
        self.push(landed.chain(freeing));
        for piece in failed {
            self.ledger.closed(block);
            let (error, buffer) = match piece.ended.expect("it has ended") {
                Err(failure) => failure,
                Ok(buffer) => {
                    let context =
                        format!("append at {} of block {block}: {}", piece.at, behind_failed());
                    (Error::new(ErrorKind::Io, context), buffer)
                }
            };
            piece.completer.complete(Err(IoFailure { error, buffer }));
        }
    }

    fn read(self: &Arc<Self>, block: BlockId, offset: u64, buffer: IoBuffer) -> IoFuture {
        let region = self.lock().table.blocks.get(&block.number()).map(|mapped| mapped.region);
        let Some(region) = region else {
            return IoFuture::ready(Err(Ledger::gone(block, buffer)));
        };
        self.read_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        let offset = self.places.region(region) + offset;
        let read = self.device.submit(Io::Read { offset, buffer });
        let core = Arc::clone(self);
        steps::request(async move {
            let buffer = read.await?;
            // The region may belong to another block by now.
            if core.ledger.is_there(block) { Ok(buffer) } else { Err(Ledger::gone(block, buffer)) }
        })
    }

    fn free(self: &Arc<Self>, block: BlockId) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        let completer = {
            let mut state = self.lock();
            let mapped = state.table.blocks.get_mut(&block.number());
            mapped.expect("the ledger knows it").free(completer)
        };
        self.push(completer.map(|completer| PendingRecord::Free { block, completer }));
        future
    }

    /// Hands records to the journal, and starts writing it if it is at rest.
    fn push(self: &Arc<Self>, pending: impl IntoIterator<Item = PendingRecord>) {
        let mut state = self.lock();
        state.pending.extend(pending);
        if state.pending.is_empty() {
            return;
        }
        let Some(journal) = state.journal.take() else { return };
        drop(state);
        steps::carry_on(Arc::clone(self).write_journal(journal));
    }

    /// Writes all waiting records, a page at a time.
    async fn write_journal(self: Arc<Self>, mut journal: Journal) {
        loop {
            let batch: Vec<PendingRecord> = {
                let mut state = self.lock();
                let count = state.pending.len().min(RECORDS_MAX);
                if count == 0 {
                    state.journal = Some(journal);
                    return;
                }
                state.pending.drain(..count).collect()
            };
            let records: Vec<Record> = batch.iter().map(PendingRecord::record).collect();
            let written = self.write_page(&mut journal, &records).await;
            for pending in batch {
                match &written {
                    Ok(()) if self.is_behind_failed(&pending) => {
                        self.fail(pending, &behind_failed())
                    }
                    Ok(()) => self.became_durable(pending),
                    Err(error) => self.fail(pending, error),
                }
            }
        }
    }

    /// Whether it is an append after one whose record could not be written: then it has not landed.
    fn is_behind_failed(&self, pending: &PendingRecord) -> bool {
        let PendingRecord::Append { block, piece } = pending else { return false };
        let state = self.lock();
        state.table.blocks.get(&block.number()).is_some_and(|mapped| mapped.has_failed(piece.at))
    }

    async fn write_page(&self, journal: &mut Journal, records: &[Record]) -> Result<(), Error> {
        if !journal.has_room(&self.places) {
            let snapshot = self.lock().table.snapshot();
            let next_block = self.ledger.next().number();
            let of = (&snapshot[..], next_block);
            *journal = journal.compacted(&*self.device, &self.places, of).await?;
        }
        journal.log(&*self.device, &self.places, records).await
    }

    /// Acknowledges a request whose record is on flash.
    fn became_durable(self: &Arc<Self>, pending: PendingRecord) {
        let region = {
            let table = &mut self.lock().table;
            let of = match &pending {
                PendingRecord::Free { block, .. } => table.blocks.get(&block.number()),
                _ => None,
            };
            let region = of.map(|mapped| mapped.region);
            match &pending {
                &PendingRecord::Alloc { block, region, stream, tag, .. } => {
                    let mapped = MappedBlock::new(region, stream.index(), tag, 0);
                    let before = table.blocks.insert(block.number(), mapped);
                    assert!(before.is_none(), "block {block} is allocated once");
                }
                other => {
                    let applied = table.apply(other.record(), self.places.block_bytes);
                    applied.expect("the journal has what the ledger admitted");
                }
            }
            region
        };
        match pending {
            PendingRecord::Alloc { block, completer, .. } => {
                self.ledger.allocated(block, true);
                completer.complete(Ok(IoBuffer::empty()));
            }
            PendingRecord::Append { block, piece } => {
                self.ledger.landed(block, piece.at, piece.end);
                let buffer = piece.ended.and_then(Result::ok).expect("its bytes are there");
                piece.completer.complete(Ok(buffer));
            }
            PendingRecord::Free { block, completer } => {
                let region = region.expect("it had one");
                let core = Arc::clone(self);
                steps::carry_on(async move { core.give_back(block, region, completer).await });
            }
        }
    }

    /// Frees the region of a block that no longer exists.
    async fn give_back(&self, block: BlockId, region: u32, completer: Completer) {
        let (offset, bytes) = (self.places.region(region), self.places.block_bytes);
        // Ignore errors: to this store the bytes are dead in any case.
        let _ = self.device.submit(Io::Deallocate { offset, bytes }).await;
        self.freed_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.lock().table.free.push_back(region);
        self.ledger.freed(block, true);
        completer.complete(Ok(IoBuffer::empty()));
    }

    /// Fails a request whose record may or may not be on flash.
    fn fail(&self, pending: PendingRecord, cause: &Error) {
        let error = |what: &str, block: BlockId| {
            Error::new(cause.kind(), format!("{what} of block {block}: {cause}"))
        };
        match pending {
            PendingRecord::Alloc { block, region, completer, .. } => {
                self.lock().table.free.push_back(region);
                self.ledger.allocated(block, false);
                let error = error("allocation", block);
                completer.complete(Err(IoFailure::without_buffer(error)));
            }
            PendingRecord::Append { block, piece } => {
                self.ledger.closed(block);
                if let Some(mapped) = self.lock().table.blocks.get_mut(&block.number()) {
                    mapped.fail(piece.at);
                }
                let buffer = piece.ended.and_then(Result::ok).unwrap_or_else(IoBuffer::empty);
                let failure = IoFailure { error: error("append", block), buffer };
                piece.completer.complete(Err(failure));
            }
            PendingRecord::Free { block, completer } => {
                self.ledger.freed(block, false);
                let error = error("freeing", block);
                completer.complete(Err(IoFailure::without_buffer(error)));
            }
        }
    }
}

#[cold]
fn behind_failed() -> Error {
    Error::new(ErrorKind::Io, "one before it failed; free the block")
}

#[cold]
fn freed_meanwhile(block: BlockId) -> Error {
    Error::new(
        ErrorKind::NotOpen,
        format!("append to block {block}: it was freed during the append"),
    )
}

impl BlockStore for BlocksOnDevice {
    fn info(&self) -> &StoreInfo {
        &self.core.info
    }

    fn ledger(&self) -> &Ledger {
        &self.core.ledger
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        match io.into_inner() {
            BlockIo::Alloc { block, stream, tag } => self.core.alloc(block, stream, tag),
            BlockIo::Append { block, at, buffer } => self.core.append(block, at, buffer),
            BlockIo::Read { block, offset, buffer } => self.core.read(block, offset, buffer),
            BlockIo::Free { block } => self.core.free(block),
            BlockIo::Flush => self.core.device.submit(Io::Flush),
        }
    }

    /// The host's bytes are those of appends and reads; the journal counts among the media bytes.
    fn stats(&self) -> DeviceStats {
        let below = self.core.device.stats();
        let by_stream: Vec<u64> =
            self.core.appended_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect();
        DeviceStats {
            host_read_bytes: self.core.read_bytes.load(Ordering::Relaxed),
            host_written_bytes: by_stream.iter().sum(),
            host_written_bytes_by_handle: by_stream,
            media_written_bytes: Some(below.flash_written_bytes()),
            deallocated_bytes: self.core.freed_bytes.load(Ordering::Relaxed),
            ..below
        }
    }

    fn boot(&self) -> Option<u64> {
        self.core.device.boot()
    }
}
