//! The store of one vSSD.

use larder_device::{
    Clock, Completer, DeviceStats, Error, ErrorKind, IoBuffer, IoFailure, IoFuture, IoResult,
    RealClock,
};
use larder_vssd::{Isolation, LogicalBlock, VssdId};

use super::array::VssdArray;
use super::errors::of_model;
use super::state::ArrayState;
use crate::info::{BlockId, StoreInfo, Stream};
use crate::isolation::IsolationLevel;
use crate::ledger::{BlockState, Ledger};
use crate::request::{BlockIo, CheckedBlockIo};
use crate::store::{AllocFuture, BlockStore};

/// The blocks of a vSSD. A [`BlockId`] is the number of the logical block, which includes the number of the vSSD: a
/// block of another vSSD is unknown here. There is one stream, because a block is erased as a whole, so nothing is
/// mixed in it.
#[derive(Debug)]
pub struct VssdBlocks {
    array: VssdArray,
    id: VssdId,
    info: StoreInfo,
    ledger: Ledger,
    boot: u64,
}

/// Requests that have ended. They are completed after the array's lock is released, because a waiter may call back at
/// once.
type Ended = Vec<(Completer, IoResult)>;

impl VssdArray {
    /// The store of a vSSD. There is at most one at a time, because it keeps the state of the blocks.
    ///
    /// # Errors
    /// [`ErrorKind::NotOpen`] if there is no vSSD of this number, [`ErrorKind::InUse`] if it has a store already.
    pub fn store(&self, id: VssdId) -> Result<VssdBlocks, Error> {
        VssdBlocks::open(self, id)
    }

    /// What the store of a vSSD would be or is, and the bytes that its blocks hold. A store may be in use meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::NotOpen`] if there is no vSSD of this number.
    pub fn store_info(&self, id: VssdId) -> Result<(StoreInfo, u64), Error> {
        let mut state = self.lock();
        let info = info_of(&mut state, id)?;
        let blocks = state.array()?.blocks(id).map_err(|error| of_model("store", &error))?;
        let written = blocks.iter().map(|found| state.written_bytes(found.block));
        Ok((info, written.sum::<Result<u64, Error>>()?))
    }
}

fn info_of(state: &mut ArrayState, id: VssdId) -> Result<StoreInfo, Error> {
    let page_bytes = state.page_bytes;
    let vssd = state.array()?.info(id).map_err(|error| of_model("store", &error))?;
    Ok(StoreInfo {
        name: format!("vSSD {}", id.0),
        block_bytes: vssd.block_pages * u64::from(page_bytes),
        page_bytes,
        blocks: vssd.blocks.into(),
        streams: 1,
        open_blocks_max: None,
        isolation: level_of(vssd.request.isolation),
        kind: "raw model",
    })
}

impl VssdBlocks {
    pub(super) fn open(array: &VssdArray, id: VssdId) -> Result<Self, Error> {
        let mut state = array.lock();
        let of_vssd = |error: larder_ssd::Error| of_model("store", &error);
        let info = info_of(&mut state, id)?;
        let identity = state.array()?.identity();
        let mut blocks = Vec::new();
        for found in state.array()?.blocks(id).map_err(of_vssd)? {
            blocks.push(BlockState {
                block: BlockId::new(found.block.number()),
                tag: found.tag,
                stream: Stream::DEFAULT,
                written_bytes: state.written_bytes(found.block)?,
                closed: false,
            });
        }
        let last = blocks.iter().map(|state| state.block.number()).max();
        let ledger = Ledger::restored(blocks, last.map_or(0, |last| last + 1));
        let boot = identity.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        state.take_store(id)?;
        drop(state);
        Ok(Self { array: array.clone(), id, info, ledger, boot })
    }

    /// The vSSD.
    pub fn id(&self) -> VssdId {
        self.id
    }

    /// The array of the vSSD.
    pub fn array(&self) -> &VssdArray {
        &self.array
    }

    /// Allocates `block`, which must be the one that the array gives next. A `clean` one may be lent.
    fn make(&self, state: &mut ArrayState, block: BlockId, tag: u64, clean: bool) -> IoFuture {
        let made = match state.array().map(|array| array.next_block(self.id)) {
            Ok(Some(next)) if next.number() != block.number() => {
                let context = format!("allocation of block {block}: {} is the next", next.number());
                Err(Error::new(ErrorKind::InvalidRequest, context))
            }
            // If there is no next block, or the vSSD is gone, the array reports it.
            Ok(_) => self.make_next(state, tag, clean),
            Err(error) => Err(error),
        };
        let next = state.array().ok().and_then(|array| array.next_block(self.id));
        match &made {
            // Otherwise later allocations would not match the numbers that the array gives.
            Err(_) if next.is_some_and(|next| next.number() == block.number()) => {
                self.ledger.alloc_refused(block);
            }
            made => self.ledger.allocated(block, made.is_ok()),
        }
        let ended = made.map(|()| IoBuffer::empty());
        IoFuture::ready(ended.map_err(IoFailure::without_buffer))
    }

    fn make_next(&self, state: &mut ArrayState, tag: u64, clean: bool) -> Result<(), Error> {
        if clean && state.alloc_lent(self.id, tag)?.is_some() {
            return Ok(());
        }
        state.operate("allocation", |array| array.alloc_block(self.id, tag)).map(|_| ())
    }

    fn alloc_either(&self, stream: Stream, tag: u64, clean: bool) -> AllocFuture {
        let mut state = self.array.lock();
        // First: a loan that ends may free a lower number.
        let tended = state.tend_loans(RealClock.monotonic());
        let next = match tended.and_then(|()| state.array()) {
            Ok(array) => array.next_block(self.id).map_or(0, |next| next.number()),
            Err(error) => return AllocFuture::refused(error),
        };
        let next = BlockId::new(next);
        let admitted = self.ledger.admit_alloc_from(&self.info, stream, tag, next);
        AllocFuture::begin(admitted, |block, _| self.make(&mut state, block, tag, clean))
    }

    fn append(&self, block: BlockId, at: u64, buffer: IoBuffer) -> IoFuture {
        let begin = RealClock.monotonic();
        let mut state = self.array.lock();
        match self.ledger.get(block) {
            Some(known) if !known.closed && known.written_bytes < at => {
                let (future, completer) = IoFuture::pending();
                let early = state.early.insert((logical(block), at), (buffer, completer));
                assert!(early.is_none(), "block {block} has two appends at {at}");
                return future;
            }
            Some(known) if !known.closed => {}
            _ => {
                return IoFuture::ready(Err(Ledger::takes_no_more(block, at, buffer)));
            }
        }
        let mut ended = Ended::new();
        let first = self.append_now(&mut state, block, at, buffer);
        let mut next = first.as_ref().ok().map(|buffer| at + buffer.len() as u64);
        while let Some(at) = next {
            let Some((buffer, completer)) = state.early.remove(&(logical(block), at)) else {
                break;
            };
            let done = self.append_now(&mut state, block, at, buffer);
            next = done.as_ref().ok().map(|buffer| at + buffer.len() as u64);
            ended.push((completer, done));
        }
        if next.is_none() {
            fail_early(&mut state, block, &mut ended);
        }
        state.load.record(self.id, begin, RealClock.monotonic());
        drop(state);
        tell(ended);
        IoFuture::ready(first)
    }

    fn append_now(
        &self,
        state: &mut ArrayState,
        block: BlockId,
        at: u64,
        buffer: IoBuffer,
    ) -> IoResult {
        let tended = state.tend_loans(RealClock.monotonic());
        match tended.and_then(|()| state.append(logical(block), &buffer)) {
            Ok(()) => {
                self.ledger.landed(block, at, at + buffer.len() as u64);
                Ok(buffer)
            }
            Err(error) => {
                self.ledger.closed(block);
                let error = error.within(&format!("append at {at} of block {block}"));
                Err(IoFailure { error, buffer })
            }
        }
    }

    fn read(&self, block: BlockId, offset: u64, mut buffer: IoBuffer) -> IoFuture {
        let begin = RealClock.monotonic();
        let mut state = self.array.lock();
        let first = offset / u64::from(self.info.page_bytes);
        let read = state.read(logical(block), first, &mut buffer);
        state.load.record(self.id, begin, RealClock.monotonic());
        IoFuture::ready(match read {
            Ok(()) => Ok(buffer),
            Err(error) => Err(IoFailure { error, buffer }),
        })
    }

    fn free(&self, block: BlockId) -> IoFuture {
        let mut state = self.array.lock();
        let freed = state.free(logical(block));
        self.ledger.freed(block, freed.is_ok());
        let mut ended = Ended::new();
        fail_early(&mut state, block, &mut ended);
        drop(state);
        tell(ended);
        let freed = freed.map(|()| IoBuffer::empty());
        IoFuture::ready(freed.map_err(IoFailure::without_buffer))
    }
}

/// Fails the appends of `block` that wait for one that will not come.
fn fail_early(state: &mut ArrayState, block: BlockId, ended: &mut Ended) {
    let block = logical(block);
    let waiting: Vec<_> =
        state.early.range((block, 0)..=(block, u64::MAX)).map(|(key, _)| *key).collect();
    for key in waiting {
        let Some((buffer, completer)) = state.early.remove(&key) else { continue };
        let failure = Ledger::takes_no_more(BlockId::new(block.number()), key.1, buffer);
        ended.push((completer, Err(failure)));
    }
}

fn tell(ended: Ended) {
    ended.into_iter().for_each(|(completer, result)| completer.complete(result));
}

fn logical(block: BlockId) -> LogicalBlock {
    LogicalBlock::from_number(block.number())
}

/// What a vSSD with this `isolation` shares.
pub(super) fn level_of(isolation: Isolation) -> IsolationLevel {
    match isolation {
        Isolation::Channel => IsolationLevel::Channels,
        Isolation::Die => IsolationLevel::Dies,
        Isolation::Software { .. } => IsolationLevel::Software,
        Isolation::None => IsolationLevel::Shared,
    }
}

impl BlockStore for VssdBlocks {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        match io.into_inner() {
            BlockIo::Alloc { block, tag, .. } => {
                self.make(&mut self.array.lock(), block, tag, false)
            }
            BlockIo::Append { block, at, buffer } => self.append(block, at, buffer),
            BlockIo::Read { block, offset, buffer } => self.read(block, offset, buffer),
            BlockIo::Free { block } => self.free(block),
            BlockIo::Flush => {
                let flushed = self.array.sync().map(|()| IoBuffer::empty());
                IoFuture::ready(flushed.map_err(IoFailure::without_buffer))
            }
        }
    }

    /// The media bytes of a tail are counted with the append that completes its stripe.
    fn stats(&self) -> DeviceStats {
        let stats = self.array.lock().stats.get(&self.id).cloned().unwrap_or_default();
        DeviceStats {
            host_written_bytes_by_handle: vec![stats.host_written_bytes],
            media_written_bytes: Some(stats.media_written_bytes.unwrap_or(0)),
            copied_bytes: Some(stats.copied_bytes.unwrap_or(0)),
            ..stats
        }
    }

    /// The same for the whole life of the array: nothing that has returned is ever lost.
    fn boot(&self) -> Option<u64> {
        Some(self.boot)
    }

    /// The array gives the number under its lock, so that no other allocation comes in between.
    fn alloc(&self, stream: Stream, tag: u64) -> AllocFuture {
        self.alloc_either(stream, tag, false)
    }

    fn alloc_clean(&self, stream: Stream, tag: u64) -> AllocFuture {
        self.alloc_either(stream, tag, true)
    }

    fn is_gone(&self, block: BlockId) -> bool {
        self.array.lock().gone.contains(&logical(block))
    }
}

impl Drop for VssdBlocks {
    fn drop(&mut self) {
        let mut state = self.array.lock();
        state.give_store_back(self.id);
        let mut ended = Ended::new();
        let of_this = |block: LogicalBlock| block.vssd() == self.id;
        let waiting: Vec<_> =
            state.early.keys().map(|(block, _)| *block).filter(|it| of_this(*it)).collect();
        for block in waiting {
            fail_early(&mut state, BlockId::new(block.number()), &mut ended);
        }
        drop(state);
        tell(ended);
    }
}
