//! A store that loses power after a number of requests, in the middle of whatever is in flight.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use larder_blocks::{BlockIo, BlockStore, CheckedBlockIo, Ledger, MemoryBlocks, StoreInfo};
use larder_device::{DeviceStats, Error, ErrorKind, IoBuffer, IoFuture};

/// Blocks in memory, until power is lost. Requests in flight at that time are done, not done, or done in part.
pub(crate) struct Mains {
    below: Arc<MemoryBlocks>,
    ledger: Ledger,
    state: Mutex<State>,
    is_off: AtomicBool,
}

struct State {
    rng: fastrand::Rng,
    /// Requests until power is lost.
    left: u64,
    /// Requests that may still be done when power is lost: those that were in flight together.
    dying: u32,
    /// One append in this number fails, although there is power.
    fails_one_in: Option<u32>,
}

impl Mains {
    /// A store with power for `requests` requests that change something.
    pub(crate) fn on(below: Arc<MemoryBlocks>, requests: u64, seed: u64) -> Self {
        let ledger = Ledger::restored(below.list(), below.ledger().next().number());
        let rng = fastrand::Rng::with_seed(seed);
        let state = State { rng, left: requests, dying: 3, fails_one_in: None };
        Self { below, ledger, state: Mutex::new(state), is_off: AtomicBool::new(false) }
    }

    /// Makes one append in `one_in` fail.
    pub(crate) fn failing(self, one_in: u32) -> Self {
        self.state.lock().unwrap().fails_one_in = Some(one_in);
        self
    }

    pub(crate) fn is_off(&self) -> bool {
        self.is_off.load(Ordering::Relaxed)
    }

    /// The fate of the next request: done, not done, or done in part; and the error that it returns.
    fn fate(&self, is_append: bool) -> (Fate, Option<ErrorKind>) {
        let mut state = self.state.lock().unwrap();
        if state.left > 0 {
            state.left -= 1;
            if let Some(one_in) = state.fails_one_in.filter(|_| is_append)
                && state.rng.u32(..one_in) == 0
            {
                return (state.draw(), Some(ErrorKind::Io));
            }
            return (Fate::Happens, None);
        }
        self.is_off.store(true, Ordering::Relaxed);
        if state.dying == 0 {
            return (Fate::Never, Some(ErrorKind::Gone));
        }
        state.dying -= 1;
        (state.draw(), Some(ErrorKind::Gone))
    }
}

impl State {
    fn draw(&mut self) -> Fate {
        match self.rng.u8(..4) {
            0 => Fate::Happens,
            1 => Fate::Never,
            _ => Fate::InPart(self.rng.f64()),
        }
    }
}

#[derive(Clone, Copy)]
enum Fate {
    Happens,
    Never,
    InPart(f64),
}

fn failed(kind: ErrorKind, buffer: IoBuffer) -> IoFuture {
    let error = Error::new(kind, "the power is off");
    IoFuture::ready(Err(larder_device::IoFailure { error, buffer }))
}

impl BlockStore for Mains {
    fn info(&self) -> &StoreInfo {
        self.below.info()
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        match io.into_inner() {
            BlockIo::Read { block, offset, buffer } => self.below.read(block, offset, buffer),
            BlockIo::Flush if !self.is_off() => self.below.flush(),
            BlockIo::Flush => failed(ErrorKind::Gone, IoBuffer::empty()),
            BlockIo::Alloc { block, stream, tag } => {
                let (fate, error) = self.fate(false);
                if !matches!(fate, Fate::Never) {
                    let given = self.below.alloc(stream, tag).wait().unwrap();
                    assert_eq!(given, block, "both give the same numbers");
                }
                self.ledger.allocated(block, error.is_none());
                match error {
                    None => IoFuture::ready(Ok(IoBuffer::empty())),
                    Some(kind) => failed(kind, IoBuffer::empty()),
                }
            }
            BlockIo::Free { block } => {
                let (fate, error) = self.fate(false);
                if !matches!(fate, Fate::Never) {
                    self.below.free(block).wait().unwrap();
                }
                self.ledger.freed(block, error.is_none());
                match error {
                    None => IoFuture::ready(Ok(IoBuffer::empty())),
                    Some(kind) => failed(kind, IoBuffer::empty()),
                }
            }
            BlockIo::Append { block, at, buffer } => {
                let (fate, error) = self.fate(true);
                let mut bytes = vec![0; buffer.len()];
                buffer.copy_out(0, &mut bytes);
                let pages = bytes.len() / 4096;
                let landed = match fate {
                    Fate::Happens => pages,
                    Fate::Never => 0,
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                    Fate::InPart(share) => (pages as f64 * share) as usize,
                };
                if landed > 0 {
                    let mut part = IoBuffer::zeroed(landed * 4096);
                    part.copy_in(0, &bytes[..landed * 4096]);
                    self.below.append(block, at, part).wait().unwrap();
                }
                match error {
                    None => {
                        self.ledger.landed(block, at, at + bytes.len() as u64);
                        IoFuture::ready(Ok(buffer))
                    }
                    Some(kind) => {
                        self.ledger.closed(block);
                        failed(kind, buffer)
                    }
                }
            }
        }
    }

    fn stats(&self) -> DeviceStats {
        self.below.stats()
    }
}
