//! The state of the blocks of a store, and the one place where requests to it are checked.
//!
//! 1. For every block `landed ≤ submitted ≤ block_bytes`. Appends are admitted only at `submitted`, reads only up to
//!    `landed`.
//! 2. A number is given once. A block is in the ledger from the admission of its allocation until its freeing is
//!    durable. So the store's `blocks` limits the allocated blocks, including those in flight.
//! 3. The store reports the end only of requests that were admitted, and reports the end of each allocation, append and
//!    freeing once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_device::{Error, ErrorKind, IoBuffer, IoFailure};

use super::info::{BlockId, StoreInfo, Stream};
use super::request::{BlockIo, CheckedBlockIo};

/// The state of one block of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockState {
    /// Its number.
    pub block: BlockId,
    /// The tag that the block's user gave it.
    pub tag: u64,
    /// Its stream.
    pub stream: Stream,
    /// Bytes that have landed, and can be read.
    pub written_bytes: u64,
    /// Whether it takes no more appends although it may not be full: an append failed, or a loss of power left it so.
    pub closed: bool,
}

/// The state of the blocks of one store.
#[derive(Debug)]
pub struct Ledger(Mutex<LedgerState>);

#[derive(Debug)]
struct LedgerState {
    blocks: BTreeMap<u64, Entry>,
    next: u64,
    /// Ends of appends that landed before an earlier append did, by block and start.
    early: BTreeMap<(u64, u64), u64>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    stream: Stream,
    tag: u64,
    submitted: u64,
    landed: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its allocation is not durable yet.
    Allocating,
    Open,
    /// It takes no more appends.
    Closed,
    /// Its freeing is in flight.
    Freeing,
}

type Refusal = (ErrorKind, String);

impl Ledger {
    /// The ledger of a store without blocks, whose first block gets the number `next`.
    pub fn new(next: u64) -> Self {
        Self(Mutex::new(LedgerState { blocks: BTreeMap::new(), next, early: BTreeMap::new() }))
    }

    /// The ledger of a store that has these blocks, and has given no number from `next` on.
    ///
    /// # Panics
    /// If a block has such a number.
    pub fn restored(blocks: impl IntoIterator<Item = BlockState>, next: u64) -> Self {
        let entry = |state: BlockState| {
            assert!(state.block.number() < next, "{state:?} has a number not given before {next}");
            let phase = if state.closed { Phase::Closed } else { Phase::Open };
            let BlockState { stream, tag, written_bytes, .. } = state;
            let entry =
                Entry { stream, tag, submitted: written_bytes, landed: written_bytes, phase };
            (state.block.number(), entry)
        };
        let blocks = blocks.into_iter().map(entry).collect();
        Self(Mutex::new(LedgerState { blocks, next, early: BTreeMap::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, LedgerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The allocated blocks, in the order of their numbers.
    pub fn list(&self) -> Vec<BlockState> {
        let state = self.lock();
        let listed = state.blocks.iter().filter(|(_, entry)| entry.phase != Phase::Allocating);
        listed.map(|(&number, entry)| entry.state(BlockId::new(number))).collect()
    }

    /// The state of an allocated block.
    pub fn get(&self, block: BlockId) -> Option<BlockState> {
        let state = self.lock();
        let entry = state.blocks.get(&block.number()).filter(|it| it.phase != Phase::Allocating)?;
        Some(entry.state(block))
    }

    /// The number that the next block gets.
    pub fn next(&self) -> BlockId {
        BlockId::new(self.lock().next)
    }

    /// Number of blocks that are neither full nor closed.
    pub fn open_blocks(&self, info: &StoreInfo) -> usize {
        self.lock().open(info)
    }

    /// Admits an allocation, and chooses the block's number.
    ///
    /// # Errors
    /// As [`BlockStore::alloc`](super::BlockStore::alloc) for a bad request.
    pub fn admit_alloc(
        &self,
        info: &StoreInfo,
        stream: Stream,
        tag: u64,
    ) -> Result<(BlockId, CheckedBlockIo), Error> {
        self.admit_alloc_from(info, stream, tag, BlockId::new(0))
    }

    /// Like [`Ledger::admit_alloc`], for a store that numbers its blocks itself, with growing numbers. The block gets
    /// the number `at_least`, or the ledger's next one if that is higher.
    ///
    /// # Errors
    /// As [`Ledger::admit_alloc`].
    pub fn admit_alloc_from(
        &self,
        info: &StoreInfo,
        stream: Stream,
        tag: u64,
        at_least: BlockId,
    ) -> Result<(BlockId, CheckedBlockIo), Error> {
        let mut state = self.lock();
        if let Some((kind, complaint)) = state.refuses_alloc(info, stream) {
            return Err(Error::new(kind, format!("allocation on {}: {complaint}", info.name)));
        }
        let block = BlockId::new(state.next.max(at_least.number()));
        state.next = block.number() + 1;
        let entry = Entry { stream, tag, submitted: 0, landed: 0, phase: Phase::Allocating };
        let before = state.blocks.insert(block.number(), entry);
        assert!(before.is_none(), "block {block} has a number that was given before");
        Ok((block, CheckedBlockIo::new(BlockIo::Alloc { block, stream, tag })))
    }

    /// Admits any other request.
    ///
    /// # Errors
    /// As the methods of [`BlockStore`](super::BlockStore) for bad requests, with the buffer.
    pub fn admit(&self, info: &StoreInfo, io: BlockIo) -> Result<CheckedBlockIo, IoFailure> {
        let mut state = self.lock();
        let refusal = match &io {
            BlockIo::Append { block, at, buffer } => state.append(info, *block, *at, buffer),
            BlockIo::Read { block, offset, buffer } => state.read(info, *block, *offset, buffer),
            BlockIo::Free { block } => state.free(*block),
            BlockIo::Flush => Ok(()),
            BlockIo::Alloc { .. } => {
                Err((ErrorKind::InvalidRequest, "blocks are allocated by `alloc`".to_owned()))
            }
        };
        drop(state);
        let Err((kind, complaint)) = refusal else { return Ok(CheckedBlockIo::new(io)) };
        let context = format!("{} on {}: {complaint}", describe(&io), info.name);
        Err(IoFailure { error: Error::new(kind, context), buffer: io.into_buffer() })
    }

    /// An allocation has ended; `well` says whether it succeeded.
    pub fn allocated(&self, block: BlockId, well: bool) {
        let mut state = self.lock();
        let entry = state.entry(block);
        assert_eq!(entry.phase, Phase::Allocating, "block {block} is allocated once");
        if well {
            entry.phase = Phase::Open;
        } else {
            state.blocks.remove(&block.number());
        }
    }

    /// A store that numbers its blocks itself has refused an allocation before it gave this number: the next block gets
    /// it.
    pub fn alloc_refused(&self, block: BlockId) {
        let mut state = self.lock();
        let refused = state.blocks.remove(&block.number());
        let phase = refused.map(|entry| entry.phase);
        assert_eq!(phase, Some(Phase::Allocating), "block {block} was not allocated");
        if state.next == block.number() + 1 {
            state.next = block.number();
        }
    }

    /// The bytes of an append from `at` to `end` are in place. The append has landed once all appends before it are in
    /// place too.
    pub fn landed(&self, block: BlockId, at: u64, end: u64) {
        let state = &mut *self.lock();
        let entry = state.blocks.get_mut(&block.number()).expect("its append was admitted");
        assert!(
            entry.landed <= at && at < end && end <= entry.submitted,
            "block {block}: {at} to {end} landed of {entry:?}"
        );
        state.early.insert((block.number(), at), end);
        while let Some(end) = state.early.remove(&(block.number(), entry.landed)) {
            entry.landed = end;
        }
    }

    /// The block takes no more appends: one failed, or the store had to close it.
    pub fn closed(&self, block: BlockId) {
        let mut state = self.lock();
        let entry = state.entry(block);
        if entry.phase == Phase::Open {
            entry.phase = Phase::Closed;
        }
    }

    /// A freeing has ended; `well` says whether it succeeded.
    pub fn freed(&self, block: BlockId, well: bool) {
        let mut state = self.lock();
        let entry = state.entry(block);
        assert_eq!(entry.phase, Phase::Freeing, "block {block} is freed once");
        if well {
            state.blocks.remove(&block.number());
            state.early.retain(|(number, _), _| *number != block.number());
        } else {
            entry.phase = Phase::Closed;
        }
    }

    /// Whether the block exists and is not being freed: then bytes read from it before were its own.
    pub fn is_there(&self, block: BlockId) -> bool {
        self.lock().blocks.get(&block.number()).is_some_and(|entry| entry.phase != Phase::Freeing)
    }

    /// The failure of an append that comes after a failed one, or whose block was freed.
    #[cold]
    pub fn takes_no_more(block: BlockId, at: u64, buffer: IoBuffer) -> IoFailure {
        let context =
            format!("append at {at} of block {block}: one before it failed, or it was freed");
        IoFailure { error: Error::new(ErrorKind::NotOpen, context), buffer }
    }

    /// The failure of a read whose block was freed while it ran.
    pub fn gone(block: BlockId, buffer: IoBuffer) -> IoFailure {
        let context = format!("read of block {block}: it was freed during the read");
        IoFailure { error: Error::new(ErrorKind::NotOpen, context), buffer }
    }
}

impl Entry {
    fn state(&self, block: BlockId) -> BlockState {
        BlockState {
            block,
            tag: self.tag,
            stream: self.stream,
            written_bytes: self.landed,
            closed: self.phase != Phase::Open,
        }
    }
}

impl LedgerState {
    fn entry(&mut self, block: BlockId) -> &mut Entry {
        let entry = self.blocks.get_mut(&block.number());
        entry.unwrap_or_else(|| panic!("block {block} ends a request that was never admitted"))
    }

    fn refuses_alloc(&self, info: &StoreInfo, stream: Stream) -> Option<Refusal> {
        if stream.index() >= info.streams {
            let complaint = format!("stream {stream} is not among the store's {}", info.streams);
            return Some((ErrorKind::OutOfRange, complaint));
        }
        if self.blocks.len() as u64 >= info.blocks {
            let complaint = format!("all {} blocks are allocated; free one", info.blocks);
            return Some((ErrorKind::NoSpace, complaint));
        }
        let most = info.open_blocks_max?;
        let open = self.open(info);
        (open >= most as usize).then(|| {
            let complaint =
                format!("{open} blocks are open, and {most} may be; fill or free one of them");
            (ErrorKind::NoSpace, complaint)
        })
    }

    /// Number of blocks that are neither full nor closed.
    fn open(&self, info: &StoreInfo) -> usize {
        let is_open = |entry: &&Entry| {
            matches!(entry.phase, Phase::Allocating | Phase::Open)
                && entry.submitted < info.block_bytes
        };
        self.blocks.values().filter(is_open).count()
    }

    fn append(
        &mut self,
        info: &StoreInfo,
        block: BlockId,
        at: u64,
        buffer: &IoBuffer,
    ) -> Result<(), Refusal> {
        aligned(info, at, buffer)?;
        let entry = self.known(block)?;
        if entry.phase == Phase::Closed {
            let complaint = "it takes no more; free it".to_owned();
            return Err((ErrorKind::NotOpen, complaint));
        }
        let end = entry.submitted;
        if end == info.block_bytes && at == end {
            return Err((ErrorKind::BlockFull, format!("all its {end} bytes are written")));
        }
        if at != end {
            let complaint = format!("the next append begins at {end}");
            return Err((ErrorKind::NotSequential, complaint));
        }
        let room = info.block_bytes - end;
        if buffer.len() as u64 > room {
            return Err((ErrorKind::BlockFull, format!("there is room for {room} bytes")));
        }
        entry.submitted += buffer.len() as u64;
        Ok(())
    }

    fn read(
        &mut self,
        info: &StoreInfo,
        block: BlockId,
        offset: u64,
        buffer: &IoBuffer,
    ) -> Result<(), Refusal> {
        aligned(info, offset, buffer)?;
        let landed = self.known(block)?.landed;
        match offset.checked_add(buffer.len() as u64) {
            Some(end) if end <= landed => Ok(()),
            _ => Err((ErrorKind::OutOfRange, format!("{landed} bytes are written"))),
        }
    }

    fn free(&mut self, block: BlockId) -> Result<(), Refusal> {
        self.known(block)?.phase = Phase::Freeing;
        Ok(())
    }

    /// A block that exists and is not being freed.
    fn known(&mut self, block: BlockId) -> Result<&mut Entry, Refusal> {
        let entry = self.blocks.get_mut(&block.number());
        let known = entry.filter(|it| !matches!(it.phase, Phase::Allocating | Phase::Freeing));
        known.ok_or_else(|| {
            let complaint = "there is no such block: it was freed, or never allocated".to_owned();
            (ErrorKind::NotOpen, complaint)
        })
    }
}

fn aligned(info: &StoreInfo, at: u64, buffer: &IoBuffer) -> Result<(), Refusal> {
    let page = u64::from(info.page_bytes);
    if !at.is_multiple_of(page) {
        let complaint = format!("it begins at no multiple of the {page}-byte page");
        return Err((ErrorKind::Misaligned, complaint));
    }
    let odd = |run: &[u8]| run.is_empty() || !(run.len() as u64).is_multiple_of(page);
    match buffer.runs().find(|run| odd(run)) {
        None => Ok(()),
        Some(run) => {
            let whole = (run.len() as u64).next_multiple_of(page).max(page);
            let complaint =
                format!("{} bytes are no whole {page}-byte pages; give {whole}", run.len());
            Err((ErrorKind::Misaligned, complaint))
        }
    }
}

fn describe(io: &BlockIo) -> String {
    match io {
        BlockIo::Alloc { block, .. } => format!("allocation of block {block}"),
        BlockIo::Append { block, at, buffer } => {
            format!("append of {} bytes at {at} of block {block}", buffer.len())
        }
        BlockIo::Read { block, offset, buffer } => {
            format!("read of {} bytes at {offset} of block {block}", buffer.len())
        }
        BlockIo::Free { block } => format!("freeing of block {block}"),
        BlockIo::Flush => "flush".to_owned(),
    }
}
