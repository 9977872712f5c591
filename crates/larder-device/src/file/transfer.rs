//! A request on its way: cut into pieces, whose memory stays alive and theirs alone until the last
//! of them has ended.
//!
//! Invariants, on which the `unsafe` blocks below rest:
//!
//! 1. A [`Transfer`] owns its buffer from birth to death, and nobody touches the buffer itself
//!    while pieces exist.
//! 2. Every [`Piece`] holds the transfer alive. The pieces of a transfer cover disjoint ranges of
//!    the buffer.
//! 3. The request is completed, and the buffer given back, by the end of the transfer: after the last
//!    piece.
//!
//! A request with a list of buffers has runs of memory; a piece covers as many of them as one call may name, and
//! tells the kernel of them by an array of its own ([`Piece::vectors`]), which lives as long as the piece.
//!
//! A write that must survive a loss of power says so with each of its pieces ([`Piece::is_durable`]). Where the kernel
//! refuses to be told so, a piece that has been written becomes a flush ([`Piece::verb`]) before it ends.
//!
//! So whoever hands a piece's memory to the kernel needs only keep the piece until the kernel is
//! done with it. If that cannot be known any more, [`Piece::leak`] keeps the memory for ever.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::ledger::Ledger;
use super::sys;
use crate::buffer::IoBuffer;
use crate::error::{Error, ErrorKind};
use crate::fixed_index::{Registrable, Tag};
use crate::io::{Completer, Io, IoFailure};
use crate::park::Driver;
use crate::spares::{Heap, Spares, sole};

/// Interruptions and refusals for want of resources that one piece puts up with before it fails.
const RETRIES_MAX: u32 = 10_000;

/// Most bytes that one piece of a deallocation covers: what every kernel and every drive can say in
/// one command.
const DEALLOCATED_AT_ONCE_MAX: u64 = 1 << 40;

/// Zeros that are written at a time where neither kernel nor drive knows better.
const ZEROES_AT_ONCE_MAX: u32 = 64 << 10;

/// Most runs of memory that one call names (`UIO_MAXIOV`).
const VECTORS_MAX: usize = 1024;

/// What is to be done.
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
struct Transfer {
    verb: Verb,
    /// Index of the placement handle.
    handle: u16,
    /// It is a write that must survive a loss of power.
    durable: bool,
    offset: u64,
    bytes: u64,
    /// Start of the buffer's memory, derived from `buffer` once it had come to rest here.
    memory: *mut u8,
    /// The same of each buffer of a list, and where it ends within the request. Empty: there is one buffer.
    runs: Vec<Run>,
    /// What a ring may know the buffer by, and its bytes.
    registrable: Option<(Tag, usize)>,
    buffer: UnsafeCell<IoBuffer>,
    ending: Mutex<Ending>,
    /// `None` between two requests.
    ledger: Option<Arc<Ledger>>,
    /// How many shares there are. The `Arc` counts, too, but of two that go at once it lets neither
    /// see that it is the last.
    shares: AtomicUsize,
}

/// Memory of one buffer of a list.
struct Run {
    memory: *mut u8,
    bytes: u64,
    /// Where it ends within the request.
    end: u64,
}

#[derive(Default)]
struct Ending {
    /// Taken by whoever completes the request.
    completer: Option<Completer>,
    /// What went wrong first.
    error: Option<Error>,
}

// SAFETY: what keeps the type from being `Send` and `Sync` by itself is the raw pointer and the
// cell. The pointer, and those of the runs, are to memory that `buffer` owns and are used by pieces alone, each
// within its own range (invariant 2). The cell is opened only through `&mut` (in `Pieces::new` and in `end`),
// when no piece exists (invariant 1).
unsafe impl Send for Transfer {}
// SAFETY: as above.
unsafe impl Sync for Transfer {}

/// The pieces of one request, cut off one by one.
pub(crate) struct Pieces {
    transfer: Share,
    next: u64,
    piece_bytes: u64,
    /// Most buffers of a list that a piece covers.
    buffers_max: usize,
    /// Zeros that may be written at a time.
    zeroes_max: u32,
    /// Whether the one piece of a request without bytes is still to come.
    bare: bool,
}

/// A part of a request that reaches the kernel in one call, if the kernel does all of it at once.
///
/// Dropping a piece that was not settled fails its request.
pub(crate) struct Piece {
    transfer: Share,
    /// Position of the piece within the request.
    start: u64,
    /// Length of the piece; of a deallocation, the length of the range.
    bytes: u64,
    /// How much of it is done; whole blocks.
    done: u64,
    retries: u32,
    settled: bool,
    /// How what it writes comes to survive a loss of power, if it must.
    durable: Durable,
    /// Zeros that it writes, where it was to make zeros and nobody below knows how.
    zeroes: Option<IoBuffer>,
    zeroes_max: u32,
    /// Address and bytes of each run of memory, as the kernel was last told; empty where there is one run.
    #[cfg(target_os = "linux")]
    vectors: Vec<[usize; 2]>,
    /// The kernel was last told of its memory by an entry in a table.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) by_entry: bool,
}

/// How a piece's bytes come to survive a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Durable {
    /// They need not.
    Not,
    /// The write itself says so.
    ByFlag,
    /// The kernel refuses to be told: a flush is to follow the write.
    ByFlush,
    /// That flush.
    Flushing,
}

/// A share in a transfer. The last one to go ends the transfer and keeps its memory for another.
struct Share(Option<Arc<Transfer>>);

static HEAP: Heap<Transfer> = Heap::new();

thread_local! {
    /// Ended transfers, so that a request need not allocate one.
    static SPARE: Spares<Transfer> = const { Spares::new(&HEAP) };
}

impl Share {
    /// The only share in a new transfer, which begins as `begin` says.
    fn first(begin: impl FnOnce(&mut Transfer)) -> Self {
        let mut transfer = SPARE.try_with(Spares::take).unwrap_or_default();
        let fresh = Arc::get_mut(&mut transfer).expect("a spare one is nobody's");
        begin(fresh);
        *fresh.shares.get_mut() = 1;
        Self(Some(transfer))
    }

    fn another(&self) -> Self {
        self.shares.fetch_add(1, Ordering::Relaxed);
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
        if transfer.shares.fetch_sub(1, Ordering::AcqRel) == 1 {
            sole(&mut transfer).end();
            let _ = SPARE.try_with(|spare| spare.keep(transfer));
        }
    }
}

/// What to do with a piece after a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Call again for what remains.
    Again,
    /// Nothing more: drop it.
    End,
}

impl Pieces {
    /// `io`, whose end goes to `completer`, in pieces of at most `piece_bytes` bytes (whole
    /// blocks).
    pub(crate) fn new(
        io: Io,
        completer: Completer,
        piece_bytes: u32,
        ledger: &Arc<Ledger>,
    ) -> Self {
        let verb = match &io {
            Io::Read { .. } => Verb::Read,
            Io::Write { .. } => Verb::Write,
            Io::Deallocate { .. } => Verb::Deallocate,
            Io::WriteZeroes { .. } => Verb::Zero,
            Io::Flush => Verb::Flush,
        };
        let handle = match &io {
            Io::Write { handle, .. } => handle.index(),
            _ => 0,
        };
        let durable = io.is_power_durable();
        let (_, offset, bytes) = io.extent();
        let transfer = Share::first(|transfer| {
            (transfer.verb, transfer.handle, transfer.durable) = (verb, handle, durable);
            (transfer.offset, transfer.bytes) = (offset, bytes);
            let ending = transfer.ending.get_mut().unwrap_or_else(PoisonError::into_inner);
            *ending = Ending { completer: Some(completer), error: None };
            transfer.ledger = Some(Arc::clone(ledger));
            // Only now does the buffer lie where it stays: moving it later would invalidate the
            // pointer.
            *transfer.buffer.get_mut() = io.into_buffer();
            let buffer = transfer.buffer.get_mut();
            if buffer.is_list() {
                let mut end = 0;
                transfer.runs.extend(buffer.runs_mut().map(|run| {
                    let bytes = run.len() as u64;
                    end += bytes;
                    Run { memory: run.as_mut_ptr(), bytes, end }
                }));
            } else {
                transfer.registrable = buffer.registrable();
                transfer.memory = buffer.as_mut_slice().as_mut_ptr();
            }
        });
        let zeroes_max = piece_bytes.min(ZEROES_AT_ONCE_MAX);
        let piece_bytes = match verb {
            Verb::Deallocate | Verb::Zero => DEALLOCATED_AT_ONCE_MAX,
            _ => u64::from(piece_bytes),
        };
        let buffers_max = if cfg!(target_os = "linux") { VECTORS_MAX } else { 1 };
        let bare = verb == Verb::Flush;
        Self { transfer, next: 0, piece_bytes, buffers_max, zeroes_max, bare }
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    /// The same, but a piece has the memory of one buffer, for those who can name no more.
    pub(crate) fn of_one_buffer_each(self) -> Self {
        Self { buffers_max: 1, ..self }
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    /// The same, but a piece of a deallocation covers at most so many bytes (whole blocks).
    pub(crate) fn deallocating_at_most(mut self, bytes: u64) -> Self {
        if self.transfer.verb == Verb::Deallocate && bytes > 0 {
            self.piece_bytes = self.piece_bytes.min(bytes);
        }
        self
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    /// The same, but a piece makes at most so many bytes zeros (whole blocks).
    pub(crate) fn zeroing_at_most(mut self, bytes: u64) -> Self {
        if self.transfer.verb == Verb::Zero && bytes > 0 {
            self.piece_bytes = self.piece_bytes.min(bytes);
        }
        self
    }

    /// What the request is, for messages.
    pub(crate) fn context(&self) -> String {
        self.transfer.context()
    }

    /// Fails the request, whose pieces were not taken: it completes when this is dropped.
    pub(crate) fn refuse(&self, error: Error) {
        self.transfer.fail(error);
    }

    /// Names what fetches the request's completion, before any piece is taken.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn driven_by(&self, driver: Arc<dyn Driver>) {
        let ending = self.transfer.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(completer) = &ending.completer {
            completer.driven_by(driver);
        }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let left = self.transfer.bytes - self.next;
        if !self.bare && left == 0 {
            return None;
        }
        let bytes =
            self.transfer.within_buffers(self.next, left.min(self.piece_bytes), self.buffers_max);
        let mut piece = Piece {
            transfer: self.transfer.another(),
            start: self.next,
            bytes,
            done: 0,
            retries: 0,
            settled: false,
            durable: self.transfer.way_to_durability(),
            zeroes: None,
            zeroes_max: self.zeroes_max,
            #[cfg(target_os = "linux")]
            vectors: Vec::new(),
            by_entry: false,
        };
        if self.transfer.verb == Verb::Zero && self.transfer.is_zeroing_refused() {
            piece.write_zeroes();
        }
        self.bare = false;
        self.next += bytes;
        Some(piece)
    }
}

impl Piece {
    /// What is to be done next.
    pub(crate) fn verb(&self) -> Verb {
        match (&self.zeroes, self.durable) {
            (Some(_), _) => Verb::Write,
            (None, Durable::Flushing) => Verb::Flush,
            (None, _) => self.transfer.verb,
        }
    }

    /// Whether the kernel or the drive is to be told that this write must survive a loss of power.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable == Durable::ByFlag
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    /// Index of the placement handle of a write; 0 for everything else.
    pub(crate) fn handle(&self) -> u16 {
        self.transfer.handle
    }

    /// Byte address on the device of what remains.
    pub(crate) fn offset(&self) -> u64 {
        self.transfer.offset + self.start + self.done
    }

    /// Bytes that remain.
    pub(crate) fn remaining(&self) -> u64 {
        self.bytes - self.done
    }

    /// Bytes that the next call is to move, or to make zeros or nothing of.
    pub(crate) fn call_bytes(&self) -> u64 {
        let remaining = self.remaining();
        self.zeroes.as_ref().map_or(remaining, |zeroes| remaining.min(zeroes.len() as u64))
    }

    /// Writes zeros from now on.
    fn write_zeroes(&mut self) {
        let bytes = self.remaining().min(u64::from(self.zeroes_max));
        self.zeroes = Some(IoBuffer::zeroed(usize::try_from(bytes).unwrap_or(0)));
    }

    /// The memory of what remains, of a list in the first of its buffers; empty for requests that carry no bytes.
    /// Valid as long as the piece lives.
    pub(crate) fn memory(&mut self) -> &mut [u8] {
        if !matches!(self.verb(), Verb::Read | Verb::Write) {
            return &mut [];
        }
        if self.zeroes.is_some() {
            let bytes = usize::try_from(self.call_bytes()).unwrap_or(0);
            let zeroes = self.zeroes.as_mut().map(IoBuffer::as_mut_slice).unwrap_or_default();
            return &mut zeroes[..bytes];
        }
        if !self.transfer.runs.is_empty() {
            return self.slices().into_iter().next().unwrap_or_default();
        }
        let (Ok(at), Ok(len)) =
            (usize::try_from(self.start + self.done), usize::try_from(self.remaining()))
        else {
            unreachable!("a range of a buffer fits the address space");
        };
        // SAFETY: `at + len` is at most the buffer's length, for the piece was cut from it. The
        // memory is initialised, lives as long as the transfer that this piece holds, and
        // is the piece's alone (invariants 1 and 2); `&mut self` makes the borrow exclusive
        // among the piece's own.
        unsafe { std::slice::from_raw_parts_mut(self.transfer.memory.add(at), len) }
    }

    /// The memory of what remains of a list, buffer by buffer.
    pub(crate) fn slices(&mut self) -> Vec<&mut [u8]> {
        let (from, to) = (self.start + self.done, self.start + self.bytes);
        let runs = &self.transfer.runs;
        let first = runs.partition_point(|run| run.end <= from);
        let inside = runs[first..].iter().take_while(|run| run.end - run.bytes < to);
        let slice = |run: &Run| {
            let start = run.end - run.bytes;
            let (begin, end) = (from.max(start) - start, to.min(run.end) - start);
            let (Ok(at), Ok(len)) = (usize::try_from(begin), usize::try_from(end - begin)) else {
                unreachable!("a range of a buffer fits the address space");
            };
            // SAFETY: `at + len` is at most the bytes of the run, which are initialised and live as long as the
            // transfer that this piece holds. Runs are disjoint, for each is a buffer of its own, and what
            // lies between `from` and `to` is the piece's alone (invariants 1 and 2); `&mut self` makes the borrow
            // exclusive among the piece's own.
            unsafe { std::slice::from_raw_parts_mut(run.memory.add(at), len) }
        };
        inside.map(slice).collect()
    }

    /// Whether what remains is to be moved to or from several runs of memory.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_of_several_buffers(&mut self) -> bool {
        self.vectors().is_some()
    }

    /// What remains as an array of `struct iovec`, if it lies in several runs of memory: address and bytes of each. It
    /// stays where it is as long as the piece lives and this is not called again.
    #[cfg(target_os = "linux")]
    pub(crate) fn vectors(&mut self) -> Option<&[[usize; 2]]> {
        if self.transfer.runs.is_empty() || !matches!(self.verb(), Verb::Read | Verb::Write) {
            return None;
        }
        let vector = |slice: &mut [u8]| [slice.as_mut_ptr().expose_provenance(), slice.len()];
        self.vectors = self.slices().into_iter().map(vector).collect();
        Some(&self.vectors).filter(|it| it.len() > 1).map(Vec::as_slice)
    }

    /// The whole buffer that [`Piece::memory`] is a part of, if it may be registered.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn registrable(&self) -> Option<Registrable> {
        let (tag, bytes) = self.transfer.registrable?;
        Some(Registrable { tag, start: self.transfer.memory, bytes })
    }

    /// Takes note of what a call reported: the number of bytes moved, or why not.
    pub(crate) fn settle(&mut self, result: io::Result<usize>) -> Step {
        match result {
            Ok(count) => self.advance(count as u64),
            Err(e) if is_transient(&e) && self.may_retry() => Step::Again,
            Err(e) if self.verb() == Verb::Deallocate && e.kind() == io::ErrorKind::Unsupported => {
                self.transfer.count(|ledger| &ledger.ignored_deallocations, 1);
                self.end(None)
            }
            Err(e) if self.verb() == Verb::Zero && e.kind() == io::ErrorKind::Unsupported => {
                if let Some(ledger) = &self.transfer.ledger {
                    ledger.zeroing_refused.store(true, Ordering::Relaxed);
                }
                self.write_zeroes();
                Step::Again
            }
            // `EOPNOTSUPP` for the flag, `ENOSYS` for the call that has flags.
            Err(e) if self.is_durable() && e.kind() == io::ErrorKind::Unsupported => {
                self.durable = Durable::ByFlush;
                if let Some(ledger) = &self.transfer.ledger {
                    ledger.durable_flag_refused.store(true, Ordering::Relaxed);
                }
                Step::Again
            }
            Err(e) => self.end(Some(e)),
        }
    }

    fn advance(&mut self, count: u64) -> Step {
        if matches!(self.verb(), Verb::Deallocate | Verb::Zero | Verb::Flush) {
            return self.end(None);
        }
        if self.zeroes.is_some() {
            self.transfer.count_zeroes_written(count.min(self.remaining()));
        }
        if count >= self.remaining() && self.durable == Durable::ByFlush {
            self.durable = Durable::Flushing;
            self.transfer.count(|ledger| &ledger.durable_flushes, 1);
            return Step::Again;
        }
        if count >= self.remaining() {
            return self.end(None);
        }
        // The rest must start at a block boundary, or direct I/O refuses it.
        let whole = self.transfer.ledger.as_ref().map_or(0, |ledger| ledger.whole_blocks(count));
        self.done += whole;
        if whole > 0 || (count > 0 && self.may_retry()) {
            return Step::Again;
        }
        self.end(Some(match self.verb() {
            Verb::Read => io::ErrorKind::UnexpectedEof.into(),
            _ => io::ErrorKind::WriteZero.into(),
        }))
    }

    fn may_retry(&mut self) -> bool {
        self.retries += 1;
        self.retries <= RETRIES_MAX
    }

    fn end(&mut self, error: Option<io::Error>) -> Step {
        self.settled = true;
        if let Some(source) = error {
            let mut context = self.transfer.context();
            if self.durable == Durable::Flushing {
                context.push_str(
                    ": the flush that has to follow it, for the kernel refuses RWF_DSYNC",
                );
            }
            let gone = sys::is_gone(&source);
            let error = Error::from_os(context, source);
            self.transfer.fail(if gone { error.of_kind(ErrorKind::Gone) } else { error });
        }
        Step::End
    }

    /// Fails the piece's request because the device is too busy for it.
    pub(crate) fn refuse(&mut self, why: &str) {
        self.settled = true;
        let context = format!("{}: {why}", self.transfer.context());
        self.transfer.fail(Error::new(ErrorKind::Busy, context));
    }

    /// Gives the piece up while the kernel may still use its memory: the request fails at once,
    /// with an empty buffer, and its own buffer is never freed.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn leak(mut self) {
        self.settled = true;
        let mut ending = self.transfer.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let completer = ending.completer.take();
        drop(ending);
        if let Some(completer) = completer {
            self.transfer.count(|ledger| &ledger.failed_requests, 1);
            let buffer = IoBuffer::empty();
            complete(completer, Err(IoFailure { error: self.transfer.abandoned(), buffer }));
        }
        std::mem::forget(self);
    }
}

/// `EINTR` and `EAGAIN`; and `ECANCELED`, with which the kernel ends what it has not begun for a
/// thread that exits.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
        || sys::is_cancelled(error)
}

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.settled {
            self.transfer.fail(self.transfer.abandoned());
        }
    }
}

impl Transfer {
    fn fail(&self, error: Error) {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.error.get_or_insert(error);
    }

    fn context(&self) -> String {
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

    fn count(&self, counter: impl FnOnce(&Ledger) -> &AtomicU64, n: u64) {
        if let Some(ledger) = &self.ledger {
            counter(ledger).fetch_add(n, Ordering::Relaxed);
        }
    }

    fn is_zeroing_refused(&self) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.zeroing_refused.load(Ordering::Relaxed))
    }

    fn count_zeroes_written(&self, bytes: u64) {
        self.count(|ledger| &ledger.zeroes_written_bytes, bytes);
        if let Some(written) = self.ledger.as_ref().and_then(|it| it.written_by(0)) {
            written.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// How a piece that is cut off now becomes durable.
    fn way_to_durability(&self) -> Durable {
        if !self.durable {
            return Durable::Not;
        }
        let is_refused = |ledger: &Arc<Ledger>| ledger.durable_flag_refused.load(Ordering::Relaxed);
        if self.ledger.as_ref().is_some_and(is_refused) {
            Durable::ByFlush
        } else {
            Durable::ByFlag
        }
    }

    /// As much of `bytes` bytes from `at` on as lies in that many buffers of a list.
    fn within_buffers(&self, at: u64, bytes: u64, buffers_max: usize) -> u64 {
        let first = self.runs.partition_point(|run| run.end <= at);
        let last = self.runs.len().min(first + buffers_max);
        self.runs[first..last].last().map_or(bytes, |run| bytes.min(run.end - at))
    }

    fn abandoned(&self) -> Error {
        Error::new(ErrorKind::Gone, format!("{}: the I/O engine has stopped", self.context()))
    }
}

/// Completion wakes code that is not ours; its panic must not take the engine's thread along.
fn complete(completer: Completer, result: Result<IoBuffer, IoFailure>) {
    let _ = catch_unwind(AssertUnwindSafe(|| completer.complete(result)));
}

impl Transfer {
    /// Completes the request, if nobody has. No piece is left.
    fn end(&mut self) {
        let ending = self.ending.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Ending { completer, error } = std::mem::take(ending);
        self.memory = std::ptr::null_mut();
        self.registrable = None;
        self.runs.clear();
        let buffer = std::mem::replace(self.buffer.get_mut(), IoBuffer::empty());
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
    }

    /// What fails request after request is not a bad block. And a block device that is gone has no
    /// bytes any more: Linux then says that there is no space.
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

impl Default for Transfer {
    fn default() -> Self {
        Self {
            verb: Verb::Flush,
            handle: 0,
            durable: false,
            offset: 0,
            bytes: 0,
            memory: std::ptr::null_mut(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::IoFuture;

    const BLOCK_BYTES: u32 = 4096;
    const BLOCK: usize = BLOCK_BYTES as usize;

    fn read(blocks: usize, piece_blocks: u32) -> (IoFuture, Pieces, Arc<Ledger>) {
        let ledger = Arc::new(Ledger::new("test".to_owned(), 1).in_blocks(BLOCK_BYTES));
        let (future, completer) = IoFuture::pending();
        let io = Io::Read { offset: 8192, buffer: IoBuffer::zeroed(blocks * BLOCK) };
        let pieces = Pieces::new(io, completer, piece_blocks * BLOCK_BYTES, &ledger);
        (future, pieces, ledger)
    }

    #[test]
    fn pieces_filled_by_several_threads_make_one_buffer() {
        let (future, pieces, ledger) = read(7, 2);
        let threads: Vec<_> = pieces
            .map(|mut piece| {
                std::thread::spawn(move || {
                    let offset = piece.offset();
                    let memory = piece.memory();
                    memory.fill(u8::try_from(offset / 4096).unwrap());
                    let count = memory.len();
                    assert_eq!(piece.settle(Ok(count)), Step::End);
                })
            })
            .collect();
        assert_eq!(threads.len(), 4);
        let buffer = future.wait().unwrap();
        let firsts: Vec<u8> = buffer.as_slice().chunks(BLOCK).map(|block| block[0]).collect();
        assert_eq!(firsts, [2, 2, 4, 4, 6, 6, 8]);
        assert_eq!(ledger.read_bytes.load(Ordering::Relaxed), 7 * 4096);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn short_transfers_go_on_at_a_block_boundary() {
        let (future, mut pieces, _) = read(4, 4);
        let mut piece = pieces.next().unwrap();
        drop(pieces);
        assert_eq!(piece.settle(Ok(BLOCK + 100)), Step::Again);
        assert_eq!((piece.offset(), piece.remaining()), (8192 + 4096, 3 * 4096));
        assert_eq!(piece.memory().len(), 3 * BLOCK);
        assert_eq!(piece.settle(Err(io::ErrorKind::Interrupted.into())), Step::Again);
        assert_eq!(piece.settle(Ok(100)), Step::Again);
        assert_eq!(piece.remaining(), 3 * 4096);
        assert_eq!(piece.settle(Ok(3 * BLOCK)), Step::End);
        drop(piece);
        assert_eq!(future.wait().unwrap().len(), 4 * BLOCK);
    }

    fn read_of_list(sectors: &[usize], piece_bytes: u32) -> (IoFuture, Pieces) {
        let ledger = Arc::new(Ledger::new("test".to_owned(), 1).in_blocks(512));
        let (future, completer) = IoFuture::pending();
        let buffers = sectors.iter().map(|sectors| IoBuffer::zeroed(sectors * 512)).collect();
        let io = Io::Read { offset: 0, buffer: IoBuffer::list(buffers) };
        (future, Pieces::new(io, completer, piece_bytes, &ledger))
    }

    /// What was moved of a list is not asked for again, and nothing of it lies elsewhere.
    #[test]
    fn a_short_transfer_of_a_list_goes_on_where_it_stopped() {
        let (future, mut pieces) = read_of_list(&[1, 3, 2], 1 << 20);
        let mut piece = pieces.next().unwrap();
        let lengths = |piece: &mut Piece| {
            let slices = piece.slices();
            slices.into_iter().map(|slice| slice.len() / 512).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&mut piece), [1, 3, 2]);
        piece.slices().into_iter().zip(1..).for_each(|(slice, value)| slice.fill(value));
        assert_eq!(
            piece.settle(Ok(1024 + 100)),
            Step::Again,
            "one buffer, and a third of the next"
        );
        assert_eq!((piece.offset(), lengths(&mut piece)), (1024, vec![2, 2]));
        assert_eq!(piece.memory(), [2; 1024]);
        assert_eq!(piece.settle(Ok(1024)), Step::Again);
        assert_eq!((lengths(&mut piece), piece.memory().to_vec()), (vec![2], vec![3; 1024]));
        assert_eq!(piece.settle(Ok(1024)), Step::End);
        drop((piece, pieces));
        let whole = future.wait().unwrap();
        assert_eq!(whole.runs().map(|run| run[0]).collect::<Vec<_>>(), [1, 2, 3]);
    }

    /// By bytes, by what a call may name, and by buffers where a command has one.
    #[test]
    fn lists_are_cut_where_a_call_ends() {
        let bytes = |pieces: Pieces| pieces.map(|piece| piece.bytes / 512).collect::<Vec<_>>();
        assert_eq!(bytes(read_of_list(&[1, 3, 2, 9], 4 * 512).1), [4, 4, 4, 3]);
        assert_eq!(
            bytes(read_of_list(&[1, 3, 2, 9], 4096).1.of_one_buffer_each()),
            [1, 3, 2, 8, 1]
        );
        let most = if cfg!(target_os = "linux") { VECTORS_MAX as u64 } else { 1 };
        assert_eq!(bytes(read_of_list(&[1; 1500], 1 << 20).1)[0], most);
    }

    #[test]
    fn where_the_kernel_refuses_the_flag_a_flush_follows_a_durable_write() {
        let ledger = Arc::new(Ledger::new("test".to_owned(), 1).in_blocks(BLOCK_BYTES));
        let write = || {
            let (future, completer) = IoFuture::pending();
            let (buffer, handle) = (IoBuffer::zeroed(BLOCK), crate::PlacementHandle::DEFAULT);
            let durability = crate::Durability::Power;
            let io = Io::Write { offset: 0, buffer, handle, durability };
            (future, Pieces::new(io, completer, BLOCK_BYTES, &ledger).next().unwrap())
        };
        let (future, mut piece) = write();
        assert!(piece.is_durable());
        assert_eq!(piece.settle(Err(io::ErrorKind::Unsupported.into())), Step::Again);
        assert!(!piece.is_durable());
        assert_eq!((piece.verb(), piece.memory().len()), (Verb::Write, BLOCK));
        assert_eq!(piece.settle(Ok(BLOCK)), Step::Again);
        assert_eq!((piece.verb(), piece.memory().len()), (Verb::Flush, 0));
        assert_eq!(piece.settle(Ok(0)), Step::End);
        drop(piece);
        future.wait().unwrap();
        let (future, mut piece) = write();
        assert!(!piece.is_durable(), "it is not tried again");
        assert_eq!(piece.settle(Ok(BLOCK)), Step::Again);
        assert_eq!(piece.settle(Err(io::ErrorKind::Other.into())), Step::End);
        drop(piece);
        let error = future.wait().unwrap_err().error.to_string();
        assert!(error.contains("durable write of 4096 bytes"), "{error}");
        assert!(error.contains("the kernel refuses RWF_DSYNC"), "{error}");
        let stats = ledger.stats();
        assert_eq!((stats.durable_written_bytes, stats.durable_flushes), (BLOCK as u64, 2));
    }

    #[test]
    fn the_first_failure_fails_the_request_and_gives_the_buffer_back() {
        let (future, mut pieces, ledger) = read(4, 1);
        assert_eq!(pieces.next().unwrap().settle(Ok(0)), Step::End);
        pieces.for_each(|mut piece| assert_eq!(piece.settle(Ok(BLOCK)), Step::End));
        let failure = future.wait().unwrap_err();
        assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Io, 4 * BLOCK));
        assert!(failure.error.to_string().starts_with("read of 16384 bytes at 8192 on test"));
        assert_eq!(ledger.failed_requests.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn failures_in_a_row_mean_that_the_device_is_gone() {
        let ledger = Arc::new(Ledger::new("test".to_owned(), 1).in_blocks(BLOCK_BYTES));
        let read = |result: fn() -> io::Result<usize>| {
            let (future, completer) = IoFuture::pending();
            let io = Io::Read { offset: 0, buffer: IoBuffer::zeroed(BLOCK) };
            let pieces = Pieces::new(io, completer, BLOCK_BYTES, &ledger);
            pieces.for_each(|mut piece| assert_eq!(piece.settle(result()), Step::End));
            future.wait().map_err(|failure| failure.error.kind())
        };
        let fail = || Err(io::ErrorKind::Other.into());
        for _ in 0..crate::file::ledger::FAILURES_IN_ROW_MAX {
            assert_eq!(read(fail).unwrap_err(), ErrorKind::Io);
        }
        assert_eq!(read(fail).unwrap_err(), ErrorKind::Gone);
        assert!(read(|| Ok(BLOCK)).is_ok(), "it was not");
        assert_eq!(read(fail).unwrap_err(), ErrorKind::Io);
    }

    #[test]
    fn a_device_that_is_gone_is_not_full() {
        let folder = tempfile::tempdir().unwrap();
        let write = |shown: &std::path::Path| {
            let ledger = Ledger::new("test".to_owned(), 1).shown_at(Some(shown.to_owned()));
            let (future, completer) = IoFuture::pending();
            let io = Io::Read { offset: 0, buffer: IoBuffer::zeroed(BLOCK) };
            for mut piece in Pieces::new(io, completer, BLOCK_BYTES, &Arc::new(ledger)) {
                assert_eq!(piece.settle(Err(io::ErrorKind::StorageFull.into())), Step::End);
            }
            future.wait().unwrap_err().error
        };
        assert_eq!(write(folder.path()).kind(), ErrorKind::NoSpace);
        let gone = write(&folder.path().join("gone"));
        assert_eq!(gone.kind(), ErrorKind::Gone);
        assert!(gone.to_string().starts_with("the device is gone: "), "{gone}");
    }

    #[test]
    fn endless_interruption_is_an_error() {
        let (future, mut pieces, _) = read(1, 1);
        let mut piece = pieces.next().unwrap();
        while piece.settle(Err(io::ErrorKind::WouldBlock.into())) == Step::Again {}
        drop((piece, pieces));
        assert_eq!(future.wait().unwrap_err().error.kind(), ErrorKind::Io);
    }

    #[test]
    fn a_forgotten_piece_fails_its_request() {
        let (future, pieces, _) = read(2, 1);
        drop(pieces.collect::<Vec<_>>());
        let failure = future.wait().unwrap_err();
        assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Gone, 2 * BLOCK));
    }

    #[test]
    #[cfg_attr(miri, ignore = "leaks on purpose")]
    fn a_leaked_piece_fails_its_request_and_keeps_the_memory() {
        let (future, pieces, _) = read(2, 1);
        pieces.for_each(Piece::leak);
        assert!(future.wait().unwrap_err().buffer.is_empty());
    }

    #[test]
    fn a_deallocation_that_nobody_supports_is_counted_and_fine() {
        let ledger = Arc::new(Ledger::default());
        let (future, completer) = IoFuture::pending();
        let io = Io::Deallocate { offset: 0, bytes: 1 << 40 };
        let mut pieces = Pieces::new(io, completer, BLOCK_BYTES, &ledger);
        let mut piece = pieces.next().unwrap();
        assert!(pieces.next().is_none() && piece.memory().is_empty());
        assert_eq!(piece.settle(Err(io::ErrorKind::Unsupported.into())), Step::End);
        drop((piece, pieces));
        future.wait().unwrap();
        assert_eq!(ledger.ignored_deallocations.load(Ordering::Relaxed), 1);
    }
}
