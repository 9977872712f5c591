//! A request on its way to the kernel, and the shares in it that its pieces hold. The last share to go ends it.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::buffer::IoBuffer;
use crate::error::{Error, ErrorKind};
use crate::fixed_index::Tag;
use crate::io::{Completer, IoFailure};
use crate::spares::{Heap, Spares, sole};
use crate::transfer::ledger::Ledger;

/// Operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Read,
    Write,
    Deallocate,
    /// Make a range read as zeros.
    Zero,
    Flush,
}

/// One request.
pub(super) struct Transfer {
    pub(super) verb: Verb,
    /// Index of the placement handle.
    pub(super) handle: u16,
    /// Whether it is a write that must survive a loss of power.
    pub(super) durable: bool,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Start of the buffer's memory, derived from `buffer` after that was stored here.
    pub(super) memory: *mut u8,
    /// For a list: the memory of each buffer, and where it ends within the request. Empty if there is one buffer.
    pub(super) runs: Vec<Run>,
    /// Start and bytes of the metadata, which have a buffer of their own; null and 0 if there are none.
    pub(super) metadata: *mut u8,
    pub(super) metadata_bytes: u64,
    /// The tag by which a ring may know the buffer, and the buffer's bytes.
    pub(super) registrable: Option<(Tag, usize)>,
    pub(super) buffer: UnsafeCell<IoBuffer>,
    pub(super) ending: Mutex<EndingRequest>,
    /// `None` while the memory is a spare, between two requests.
    pub(super) ledger: Option<Arc<Ledger>>,
    /// Number of shares. The `Arc` counts them too, but if two are dropped at the same time, neither can tell that it
    /// is the last.
    shares: AtomicUsize,
}

/// Memory of one buffer of a list.
pub(super) struct Run {
    pub(super) memory: *mut u8,
    pub(super) bytes: u64,
    /// Position within the request where it ends.
    pub(super) end: u64,
}

#[derive(Default)]
pub(super) struct EndingRequest {
    /// Taken when the request is completed.
    pub(super) completer: Option<Completer>,
    /// The first error.
    pub(super) error: Option<Error>,
}

// SAFETY: only the raw pointers and the cell keep the type from being `Send` and `Sync` automatically. The pointers, to
// bytes, to metadata and to runs, point to memory that `buffer` owns. Only pieces use them, each within its own range
// (invariant 2). The cell is opened only through `&mut` (in `Pieces::new` and in `end`), when no piece exists
// (invariant 1).
unsafe impl Send for Transfer {}

// SAFETY: as above.
unsafe impl Sync for Transfer {}

impl Transfer {
    pub(super) fn fail(&self, error: Error) {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.error.get_or_insert(error);
    }

    pub(super) fn context(&self) -> String {
        let verb = match self.verb {
            Verb::Read => "read",
            Verb::Write if self.durable => "durable write",
            Verb::Write => "write",
            Verb::Deallocate => "deallocate",
            Verb::Zero => "write zeroes",
            Verb::Flush => "flush",
        };
        let name = self.ledger.as_ref().map_or("", |ledger| &ledger.name);
        format!("{verb} of {} bytes at {} on {name}", self.bytes, self.offset)
    }

    pub(super) fn count(&self, counter: impl FnOnce(&Ledger) -> &AtomicU64, n: u64) {
        if let Some(ledger) = &self.ledger {
            counter(ledger).fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(super) fn is_zeroing_refused(&self) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.zeroing_refused.load(Ordering::Relaxed))
    }

    pub(super) fn count_zeroes_written(&self, bytes: u64) {
        self.count(|ledger| &ledger.zeroes_written_bytes, bytes);
        if let Some(written) = self.ledger.as_ref().and_then(|it| it.written_by(0)) {
            written.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// How many of the `bytes` bytes from `at` on lie within the next `buffers_max` buffers of a list.
    pub(super) fn within_buffers(&self, at: u64, bytes: u64, buffers_max: usize) -> u64 {
        let first = self.runs.partition_point(|run| run.end <= at);
        let last = self.runs.len().min(first + buffers_max);
        let covered = self.runs[first..last].last().map_or(bytes, |run| bytes.min(run.end - at));
        debug_assert!(covered <= bytes, "no more than was asked: {covered} of {bytes}");
        debug_assert!(covered > 0 || bytes == 0, "a piece brings its request on");
        covered
    }

    pub(super) fn abandoned(&self) -> Error {
        Error::new(ErrorKind::Gone, format!("{}: the I/O engine has stopped", self.context()))
    }
}

impl Transfer {
    /// Whether the transfer is unused: nothing in it points to memory.
    fn is_blank(&self) -> bool {
        self.ledger.is_none()
            && self.memory.is_null()
            && self.metadata.is_null()
            && self.runs.is_empty()
            && self.registrable.is_none()
    }

    /// Completes the request, if that was not done yet. No piece is left.
    fn end(&mut self) {
        assert_eq!(*self.shares.get_mut(), 0, "it ends after its last piece (invariant 3)");
        let ending = self.ending.get_mut().unwrap_or_else(PoisonError::into_inner);
        let EndingRequest { completer, error } = std::mem::take(ending);
        self.memory = std::ptr::null_mut();
        (self.metadata, self.metadata_bytes) = (std::ptr::null_mut(), 0);
        self.registrable = None;
        self.runs.clear();
        let buffer = std::mem::replace(self.buffer.get_mut(), IoBuffer::empty());
        let buffer = buffer.without_lent_metadata();
        if let Some(completer) = completer {
            let error = error.map(|error| self.judge(error));
            self.count_end(error.as_ref());
            let result = match error {
                None => Ok(buffer),
                Some(error) => Err(IoFailure { error, buffer }),
            };
            complete(completer, result);
        }
        self.ledger = None;
        debug_assert!(self.is_blank(), "nothing of it is left for the next one");
    }

    /// Repeated failures mean that the device is gone, not that a block is bad. For a block device that is gone, Linux
    /// may also report that there is no space.
    fn judge(&self, error: Error) -> Error {
        let gone = self.ledger.as_ref().is_some_and(|ledger| match error.kind() {
            ErrorKind::Io => ledger.is_gone_after(true),
            ErrorKind::NoSpace => !ledger.is_shown(),
            _ => false,
        });
        if gone { error.of_kind(ErrorKind::Gone).within("the device is gone") } else { error }
    }

    fn count_end(&self, error: Option<&Error>) {
        if error.is_some_and(|error| error.kind() == ErrorKind::Busy) {
            self.count(|ledger| &ledger.shed_requests, 1);
        }
        if let (None, Some(ledger)) = (error, &self.ledger) {
            ledger.is_gone_after(false);
        }
        match (error, self.verb) {
            (Some(_), _) => self.count(|ledger| &ledger.failed_requests, 1),
            (None, Verb::Read) => self.count(|ledger| &ledger.read_bytes, self.bytes),
            (None, Verb::Write) => {
                if let Some(written) =
                    self.ledger.as_ref().and_then(|it| it.written_by(self.handle))
                {
                    written.fetch_add(self.bytes, Ordering::Relaxed);
                }
                if self.durable {
                    self.count(|ledger| &ledger.durable_written_bytes, self.bytes);
                }
            }
            (None, Verb::Zero) => self.count(|ledger| &ledger.zeroed_bytes, self.bytes),
            (None, Verb::Deallocate | Verb::Flush) => {
                self.count(|ledger| &ledger.deallocated_bytes, self.bytes);
            }
        }
    }
}

/// Completes the request. That wakes foreign code, whose panic must not end the engine's thread.
pub(super) fn complete(completer: Completer, result: Result<IoBuffer, IoFailure>) {
    let _ = catch_unwind(AssertUnwindSafe(|| completer.complete(result)));
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            verb: Verb::Flush,
            handle: 0,
            durable: false,
            offset: 0,
            bytes: 0,
            memory: std::ptr::null_mut(),
            metadata: std::ptr::null_mut(),
            metadata_bytes: 0,
            runs: Vec::new(),
            registrable: None,
            buffer: UnsafeCell::new(IoBuffer::empty()),
            ending: Mutex::default(),
            ledger: None,
            shares: AtomicUsize::new(0),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A share in a transfer. The last one to go ends the transfer and keeps its memory for another.
pub(super) struct Share(Option<Arc<Transfer>>);

static HEAP: Heap<Transfer> = Heap::new();

thread_local! {
    /// Spare transfers, so that a request need not allocate one.
    static SPARE: Spares<Transfer> = const { Spares::new(&HEAP) };
}

impl Share {
    /// The first share in a new transfer, which `begin` fills in.
    pub(super) fn first(begin: impl FnOnce(&mut Transfer)) -> Self {
        let mut transfer = SPARE.try_with(Spares::take).unwrap_or_default();
        let fresh = Arc::get_mut(&mut transfer).expect("a spare one has no other owner");
        assert!(fresh.is_blank(), "a request begins with nothing of the one before it");
        begin(fresh);
        debug_assert!(fresh.ledger.is_some(), "what is under way has a device");
        *fresh.shares.get_mut() = 1;
        Self(Some(transfer))
    }

    pub(super) fn another(&self) -> Self {
        let before = self.shares.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before > 0, "the caller has a share");
        Self(self.0.clone())
    }
}

impl Deref for Share {
    type Target = Transfer;

    fn deref(&self) -> &Transfer {
        self.0.as_ref().expect("a share is taken by its drop only")
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(mut transfer) = self.0.take() else { return };
        let before = transfer.shares.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "a share that goes was counted");
        if before == 1 {
            sole(&mut transfer).end();
            let _ = SPARE.try_with(|spare| spare.keep(transfer));
        }
    }
}
