//! A request on its way to the kernel, cut into pieces. The memory of a piece stays alive and is used by no other piece
//! until the last piece has ended.
//!
//! Invariants, on which the `unsafe` blocks below rest:
//!
//! 1. A [`Transfer`] owns its buffer for its whole life, and no code touches the buffer itself while pieces exist.
//! 2. Every [`Piece`] keeps the transfer alive. The pieces of a transfer cover disjoint ranges of the buffer.
//! 3. The end of the transfer, after the last piece, completes the request and gives the buffer back.
//!
//! A request with a list of buffers has several runs of memory. A piece covers as many of them as one call may name,
//! and describes them to the kernel in an array of its own ([`Piece::vectors`]), which lives as long as the piece.
//!
//! A write that must survive a loss of power sets the flag on each of its pieces ([`Piece::is_durable`]). Where the
//! kernel refuses the flag, a piece that has been written becomes a flush ([`Piece::verb`]) before it ends.
//!
//! `request.rs` has the transfer and the shares in it, `piece.rs` the state of a piece; this file cuts requests up.
//!
//! So code that hands a piece's memory to the kernel need only keep the piece until the kernel is done with it. If that
//! cannot be known any more, [`Piece::leak`] keeps the memory forever.

pub(crate) mod ledger;
mod piece;
mod request;
#[cfg(test)]
mod tests;
pub(crate) mod waiting;

use std::sync::{Arc, PoisonError};

pub(crate) use piece::{Piece, PieceStep};
pub(crate) use request::Verb;
use request::{EndingRequest, Run, Share};

use crate::driver::Driver;
use crate::error::Error;
use crate::io::{Completer, Io};
use ledger::Ledger;

/// Most bytes that one piece of a deallocation covers: every kernel and drive accepts this in one command.
const DEALLOCATED_AT_ONCE_MAX: u64 = 1 << 40;

/// Bytes of zeros that are written at a time where neither the kernel nor the drive can make zeros itself.
const ZEROES_AT_ONCE_MAX: u32 = 64 << 10;

/// Most runs of memory that one call can name (`UIO_MAXIOV`).
const VECTORS_MAX: usize = 1024;
const _: () = assert!(
    DEALLOCATED_AT_ONCE_MAX.is_multiple_of(ZEROES_AT_ONCE_MAX as u64)
        && ZEROES_AT_ONCE_MAX.is_power_of_two(),
    "ranges are cut between blocks, whatever a block is"
);

/// Iterator over the pieces of one request.
pub(crate) struct Pieces {
    transfer: Share,
    next: u64,
    piece_bytes: u64,
    /// Most buffers of a list that one piece covers.
    buffers_max: usize,
    /// Bytes of zeros that may be written at a time.
    zeroes_max: u32,
    /// Whether the single piece of a request without bytes is still to come.
    bare: bool,
}

impl Pieces {
    /// Cuts `io` into pieces of at most `piece_bytes` bytes (whole blocks). `completer` gets the outcome.
    pub(crate) fn new(
        io: Io,
        completer: Completer,
        piece_bytes: u32,
        ledger: &Arc<Ledger>,
    ) -> Self {
        debug_assert!(piece_bytes > 0, "a piece brings its request on");
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
            *ending = EndingRequest { completer: Some(completer), error: None };
            transfer.ledger = Some(Arc::clone(ledger));
            // The buffer now lies at its final place: moving it later would invalidate the pointer.
            *transfer.buffer.get_mut() = io.into_buffer();
            let buffer = transfer.buffer.get_mut();
            let carried = if matches!(verb, Verb::Read | Verb::Write) { bytes } else { 0 };
            assert_eq!(buffer.len() as u64, carried, "pieces cover the buffer, and no more");
            if let Some(metadata) = buffer.metadata_mut() {
                transfer.metadata_bytes = metadata.len() as u64;
                transfer.metadata = metadata.as_mut_ptr();
            }
            if buffer.is_list() {
                let mut end = 0;
                transfer.runs.extend(buffer.runs_mut().map(|run| {
                    let bytes = run.len() as u64;
                    end += bytes;
                    Run { memory: run.as_mut_ptr(), bytes, end }
                }));
                assert_eq!(end, bytes, "the buffers of a list are as long as the request");
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
    /// The same, but each piece covers one buffer only, for commands that can name no more.
    pub(crate) fn of_one_buffer_each(self) -> Self {
        Self { buffers_max: 1, ..self }
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    /// The same, but a piece of a deallocation covers at most `bytes` bytes (whole blocks).
    pub(crate) fn deallocating_at_most(mut self, bytes: u64) -> Self {
        if self.transfer.verb == Verb::Deallocate && bytes > 0 {
            self.piece_bytes = self.piece_bytes.min(bytes);
        }
        self
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    /// The same, but a piece of a write of zeros covers at most `bytes` bytes (whole blocks).
    pub(crate) fn zeroing_at_most(mut self, bytes: u64) -> Self {
        if self.transfer.verb == Verb::Zero && bytes > 0 {
            self.piece_bytes = self.piece_bytes.min(bytes);
        }
        self
    }

    /// Describes the request, for messages.
    pub(crate) fn context(&self) -> String {
        self.transfer.context()
    }

    /// Fails the request, whose pieces were not taken. The request completes when this is dropped.
    pub(crate) fn refuse(&self, error: Error) {
        self.transfer.fail(error);
    }

    /// Sets the driver that fetches the request's completion. Must be called before any piece is taken.
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
        let piece = Piece::new(self.transfer.another(), self.next, bytes, self.zeroes_max);
        debug_assert!(bytes > 0 || self.bare, "a piece brings its request on");
        self.bare = false;
        self.next += bytes;
        assert!(self.next <= self.transfer.bytes, "pieces are of the request alone (invariant 2)");
        Some(piece)
    }
}
