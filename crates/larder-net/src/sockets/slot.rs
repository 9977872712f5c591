//! The state of a socket: received bytes that were not taken yet, and requests in flight.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::task::{Context, Waker};
use std::time::Instant;

use super::provided::ProvidedBuffers;

/// Most pieces in pool buffers before the socket stops receiving.
pub(super) const PIECES_MAX: usize = 8;

/// State of the kernel's receive for a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// Not started, or ended.
    Off,
    /// Into one buffer.
    Once,
    /// Into one buffer after the other.
    On,
    /// It was told to stop, and will end.
    Stopping,
}

/// See the module.
pub(super) struct Slot {
    fd: OwnedFd,
    /// Bytes that were copied out of the pool. They come before those in `pieces`; the first `copied_at` were taken.
    copied: Vec<u8>,
    copied_at: usize,
    pieces: VecDeque<ReceivedBytes>,
    /// Set when nothing more will come: the end of the stream, or an error number.
    pub(super) end: Option<Result<(), i32>>,
    pub(super) receiving: Receiving,
    pub(super) reader: Option<Waker>,
    pub(super) is_sending: bool,
    /// When the ring took the send in flight.
    pub(super) sending_since: Option<Instant>,
    /// Bytes of the send that have been sent so far.
    pub(super) sent: usize,
    /// The error number of a failed send.
    pub(super) send_error: Option<i32>,
    pub(super) writer: Option<Waker>,
    /// Requests that will have further completions. The slot is not reused before they have ended.
    pub(super) under_way: usize,
    /// The socket was dropped.
    pub(super) is_orphan: bool,
}

/// Received bytes in a buffer of the pool.
struct ReceivedBytes {
    buffer: u16,
    at: usize,
    len: usize,
}

impl Slot {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            copied: Vec::new(),
            copied_at: 0,
            pieces: VecDeque::new(),
            end: None,
            receiving: Receiving::Off,
            reader: None,
            is_sending: false,
            sending_since: None,
            sent: 0,
            send_error: None,
            writer: None,
            under_way: 0,
            is_orphan: false,
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Adds a piece that was received.
    pub(super) fn came(&mut self, buffer: u16, len: usize) {
        self.pieces.push_back(ReceivedBytes { buffer, at: 0, len });
    }

    pub(super) fn has_come(&self) -> bool {
        !self.pieces.is_empty() || self.copied_at < self.copied.len()
    }

    /// Whether it holds enough pieces that receiving should stop.
    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= PIECES_MAX
    }

    /// Bytes that it holds outside the pool.
    pub(super) fn copied_bytes(&self) -> usize {
        self.copied.capacity()
    }

    /// Whether receiving should resume.
    pub(super) fn wants_more(&self) -> bool {
        let has_room = self.pieces.len() < PIECES_MAX / 2 && self.copied_at == self.copied.len();
        self.receiving == Receiving::Off && self.end.is_none() && has_room && !self.is_orphan
    }

    /// Appends received bytes to `input`, up to its spare capacity. Returns the number of bytes.
    pub(super) fn receive(&mut self, input: &mut Vec<u8>, provided: &mut ProvidedBuffers) -> usize {
        let before = input.len();
        let copied = self.copied.get(self.copied_at..).unwrap_or_default();
        let fits = copied.len().min(input.capacity() - input.len());
        input.extend_from_slice(copied.get(..fits).unwrap_or_default());
        self.copied_at += fits;
        if self.copied_at == self.copied.len() {
            (self.copied, self.copied_at) = (Vec::new(), 0);
        }
        while let Some(piece) = self.pieces.front_mut() {
            let fits = (piece.len - piece.at).min(input.capacity() - input.len());
            if fits == 0 && piece.at < piece.len {
                break;
            }
            let filled = provided.filled(piece.buffer, piece.len);
            input.extend_from_slice(filled.get(piece.at..piece.at + fits).unwrap_or_default());
            piece.at += fits;
            if piece.at == piece.len {
                provided.give_back(piece.buffer);
                self.pieces.pop_front();
            }
        }
        input.len() - before
    }

    /// Copies the received bytes out of the pool, whose buffers other sockets need.
    pub(super) fn leave_pool(&mut self, provided: &mut ProvidedBuffers) {
        for piece in self.pieces.drain(..) {
            let filled = provided.filled(piece.buffer, piece.len);
            self.copied.extend_from_slice(filled.get(piece.at..).unwrap_or_default());
            provided.give_back(piece.buffer);
        }
    }

    /// Drops the received bytes.
    pub(super) fn forget(&mut self, provided: &mut ProvidedBuffers) {
        self.pieces.drain(..).for_each(|piece| provided.give_back(piece.buffer));
        (self.copied, self.copied_at) = (Vec::new(), 0);
    }

    /// What a reader gets when no bytes are left.
    pub(super) fn at_end(&self) -> Option<io::Result<usize>> {
        self.end.map(|end| match end {
            Ok(()) => Ok(0),
            Err(code) => Err(io::Error::from_raw_os_error(code)),
        })
    }
}

/// Stores the task's waker, unless it is stored already.
pub(super) fn wait(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *place = Some(cx.waker().clone()),
    }
}
