//! Blocks whose requests end when the test says so, and whose power can be lost. Each request in flight then happens or
//! does not; of an append, `Cut` says how many pages may be left.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use larder_blocks::{
    BlockId, BlockIo, BlockState, BlockStore, CheckedBlockIo, Ledger, MemoryBlocks, StoreInfo,
};
use larder_device::{Completer, DeviceStats, Error, ErrorKind, IoBuffer, IoFailure, IoFuture};

use super::{BLOCK_BYTES, PAGE};

/// What a power loss does to blocks with appends in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The append is there completely or not at all; the block takes more appends.
    Whole,
    /// The first pages of the append are there; the block takes no more appends.
    Torn,
}

pub(crate) struct CutBlocks {
    info: StoreInfo,
    ledger: Ledger,
    state: Mutex<State>,
    cut: Cut,
}

struct State {
    bytes: HashMap<BlockId, Vec<u8>>,
    held: Vec<Held>,
    /// Requests in flight at the power loss whose callers have been given an error already.
    stranded: Vec<BlockIo>,
    rng: fastrand::Rng,
    /// Requests until power is lost.
    left: u64,
    /// One append in this number fails; 0 means none.
    fail_one_in: u32,
    /// What fails is stored all the same.
    failed_land: bool,
}

struct Held {
    io: BlockIo,
    completer: Completer,
}

impl CutBlocks {
    pub(crate) fn new(blocks: u64, cut: Cut, seed: u64) -> Self {
        let info = MemoryBlocks::new(blocks, BLOCK_BYTES, 4096).unwrap().info().clone();
        let state = State {
            bytes: HashMap::new(),
            held: Vec::new(),
            stranded: Vec::new(),
            rng: fastrand::Rng::with_seed(seed),
            left: u64::MAX,
            fail_one_in: 0,
            failed_land: false,
        };
        Self { info, ledger: Ledger::new(1), state: Mutex::new(state), cut }
    }

    pub(crate) fn lose_power_after(&self, requests: u64) {
        self.state.lock().unwrap().left = requests;
    }

    pub(crate) fn fail_appends(&self, one_in: u32) {
        let mut state = self.state.lock().unwrap();
        (state.fail_one_in, state.failed_land) = (one_in, false);
    }

    /// As `fail_appends`, and what fails is stored all the same: a restart finds it.
    pub(crate) fn fail_appends_that_land(&self, one_in: u32) {
        let mut state = self.state.lock().unwrap();
        (state.fail_one_in, state.failed_land) = (one_in, true);
    }

    pub(crate) fn is_down(&self) -> bool {
        self.state.lock().unwrap().left == 0
    }

    /// Completes one of the held requests. Returns whether there was one.
    pub(crate) fn release(&self) -> bool {
        let Some(Held { io, completer }) = self.take() else { return false };
        if self.is_down() {
            self.state.lock().unwrap().stranded.push(io);
            completer.complete(Err(gone()));
            return true;
        }
        match io {
            BlockIo::Alloc { block, .. } => {
                self.ledger.allocated(block, true);
                self.state.lock().unwrap().bytes.insert(block, Vec::new());
                completer.complete(Ok(IoBuffer::empty()));
            }
            BlockIo::Append { block, at, buffer } => self.append(block, at, buffer, completer),
            BlockIo::Read { block, offset, mut buffer } => {
                let state = self.state.lock().unwrap();
                let Some(bytes) = state.bytes.get(&block) else {
                    drop(state);
                    completer.complete(Err(Ledger::gone(block, buffer)));
                    return true;
                };
                let from = usize::try_from(offset).unwrap();
                buffer.copy_in(0, &bytes[from..from + buffer.len()]);
                drop(state);
                completer.complete(Ok(buffer));
            }
            BlockIo::Free { block } => {
                self.state.lock().unwrap().bytes.remove(&block);
                self.ledger.freed(block, true);
                completer.complete(Ok(IoBuffer::empty()));
            }
            BlockIo::Flush => completer.complete(Ok(IoBuffer::empty())),
        }
        true
    }

    fn append(&self, block: BlockId, at: u64, buffer: IoBuffer, completer: Completer) {
        let mut state = self.state.lock().unwrap();
        let one_in = state.fail_one_in;
        let fails = one_in > 0 && state.rng.u32(..one_in) == 0;
        let lands = state.failed_land;
        let bytes = state.bytes.get_mut(&block).unwrap();
        // An append behind one that failed.
        let is_gap = bytes.len() as u64 != at;
        if fails || is_gap {
            if lands && !is_gap {
                bytes.extend(buffer.as_slice());
            }
            drop(state);
            self.ledger.closed(block);
            let error = Error::new(ErrorKind::Io, "append failed (simulated)");
            completer.complete(Err(IoFailure { error, buffer }));
            return;
        }
        bytes.extend(buffer.as_slice());
        drop(state);
        self.ledger.landed(block, at, at + buffer.len() as u64);
        completer.complete(Ok(buffer));
    }

    /// Any of the held requests, except that the appends to a block go in order.
    fn take(&self) -> Option<Held> {
        let state = &mut *self.state.lock().unwrap();
        let place = |held: &Held| match held.io {
            BlockIo::Append { block, at, .. } => Some((block, at)),
            _ => None,
        };
        let mut first: BTreeMap<BlockId, u64> = BTreeMap::new();
        for (block, at) in state.held.iter().filter_map(place) {
            let lowest = first.entry(block).or_insert(at);
            *lowest = at.min(*lowest);
        }
        let may = |held: &Held| place(held).is_none_or(|(block, at)| first[&block] == at);
        let candidates: Vec<usize> =
            (0..state.held.len()).filter(|&number| may(&state.held[number])).collect();
        let chosen = state.rng.choice(candidates)?;
        Some(state.held.remove(chosen))
    }

    /// The store as it is found when the power is back.
    pub(crate) fn restarted(&self, seed: u64) -> Self {
        // Dropped here: no caller may still wait for these.
        let held = std::mem::take(&mut self.state.lock().unwrap().held);
        let mut under_way = std::mem::take(&mut self.state.lock().unwrap().stranded);
        under_way.extend(held.into_iter().map(|held| held.io));
        let mut known: BTreeMap<BlockId, BlockState> =
            self.ledger.list().into_iter().map(|state| (state.block, state)).collect();
        let mut bytes = self.state.lock().unwrap().bytes.clone();
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut appends: BTreeMap<(BlockId, u64), IoBuffer> = BTreeMap::new();
        for io in under_way {
            match io {
                BlockIo::Append { block, at, buffer } => drop(appends.insert((block, at), buffer)),
                BlockIo::Alloc { block, stream, tag } if rng.bool() => {
                    let state = BlockState { block, tag, stream, written_bytes: 0, closed: false };
                    known.insert(block, state);
                    bytes.insert(block, Vec::new());
                }
                BlockIo::Free { block } if rng.bool() => {
                    known.remove(&block);
                    bytes.remove(&block);
                }
                other => drop(other),
            }
        }
        for ((block, at), buffer) in appends {
            let (Some(state), Some(there)) = (known.get_mut(&block), bytes.get_mut(&block)) else {
                continue;
            };
            if there.len() as u64 != at || state.closed && self.cut == Cut::Torn {
                continue;
            }
            let pages = buffer.len() / PAGE;
            let kept = match self.cut {
                Cut::Whole => [0, pages][rng.usize(..2)],
                Cut::Torn => rng.usize(..=pages),
            };
            there.extend(&buffer.as_slice()[..kept * PAGE]);
            state.closed = self.cut == Cut::Torn;
        }
        for (block, state) in &mut known {
            state.written_bytes = bytes[block].len() as u64;
            state.closed &= self.cut == Cut::Torn;
        }
        let next = self.ledger.next().number();
        let (held, stranded) = (Vec::new(), Vec::new());
        let left = u64::MAX;
        let state = State { bytes, held, stranded, rng, left, fail_one_in: 0, failed_land: false };
        Self {
            info: self.info.clone(),
            ledger: Ledger::restored(known.into_values(), next),
            state: Mutex::new(state),
            cut: self.cut,
        }
    }

    /// Completes held requests until `future` is done.
    pub(crate) fn finish<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        loop {
            let waker = std::task::Waker::noop();
            match future.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
                std::task::Poll::Ready(output) => return output,
                std::task::Poll::Pending => assert!(self.release(), "nothing is under way"),
            }
        }
    }
}

fn gone() -> IoFailure {
    let error = Error::new(ErrorKind::Gone, "power is lost (simulated)");
    IoFailure { error, buffer: IoBuffer::empty() }
}

impl BlockStore for CutBlocks {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        let mut state = self.state.lock().unwrap();
        let (future, completer) = IoFuture::pending();
        state.left = state.left.saturating_sub(1);
        state.held.push(Held { io: io.into_inner(), completer });
        future
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}
