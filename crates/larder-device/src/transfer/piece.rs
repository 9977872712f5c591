//! A part of a request that goes to the kernel by itself: its memory, the bytes that remain, and what to do after a
//! call returns.
//!
//! ```text
//!   settle(moved all) ──► End            settle(moved some, or interrupted) ──► Again, from there
//!   settle(error) ──► the request fails  dropped before it was settled ──► the request fails
//! ```
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::request::{Run, Share, Transfer, Verb, complete};
use crate::buffer::IoBuffer;
use crate::error::{Error, ErrorKind};
use crate::fixed_index::Registrable;
use crate::io::IoFailure;
use crate::sys;
use crate::transfer::ledger::Ledger;

/// How many interruptions and temporary refusals one piece tolerates before it fails.
const RETRIES_MAX: u32 = 10_000;

/// A part of a request that reaches the kernel in one call, if the kernel carries out all of it at once.
///
/// Dropping a piece that was not settled fails its request.
pub(crate) struct Piece {
    transfer: Share,
    /// Position of the piece within the request.
    start: u64,
    /// Length of the piece in bytes; for a deallocation, the length of the range.
    bytes: u64,
    /// Bytes done, whole blocks.
    done: u64,
    retries: u32,
    settled: bool,
    /// How its bytes become durable, if they must survive a loss of power.
    durable: Durable,
    /// The zeros to write, if the piece must make zeros and nothing below can do so itself.
    zeroes: Option<IoBuffer>,
    zeroes_max: u32,
    /// Address and bytes of each run of memory, as last given to the kernel; empty where there is one run.
    #[cfg(target_os = "linux")]
    vectors: Vec<[usize; 2]>,
    /// The kernel was last given the memory as an entry of its table of registered buffers.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) by_entry: bool,
}

/// How a piece's bytes become durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Durable {
    /// They need not be durable.
    Not,
    /// The write carries the flag.
    ByFlag,
    /// The kernel refuses the flag: a flush will follow the write.
    ByFlush,
    /// That flush is next or in flight.
    Flushing,
}

/// What to do with a piece after a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PieceStep {
    /// Make another call for what remains.
    Again,
    /// Nothing more to do: drop the piece.
    End,
}

impl Durable {
    /// How a piece that is made now becomes durable.
    fn of(transfer: &Transfer) -> Self {
        if !transfer.durable {
            return Self::Not;
        }
        let is_refused = |ledger: &Arc<Ledger>| ledger.durable_flag_refused.load(Ordering::Relaxed);
        if transfer.ledger.as_ref().is_some_and(is_refused) { Self::ByFlush } else { Self::ByFlag }
    }
}

impl Piece {
    /// A piece of `bytes` bytes from position `start` of the request on, which no other piece covers.
    pub(super) fn new(transfer: Share, start: u64, bytes: u64, zeroes_max: u32) -> Self {
        assert!(start + bytes <= transfer.bytes, "a piece lies within its request (invariant 2)");
        let mut piece = Self {
            durable: Durable::of(&transfer),
            transfer,
            start,
            bytes,
            done: 0,
            retries: 0,
            settled: false,
            zeroes: None,
            zeroes_max,
            #[cfg(target_os = "linux")]
            vectors: Vec::new(),
            by_entry: false,
        };
        if piece.transfer.verb == Verb::Zero && piece.transfer.is_zeroing_refused() {
            piece.write_zeroes();
        }
        piece
    }

    /// The operation to do next.
    pub(crate) fn verb(&self) -> Verb {
        match (&self.zeroes, self.durable) {
            (Some(_), _) => Verb::Write,
            (None, Durable::Flushing) => Verb::Flush,
            (None, _) => self.transfer.verb,
        }
    }

    /// Whether the write must carry the flag for surviving a loss of power.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable == Durable::ByFlag
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    /// Index of the placement handle of a write; 0 for other requests.
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

    /// Bytes that the next call transfers, zeroes or deallocates.
    pub(crate) fn call_bytes(&self) -> u64 {
        let remaining = self.remaining();
        self.zeroes.as_ref().map_or(remaining, |zeroes| remaining.min(zeroes.len() as u64))
    }

    /// Switches the piece to writing zeros.
    fn write_zeroes(&mut self) {
        debug_assert_eq!(self.transfer.verb, Verb::Zero, "zeros are written where they are asked");
        debug_assert!(self.remaining() > 0, "what has ended writes nothing");
        let bytes = self.remaining().min(u64::from(self.zeroes_max));
        self.zeroes = Some(IoBuffer::zeroed(usize::try_from(bytes).unwrap_or(0)));
    }

    /// The memory of what remains; for a list, the part in the first remaining buffer. Empty for requests that carry no
    /// bytes. Valid as long as the piece lives.
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
        debug_assert!(!self.transfer.memory.is_null(), "a request that carries bytes has memory");
        // SAFETY: `at + len` is at most the buffer's length, because the piece was cut from it. The memory is
        // initialised, lives as long as the transfer that this piece holds, and belongs to the piece alone (invariants
        // 1 and 2); `&mut self` makes the borrow exclusive within the piece.
        unsafe { std::slice::from_raw_parts_mut(self.transfer.memory.add(at), len) }
    }

    /// The metadata of the blocks that remain; empty where the request has none. Valid as long as the piece lives.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn metadata(&mut self) -> &mut [u8] {
        let is_carried = matches!(self.verb(), Verb::Read | Verb::Write) && self.zeroes.is_none();
        if !is_carried || self.transfer.metadata_bytes == 0 {
            return &mut [];
        }
        // Each block has the same number of metadata bytes, and pieces are whole blocks.
        let of = |bytes: u64| {
            let before = u128::from(bytes) * u128::from(self.transfer.metadata_bytes);
            usize::try_from(before / u128::from(self.transfer.bytes))
        };
        let (Ok(at), Ok(end)) = (of(self.start + self.done), of(self.start + self.bytes)) else {
            unreachable!("a range of a buffer fits the address space");
        };
        // SAFETY: `end` is at most the metadata's length, because the piece lies within the request. The memory is
        // initialised, lives as long as the transfer that this piece holds, and belongs to the piece alone, because
        // pieces are disjoint (invariants 1 and 2); `&mut self` makes the borrow exclusive within the piece.
        unsafe { std::slice::from_raw_parts_mut(self.transfer.metadata.add(at), end - at) }
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
            // transfer that this piece holds. Runs are disjoint, because each is a buffer of its own, and the bytes
            // between `from` and `to` belong to the piece alone (invariants 1 and 2); `&mut self` makes the borrow
            // exclusive within the piece.
            unsafe { std::slice::from_raw_parts_mut(run.memory.add(at), len) }
        };
        inside.map(slice).collect()
    }

    /// Whether what remains lies in several runs of memory.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_of_several_buffers(&mut self) -> bool {
        self.vectors().is_some()
    }

    /// What remains as an array of `struct iovec` (address and bytes of each run), if it lies in several runs of
    /// memory. The array stays in place as long as the piece lives and this is not called again.
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

    /// Processes the result of a call: the number of bytes moved, or the error.
    pub(crate) fn settle(&mut self, result: io::Result<usize>) -> PieceStep {
        debug_assert!(!self.settled, "no call is made for a piece that has ended");
        match result {
            Ok(count) => self.advance(count as u64),
            Err(e) if is_transient(&e) && self.may_retry() => PieceStep::Again,
            Err(e) if self.verb() == Verb::Deallocate && e.kind() == io::ErrorKind::Unsupported => {
                self.transfer.count(|ledger| &ledger.ignored_deallocations, 1);
                self.end(None)
            }
            Err(e) if self.verb() == Verb::Zero && e.kind() == io::ErrorKind::Unsupported => {
                if let Some(ledger) = &self.transfer.ledger {
                    ledger.zeroing_refused.store(true, Ordering::Relaxed);
                }
                self.write_zeroes();
                PieceStep::Again
            }
            // `EOPNOTSUPP` for the flag, `ENOSYS` for the call that takes flags.
            Err(e) if self.is_durable() && e.kind() == io::ErrorKind::Unsupported => {
                self.durable = Durable::ByFlush;
                if let Some(ledger) = &self.transfer.ledger {
                    ledger.durable_flag_refused.store(true, Ordering::Relaxed);
                }
                PieceStep::Again
            }
            Err(e) => self.end(Some(e)),
        }
    }

    fn advance(&mut self, count: u64) -> PieceStep {
        if matches!(self.verb(), Verb::Deallocate | Verb::Zero | Verb::Flush) {
            return self.end(None);
        }
        if self.zeroes.is_some() {
            self.transfer.count_zeroes_written(count.min(self.remaining()));
        }
        if count >= self.remaining() && self.durable == Durable::ByFlush {
            self.durable = Durable::Flushing;
            self.transfer.count(|ledger| &ledger.durable_flushes, 1);
            return PieceStep::Again;
        }
        if count >= self.remaining() {
            return self.end(None);
        }
        // The rest must start at a block boundary, or direct I/O refuses it.
        let whole = self.transfer.ledger.as_ref().map_or(0, |ledger| ledger.whole_blocks(count));
        self.done += whole;
        debug_assert!(self.done < self.bytes, "what is called again has something left");
        if whole > 0 || (count > 0 && self.may_retry()) {
            return PieceStep::Again;
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

    fn end(&mut self, error: Option<io::Error>) -> PieceStep {
        debug_assert!(!self.settled, "a piece ends once");
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
        PieceStep::End
    }

    /// Fails the piece's request because the device is too busy for it.
    pub(crate) fn refuse(&mut self, why: &str) {
        debug_assert!(!self.settled && self.done == 0, "what was begun is not refused");
        self.settled = true;
        let context = format!("{}: {why}", self.transfer.context());
        self.transfer.fail(Error::new(ErrorKind::Busy, context));
    }

    /// Gives the piece up while the kernel may still use its memory. The request fails at once, with an empty buffer,
    /// and its own buffer is never freed.
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

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.settled {
            self.transfer.fail(self.transfer.abandoned());
        }
    }
}

/// `EINTR` and `EAGAIN`; also `ECANCELED`, with which the kernel ends requests that it has not begun when their thread
/// exits.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
        || sys::is_cancelled(error)
}
