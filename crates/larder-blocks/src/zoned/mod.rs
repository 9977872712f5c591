//! Blocks on a zoned device, one per zone.
//!
//! The first page of a zone names its block; appends follow. The write pointer of the zone, which the device keeps,
//! gives the number of bytes of the block. Two zones hold a log of what zones cannot record: the block numbers that
//! were given, and the end of a block that was closed before it was full ([`docs/formats.md`][formats] has the bytes).
//!
//! A device limits the number of active zones, which are partly written. A block that was found partly written can be
//! continued. But if a block is allocated while too many are open, the oldest one that was found so, and not written to
//! since, is closed early: its zone is finished, and the rest of the zone is padding.
//!
//! 1. One write is in flight per zone, and it begins at the write pointer.
//! 2. Blocks are made, closed and freed one after the other.
//!
//! [formats]: https://github.com/larder-cache/larder/blob/main/docs/formats.md

mod appends;
mod log;
mod page;
mod recover;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::label::Uuid;
use larder_device::{
    Completer, DeviceStats, Durability, Error, ErrorKind, Io, IoBuffer, IoFailure, IoFuture,
    IoResult, PlacementHandle, Zone, ZoneState, ZonedDevice, steps,
};

use super::info::{BlockId, StoreInfo, Stream};
use super::ledger::Ledger;
use super::request::{BlockIo, CheckedBlockIo};
use super::store::{AllocFuture, BlockStore};
use appends::{AppendStep, ZonedBlock};
use log::Log;
use page::{ClosedEarly, PAGE_BYTES, Page};
use recover::{Division, RecoveredZones};

const PAGE: u64 = PAGE_BYTES as u64;

/// Blocks on a zoned device, which the store has for itself. It is unknown what a zone shares with others, so the
/// isolation is unknown.
#[derive(Debug)]
pub struct ZonedBlocks {
    core: Arc<ZonedCore>,
}

struct ZonedCore {
    device: Arc<dyn ZonedDevice>,
    uuid: Uuid,
    info: StoreInfo,
    ledger: Ledger,
    state: Mutex<ZonedState>,
    appended_bytes: AtomicU64,
    read_bytes: AtomicU64,
    freed_bytes: AtomicU64,
    padded_bytes: AtomicU64,
}

struct ZonedState {
    blocks: HashMap<u64, ZonedBlock>,
    /// Empty zones.
    free: VecDeque<Zone>,
    /// Bytes of the blocks that were closed early.
    closed_early: BTreeMap<u64, u64>,
    /// Blocks that were found with room, and not written to since.
    stale: BTreeSet<u64>,
    /// Blocks that take no more appends, and whose zones could not be finished yet.
    unfinished: BTreeSet<u64>,
    /// Taken while pending operations are being done.
    log: Option<Log>,
    pending: VecDeque<PendingOperation>,
}

/// Operations that are done one after the other.
enum PendingOperation {
    Alloc {
        block: BlockId,
        tag: u64,
        completer: Completer,
    },
    /// The block's zone must not stay active.
    Close(BlockId),
    /// The block has no request in flight any more.
    Free {
        block: BlockId,
        completer: Completer,
    },
}

impl std::fmt::Debug for ZonedCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("info", &self.info).finish_non_exhaustive()
    }
}

impl ZonedBlocks {
    /// Makes a store of all zones. Their content is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if no such store fits the device; errors of the device.
    pub async fn format(device: Arc<dyn ZonedDevice>) -> Result<Self, Error> {
        let division = Division::plan(&device, device.report()?)?;
        // Empty the log's zones first: without a log there is no store, so an old one does not come back if this is
        // interrupted.
        for zone in division.log.iter().chain(&division.zones) {
            if zone.state != ZoneState::Empty && zone.state != ZoneState::ReadOnly {
                device.reset(zone)?;
            }
        }
        let uuid = Uuid::draw();
        let log = Log::begin(&device, division.log, uuid).await?;
        let is_writable = |zone: &Zone| zone.state != ZoneState::ReadOnly;
        let free = division.zones.iter().copied().filter(is_writable).collect();
        let (blocks, closed_early) = (Vec::new(), BTreeMap::new());
        let fresh = RecoveredZones { uuid, log, next_block: 1, blocks, free, closed_early };
        Ok(Self::with(device, division.info, fresh))
    }

    /// Opens the store on the device.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if there is none, if zones hold other data, or if it is damaged in a way that a loss of
    /// power cannot explain: nothing is written then. Errors of the device.
    pub async fn open(device: Arc<dyn ZonedDevice>) -> Result<Self, Error> {
        let division = Division::plan(&device, device.report()?)?;
        let mut recovered = recover::recover(&device, &division).await?;
        recovered.free.retain(|zone| zone.state != ZoneState::ReadOnly);
        // Allocations that were interrupted.
        for zone in recovered.free.iter().filter(|zone| zone.state != ZoneState::Empty) {
            device.reset(zone)?;
        }
        let is_active = |zone: &Zone| matches!(zone.state, ZoneState::Open | ZoneState::Closed);
        let block_bytes = division.info.block_bytes;
        let ended = recovered
            .blocks
            .iter()
            .filter(|(zone, it)| is_active(zone) && (it.closed || it.written_bytes == block_bytes));
        let ended: Vec<BlockId> = ended.map(|(_, state)| state.block).collect();
        let store = Self::with(device, division.info, recovered);
        store.core.push(ended.into_iter().map(PendingOperation::Close));
        Ok(store)
    }

    fn with(device: Arc<dyn ZonedDevice>, info: StoreInfo, recovered: RecoveredZones) -> Self {
        let RecoveredZones { uuid, log, next_block, blocks, free, closed_early } = recovered;
        let has_room = |written: u64| written < info.block_bytes;
        let stale = blocks.iter().filter(|(_, it)| !it.closed && has_room(it.written_bytes));
        let stale = stale.map(|(_, state)| state.block.number()).collect();
        let ledger = Ledger::restored(blocks.iter().map(|(_, state)| *state), next_block);
        let zoned = |(zone, state): &(Zone, super::BlockState)| {
            (state.block.number(), ZonedBlock::new(*zone, state.written_bytes))
        };
        let state = ZonedState {
            blocks: blocks.iter().map(zoned).collect(),
            free: free.into(),
            closed_early,
            stale,
            unfinished: BTreeSet::new(),
            log: Some(log),
            pending: VecDeque::new(),
        };
        let core = ZonedCore {
            device,
            uuid,
            info,
            ledger,
            state: Mutex::new(state),
            appended_bytes: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
            padded_bytes: AtomicU64::new(0),
        };
        Self { core: Arc::new(core) }
    }

    /// Bytes of zones that were finished with room in them, since the store was opened.
    pub fn padded_bytes(&self) -> u64 {
        self.core.padded_bytes.load(Ordering::Relaxed)
    }
}

impl ZonedCore {
    fn lock(&self) -> MutexGuard<'_, ZonedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If the limit of open blocks is reached, closes a block that was not written to since it was found. Its zone is
    /// finished before the next block gets one.
    fn close_for_room(&self) {
        let most = self.info.open_blocks_max.map(|most| most as usize);
        if most.is_none_or(|most| self.ledger.open_blocks(&self.info) < most) {
            return;
        }
        let mut state = self.lock();
        let Some(block) = state.stale.pop_first() else { return };
        state.unfinished.insert(block);
        drop(state);
        self.ledger.closed(BlockId::new(block));
    }

    fn alloc(self: &Arc<Self>, block: BlockId, tag: u64) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        self.push([PendingOperation::Alloc { block, tag, completer }]);
        future
    }

    fn append(self: &Arc<Self>, block: BlockId, at: u64, buffer: IoBuffer) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        let mut state = self.lock();
        state.stale.remove(&block.number());
        let zoned = state.blocks.get_mut(&block.number()).filter(|zoned| !zoned.failed);
        let Some(zoned) = zoned else {
            drop(state);
            return IoFuture::ready(Err(Ledger::takes_no_more(block, at, buffer)));
        };
        let begins = zoned.append(at, buffer, completer);
        drop(state);
        if begins {
            steps::carry_on(Arc::clone(self).work_on(block));
        }
        future
    }

    fn free(self: &Arc<Self>, block: BlockId) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        let begins = {
            let mut state = self.lock();
            state.stale.remove(&block.number());
            state.blocks.get_mut(&block.number()).expect("the ledger knows it").free(completer)
        };
        if begins {
            steps::carry_on(Arc::clone(self).work_on(block));
        }
        future
    }

    /// Carries out the waiting requests of a block, in order.
    async fn work_on(self: Arc<Self>, block: BlockId) {
        loop {
            let (step, zone) = {
                let mut state = self.lock();
                let zoned = state.blocks.get_mut(&block.number());
                let zoned = zoned.expect("it is freed when nothing is under way");
                (zoned.step(), zoned.zone)
            };
            match step {
                AppendStep::Rest => return,
                AppendStep::Reset(completer) => {
                    return self.push([PendingOperation::Free { block, completer }]);
                }
                AppendStep::Write { at, buffer, completer } => {
                    let written = self.write(zone.start + PAGE + at, buffer).await;
                    self.wrote(block, &zone, at, written, completer);
                }
            }
        }
    }

    /// Writes in pieces that fit one command each: the device would have the pieces of a longer write in flight
    /// together.
    async fn write(&self, offset: u64, buffer: IoBuffer) -> IoResult {
        let (handle, durability) = (PlacementHandle::DEFAULT, Durability::Power);
        let most =
            (self.device.info().max_transfer_bytes as usize / PAGE_BYTES).max(1) * PAGE_BYTES;
        if buffer.len() <= most {
            return self.device.submit(Io::Write { offset, buffer, handle, durability }).await;
        }
        let mut done = 0;
        while done < buffer.len() {
            let mut piece = IoBuffer::zeroed(most.min(buffer.len() - done));
            buffer.copy_out(done, piece.as_mut_slice());
            let (at, bytes) = (offset + done as u64, piece.len());
            let write = Io::Write { offset: at, buffer: piece, handle, durability };
            if let Err(failure) = self.device.submit(write).await {
                return Err(IoFailure { error: failure.error, buffer });
            }
            done += bytes;
        }
        Ok(buffer)
    }

    fn wrote(
        self: &Arc<Self>,
        block: BlockId,
        zone: &Zone,
        at: u64,
        written: IoResult,
        completer: Completer,
    ) {
        let mut state = self.lock();
        let zoned = state.blocks.get_mut(&block.number()).expect("it is there while it is written");
        match written {
            Ok(buffer) => {
                let end = at + buffer.len() as u64;
                zoned.wrote(end);
                drop(state);
                self.ledger.landed(block, at, end);
                self.appended_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
                completer.complete(Ok(buffer));
                // A zone whose capacity is no whole number of pages does not become full by itself.
                if end == self.info.block_bytes && zone.capacity_bytes > PAGE + end {
                    self.push([PendingOperation::Close(block)]);
                }
            }
            Err(failure) => {
                let waiting = zoned.fail();
                drop(state);
                self.ledger.closed(block);
                let error = failure.error.within(&format!("append at {at} of block {block}"));
                completer.complete(Err(IoFailure { error, buffer: failure.buffer }));
                for (at, buffer, completer) in waiting {
                    completer.complete(Err(Ledger::takes_no_more(block, at, buffer)));
                }
                self.push([PendingOperation::Close(block)]);
            }
        }
    }

    fn read(self: &Arc<Self>, block: BlockId, offset: u64, buffer: IoBuffer) -> IoFuture {
        let zone = self.lock().blocks.get(&block.number()).map(|zoned| zoned.zone);
        let Some(zone) = zone else {
            return IoFuture::ready(Err(Ledger::gone(block, buffer)));
        };
        self.read_bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        let offset = zone.start + PAGE + offset;
        let read = self.device.submit(Io::Read { offset, buffer });
        let core = Arc::clone(self);
        steps::request(async move {
            let buffer = read.await?;
            // The zone may belong to another block by now.
            if core.ledger.is_there(block) { Ok(buffer) } else { Err(Ledger::gone(block, buffer)) }
        })
    }

    /// Adds pending operations, and starts doing them if the log is at rest.
    fn push(self: &Arc<Self>, pending: impl IntoIterator<Item = PendingOperation>) {
        let mut state = self.lock();
        state.pending.extend(pending);
        if state.pending.is_empty() {
            return;
        }
        let Some(log) = state.log.take() else { return };
        drop(state);
        steps::carry_on(Arc::clone(self).do_pending(log));
    }

    async fn do_pending(self: Arc<Self>, mut log: Log) {
        loop {
            let pending = {
                let mut state = self.lock();
                let Some(pending) = state.pending.pop_front() else {
                    state.log = Some(log);
                    return;
                };
                pending
            };
            match pending {
                PendingOperation::Alloc { block, tag, completer } => {
                    let made = self.make(&mut log, block, tag).await;
                    self.ledger.allocated(block, made.is_ok());
                    let made = made
                        .map(|()| IoBuffer::empty())
                        .map_err(|error| error.within(&format!("allocation of block {block}")));
                    completer.complete(made.map_err(IoFailure::without_buffer));
                }
                PendingOperation::Close(block) => {
                    self.lock().unfinished.insert(block.number());
                    // On failure the next allocation tries again.
                    let _ = self.finish_ended(&mut log).await;
                }
                PendingOperation::Free { block, completer } => self.empty(block, completer),
            }
        }
    }

    async fn make(&self, log: &mut Log, block: BlockId, tag: u64) -> Result<(), Error> {
        self.finish_ended(log).await?;
        if !log.has_reserved(block.number()) {
            log.reserve(&self.device, block.number(), &self.all_closed_early()).await?;
        }
        let zone = self.lock().free.pop_front();
        let no_zone = || Error::new(ErrorKind::NoSpace, "its last zones take no more");
        let zone = zone.ok_or_else(no_zone)?;
        let header = page::encode(self.uuid, &Page::Header { block: block.number(), tag });
        if let Err(error) = log::write_page(&self.device, zone.start, header).await {
            // A zone that cannot be emptied is not used again until the store is opened anew.
            if self.device.reset(&zone).is_ok() {
                self.lock().free.push_back(zone);
            }
            return Err(error);
        }
        self.lock().blocks.insert(block.number(), ZonedBlock::new(zone, 0));
        Ok(())
    }

    async fn finish_ended(&self, log: &mut Log) -> Result<(), Error> {
        loop {
            let Some(block) = self.lock().unfinished.first().copied() else { return Ok(()) };
            self.finish(log, BlockId::new(block)).await?;
            self.lock().unfinished.remove(&block);
        }
    }

    /// Records the end of a block that takes no more appends, and finishes its zone, so that it is not active any more.
    async fn finish(&self, log: &mut Log, block: BlockId) -> Result<(), Error> {
        let state = self.ledger.get(block);
        let zone = self.lock().blocks.get(&block.number()).map(|zoned| zoned.zone);
        let (Some(zone), Some(state)) = (zone, state) else { return Ok(()) };
        let closed = ClosedEarly { block: block.number(), bytes: state.written_bytes };
        self.lock().closed_early.insert(closed.block, closed.bytes);
        log.close(&self.device, closed, &self.all_closed_early()).await?;
        self.device.finish(&zone)?;
        let padding = zone.capacity_bytes.saturating_sub(PAGE + closed.bytes);
        self.padded_bytes.fetch_add(padding, Ordering::Relaxed);
        Ok(())
    }

    fn all_closed_early(&self) -> Vec<ClosedEarly> {
        let state = self.lock();
        let all = state.closed_early.iter();
        all.map(|(&block, &bytes)| ClosedEarly { block, bytes }).collect()
    }

    fn empty(&self, block: BlockId, completer: Completer) {
        let zone = self.lock().blocks[&block.number()].zone;
        let emptied = self.device.reset(&zone);
        let mut state = self.lock();
        if emptied.is_ok() {
            state.blocks.remove(&block.number());
            state.closed_early.remove(&block.number());
            state.free.push_back(zone);
            self.freed_bytes.fetch_add(self.info.block_bytes, Ordering::Relaxed);
        } else if let Some(zoned) = state.blocks.get_mut(&block.number()) {
            zoned.stays();
        }
        drop(state);
        self.ledger.freed(block, emptied.is_ok());
        let emptied = emptied.map(|()| IoBuffer::empty());
        let emptied = emptied.map_err(|error| error.within(&format!("freeing of block {block}")));
        completer.complete(emptied.map_err(IoFailure::without_buffer));
    }
}

impl BlockStore for ZonedBlocks {
    fn info(&self) -> &StoreInfo {
        &self.core.info
    }

    fn ledger(&self) -> &Ledger {
        &self.core.ledger
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        match io.into_inner() {
            BlockIo::Alloc { block, tag, .. } => self.core.alloc(block, tag),
            BlockIo::Append { block, at, buffer } => self.core.append(block, at, buffer),
            BlockIo::Read { block, offset, buffer } => self.core.read(block, offset, buffer),
            BlockIo::Free { block } => self.core.free(block),
            BlockIo::Flush => self.core.device.submit(Io::Flush),
        }
    }

    /// Padding counts as written, because it uses space.
    fn stats(&self) -> DeviceStats {
        let core = &*self.core;
        let below = core.device.stats();
        let appended = core.appended_bytes.load(Ordering::Relaxed);
        DeviceStats {
            host_read_bytes: core.read_bytes.load(Ordering::Relaxed),
            host_written_bytes: appended,
            host_written_bytes_by_handle: vec![appended],
            media_written_bytes: Some(below.flash_written_bytes() + self.padded_bytes()),
            deallocated_bytes: core.freed_bytes.load(Ordering::Relaxed),
            ..below
        }
    }

    fn boot(&self) -> Option<u64> {
        self.core.device.boot()
    }

    /// First makes room among the open blocks.
    fn alloc(&self, stream: Stream, tag: u64) -> AllocFuture {
        self.core.close_for_room();
        let admitted = self.core.ledger.admit_alloc(&self.core.info, stream, tag);
        AllocFuture::begin(admitted, |_, io| self.start(io))
    }
}
