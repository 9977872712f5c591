//! Stores of vSSDs in a drive's time, each for a client that is a thread.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use larder_device::{DeviceStats, Error, ErrorKind, IoBuffer, IoFailure, IoFuture};
use larder_ssd::timed::Nanoseconds;
use larder_vssd::timed::TimedVssds;
use larder_vssd::{LogicalBlock, MemoryImages, Pages, VssdId};

use super::errors::of_model;
use super::scheduler::{
    Client, ClientHandle, RunningRequest, SchedulerState, VirtualTimeScheduler,
};
use super::store::level_of;
use crate::info::{BlockId, StoreInfo, Stream};
use crate::ledger::Ledger;
use crate::request::{BlockIo, CheckedBlockIo};
use crate::store::{AllocFuture, BlockStore};

/// The blocks of a vSSD whose requests end when the array's dies have done them ([`larder_vssd::timed`]).
///
/// Its client is one thread, which waits for its futures with [`IoFuture::wait`] or in
/// [`block_on`](larder_device::block_on); other executors would wait forever. Among all clients of an array the one
/// with the earliest time runs. So each client must [enter](Self::enter) before its first request, and drop its store
/// when it is done. Only requests and calls of [`spend`](Self::spend) take time, so the same clients give the same run.
///
/// A page of the store is a stripe. Everything acknowledged is programmed, because such drives have no buffer that
/// survives a loss of power. The bytes are in memory.
///
/// ```
/// use larder_blocks::{BlockStore, Stream, TimedBlocks};
/// use larder_device::IoBuffer;
/// use larder_ssd::raw::{RawConfig, RawSsd};
/// use larder_ssd::timed::{NandTiming, open_channel, DriveTiming};
/// use larder_vssd::timed::{SharePolicy, TimedVssds};
/// use larder_vssd::{Isolation, MemoryImages, Request, Throughputs, Vssds};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let nand = NandTiming { planes: 1, ..open_channel().nand };
/// let timing = DriveTiming { channels: 2, nand, ..open_channel() };
/// let drives = vec![RawSsd::new(RawConfig::new(timing.geometry(16)?))?];
/// let rates = Throughputs { channel_mb_s: 1, die_mb_s: 1, soft_plane_mb_s: 1 };
/// let mut array = Vssds::create(drives, MemoryImages::default(), [7; 16], rates)?;
/// let channel = Request { isolation: Isolation::Channel, mb_s: 1, bytes: 1 };
/// let clients = [array.alloc(channel)?, array.alloc(channel)?];
/// let timed = TimedVssds::new(array, &timing, &SharePolicy::None)?;
/// let writers = TimedBlocks::of(timed, &clients)?.into_iter().map(|store| {
///     std::thread::spawn(move || {
///         store.enter();
///         let block = store.alloc(Stream::DEFAULT, 7).wait()?;
///         store.append(block, 0, IoBuffer::zeroed(16 << 10)).wait().map_err(|it| it.error)?;
///         Ok::<u64, larder_device::Error>(store.now_ns())
///     })
/// });
/// // Each has a channel of its own: 40 us to transfer, 700 us to program, 8 us for the command.
/// for writer in writers.collect::<Vec<_>>() {
///     assert_eq!(writer.join().unwrap()?, 748_000);
/// }
/// # Ok(())
/// # }
/// ```
pub struct TimedBlocks {
    handle: Arc<ClientHandle>,
    vssd: VssdId,
    info: StoreInfo,
    ledger: Arc<Ledger>,
    mapping_bytes: u64,
    stats: Mutex<DeviceStats>,
}

impl fmt::Debug for TimedBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedBlocks").field("info", &self.info).finish_non_exhaustive()
    }
}

impl TimedBlocks {
    /// A store for each of `clients`, which must have no blocks.
    ///
    /// # Errors
    /// [`ErrorKind::NotOpen`] for a vSSD that the array does not have, [`ErrorKind::InUse`] for one that has blocks or
    /// is listed twice, [`ErrorKind::Setup`] for dies whose stripe size is no power of two.
    pub fn of(timed: TimedVssds<MemoryImages>, clients: &[VssdId]) -> Result<Vec<Self>, Error> {
        let Some(geometry) = timed.array().drive(0).map(|drive| *drive.geometry()) else {
            unreachable!("an array has drives");
        };
        let mapping_bytes = u64::from(geometry.mapping_bytes);
        let stripe_bytes = geometry.stripe_pages() * geometry.mapping_bytes;
        if !stripe_bytes.is_power_of_two() {
            let context = format!(
                "timed blocks: dies program {stripe_bytes} bytes at once: must be a power of two; take dies of 1, 2 \
                 or 4 planes and 1, 2 or 4 bits"
            );
            return Err(Error::new(ErrorKind::Setup, context));
        }
        let mut infos = Vec::new();
        for (number, &vssd) in clients.iter().enumerate() {
            let info =
                timed.array().info(vssd).map_err(|error| of_model("timed blocks", &error))?;
            let blocks =
                timed.array().blocks(vssd).map_err(|error| of_model("timed blocks", &error))?;
            if !blocks.is_empty() || clients[..number].contains(&vssd) {
                let context =
                    format!("timed blocks: vSSD {} has blocks or a client already", vssd.0);
                return Err(Error::new(ErrorKind::InUse, context));
            }
            infos.push(StoreInfo {
                name: format!("vSSD {}", vssd.0),
                block_bytes: info.block_pages * mapping_bytes,
                page_bytes: stripe_bytes,
                blocks: info.blocks.into(),
                streams: 1,
                open_blocks_max: None,
                isolation: level_of(info.request.isolation),
                kind: "raw model, in its time",
            });
        }
        let scheduler = Arc::new(VirtualTimeScheduler::new(timed, clients));
        let store = |(client, (&vssd, info))| Self {
            handle: Arc::new(ClientHandle { scheduler: Arc::clone(&scheduler), client }),
            vssd,
            info,
            ledger: Arc::new(Ledger::new(0)),
            mapping_bytes,
            stats: Mutex::new(DeviceStats::default()),
        };
        Ok(clients.iter().zip(infos).enumerate().map(store).collect())
    }

    /// Waits for the first turn of this client. Its thread must call it once.
    pub fn enter(&self) {
        self.handle.scheduler.enter(self.handle.client);
    }

    /// Lets `ns` nanoseconds pass.
    pub fn spend(&self, ns: Nanoseconds) {
        let until = self.state().time_of(self.handle.client) + ns;
        self.handle.scheduler.pass(self.handle.client, Client::Due(until));
    }

    /// Waits until all clients that have not left have called this.
    pub fn meet(&self) {
        self.handle.scheduler.pass(self.handle.client, Client::Meeting);
    }

    /// The client's time, in nanoseconds.
    pub fn now_ns(&self) -> Nanoseconds {
        self.state().time_of(self.handle.client)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, SchedulerState> {
        self.handle.scheduler.lock()
    }

    fn count(&self, count: impl FnOnce(&mut DeviceStats)) {
        count(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn make(&self, state: &mut SchedulerState, block: BlockId, tag: u64) -> IoFuture {
        let made = state.timed.array_mut().alloc_block(self.vssd, tag);
        self.ledger.allocated(block, made.is_ok());
        match made {
            Ok(given) => {
                assert_eq!(given.number(), block.number(), "the array gives the next number");
                state.bytes.insert(block, Vec::new());
                IoFuture::ready(Ok(IoBuffer::empty()))
            }
            Err(error) => failed(of_model("allocation", &error), IoBuffer::empty()),
        }
    }

    /// Submits a request, and retries while a queue is full, each time with the current time.
    fn submit(
        &self,
        mut ask: impl FnMut(&mut SchedulerState, Nanoseconds, u64) -> Result<(), larder_ssd::Error>,
        begin: impl FnOnce(&mut SchedulerState, u64) -> IoFuture,
    ) -> Result<IoFuture, larder_ssd::Error> {
        loop {
            let mut state = self.state();
            let (now, token) = (state.time_of(self.handle.client), state.token());
            match ask(&mut state, now, token) {
                Ok(()) => return Ok(begin(&mut state, token)),
                Err(error) if error.kind() == larder_ssd::ErrorKind::InUse => {}
                Err(error) => return Err(error),
            }
            drop(state);
            // The client's own requests fill the queue: wait until one of them ends.
            self.handle.scheduler.pass(self.handle.client, Client::Waiting);
        }
    }

    fn append(&self, block: BlockId, at: u64, buffer: IoBuffer) -> IoFuture {
        let pages = u32::try_from(buffer.len() as u64 / self.mapping_bytes).unwrap_or(u32::MAX);
        let (first, logical) = (at / self.mapping_bytes, logical(block));
        self.count(|stats| stats.host_written_bytes += buffer.len() as u64);
        let mut buffer = Some(buffer);
        let asked = self.submit(
            |state, now, token| {
                state.timed.append(now, self.vssd, logical, first, Pages::Count(pages), token)
            },
            |state, token| {
                let buffer = buffer.take().unwrap_or_else(IoBuffer::empty);
                let bytes = state.bytes.entry(block).or_default();
                let begin = bytes.len();
                bytes.resize(begin + buffer.len(), 0);
                buffer.copy_out(0, &mut bytes[begin..]);
                let lands = Some((Arc::clone(&self.ledger), block, at));
                let request = RunningRequest { client: self.handle.client, buffer, lands };
                state.begin(token, request, &self.handle)
            },
        );
        asked.unwrap_or_else(|error| {
            self.ledger.closed(block);
            failed(of_model("append", &error), buffer.take().unwrap_or_else(IoBuffer::empty))
        })
    }

    fn read(&self, block: BlockId, offset: u64, buffer: IoBuffer) -> IoFuture {
        let pages = buffer.len() as u64 / self.mapping_bytes;
        let (first, logical) = (offset / self.mapping_bytes, logical(block));
        self.count(|stats| stats.host_read_bytes += buffer.len() as u64);
        let mut buffer = Some(buffer);
        let asked = self.submit(
            |state, now, token| state.timed.read(now, self.vssd, logical, first, pages, token),
            |state, token| {
                let mut buffer = buffer.take().unwrap_or_else(IoBuffer::empty);
                let begin = usize::try_from(offset).unwrap_or(usize::MAX);
                if let Some(bytes) = state.bytes.get(&block) {
                    let length = buffer.len();
                    buffer.copy_in(0, &bytes[begin..begin + length]);
                }
                let request = RunningRequest { client: self.handle.client, buffer, lands: None };
                state.begin(token, request, &self.handle)
            },
        );
        asked.unwrap_or_else(|error| {
            failed(of_model("read", &error), buffer.take().unwrap_or_else(IoBuffer::empty))
        })
    }

    /// The block is free at once; the dies erase it later.
    fn free(&self, block: BlockId) -> IoFuture {
        let mut state = self.state();
        let now = state.time_of(self.handle.client);
        let freed = state.timed.free(now, self.vssd, logical(block));
        let bytes = state.bytes.remove(&block).map_or(0, |bytes| bytes.len() as u64);
        drop(state);
        self.ledger.freed(block, freed.is_ok());
        self.count(|stats| stats.deallocated_bytes += bytes);
        match freed {
            Ok(()) => IoFuture::ready(Ok(IoBuffer::empty())),
            Err(error) => failed(of_model("freeing", &error), IoBuffer::empty()),
        }
    }
}

fn logical(block: BlockId) -> LogicalBlock {
    LogicalBlock::from_number(block.number())
}

fn failed(error: Error, buffer: IoBuffer) -> IoFuture {
    IoFuture::ready(Err(IoFailure { error, buffer }))
}

impl BlockStore for TimedBlocks {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        match io.into_inner() {
            BlockIo::Alloc { block, tag, .. } => self.make(&mut self.state(), block, tag),
            BlockIo::Append { block, at, buffer } => self.append(block, at, buffer),
            BlockIo::Read { block, offset, buffer } => self.read(block, offset, buffer),
            BlockIo::Free { block } => self.free(block),
            BlockIo::Flush => IoFuture::ready(Ok(IoBuffer::empty())),
        }
    }

    fn stats(&self) -> DeviceStats {
        let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone();
        DeviceStats { host_written_bytes_by_handle: vec![stats.host_written_bytes], ..stats }
    }

    /// The array gives the number under its lock, so that no other allocation comes in between.
    fn alloc(&self, stream: Stream, tag: u64) -> AllocFuture {
        let mut state = self.state();
        let next = state.timed.array().next_block(self.vssd).map_or(0, |next| next.number());
        let next = BlockId::new(next);
        let admitted = self.ledger.admit_alloc_from(&self.info, stream, tag, next);
        AllocFuture::begin(admitted, |block, _| self.make(&mut state, block, tag))
    }
}

/// The other clients continue without it.
impl Drop for TimedBlocks {
    fn drop(&mut self) {
        self.handle.scheduler.leave(self.handle.client);
    }
}
