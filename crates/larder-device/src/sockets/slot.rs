//! What is known of a socket: what has come to it and was not received, and what is under way.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::task::{Context, Waker};
use std::time::Instant;

use super::provided::ProvidedBuffers;

/// So many pieces wait in buffers of the pool before the kernel is told to stop.
pub(super) const PIECES_MAX: usize = 8;

/// Whether the kernel fills buffers with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// It was not told to, or has ended.
    Off,
    /// Into one buffer.
    Once,
    /// Into one after the other.
    On,
    /// It was told to stop, and will end.
    Stopping,
}

/// See the module.
pub(super) struct Slot {
    fd: OwnedFd,
    /// Bytes that were copied out of the pool, before those in `pieces`, and how many of them were received.
    copied: Vec<u8>,
    copied_at: usize,
    pieces: VecDeque<Piece>,
    /// Nothing will come any more: the end, or an error.
    pub(super) end: Option<Result<(), i32>>,
    pub(super) receiving: Receiving,
    pub(super) reader: Option<Waker>,
    pub(super) is_sending: bool,
    /// When the ring has taken what is under way.
    pub(super) sending_since: Option<Instant>,
    /// How many bytes of the send were sent before it was short.
    pub(super) sent: usize,
    /// Why a send has failed, until somebody is told.
    pub(super) send_error: Option<i32>,
    pub(super) writer: Option<Waker>,
    /// Requests that have completions to come: the slot is nobody else's before they have.
    pub(super) under_way: usize,
    /// Nobody has the socket any more.
    pub(super) is_orphan: bool,
}

/// What has come in a buffer of the pool.
struct Piece {
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

    /// Something has come.
    pub(super) fn came(&mut self, buffer: u16, len: usize) {
        self.pieces.push_back(Piece { buffer, at: 0, len });
    }

    pub(super) fn has_come(&self) -> bool {
        !self.pieces.is_empty() || self.copied_at < self.copied.len()
    }

    /// Whether it holds so much that the kernel should stop.
    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= PIECES_MAX
    }

    /// Bytes that it holds outside of the pool.
    pub(super) fn copied_bytes(&self) -> usize {
        self.copied.capacity()
    }

    /// Whether the kernel should be told to go on.
    pub(super) fn wants_more(&self) -> bool {
        let has_room = self.pieces.len() < PIECES_MAX / 2 && self.copied_at == self.copied.len();
        self.receiving == Receiving::Off && self.end.is_none() && has_room && !self.is_orphan
    }

    /// Appends what has come to `input`, as far as its spare capacity goes. Says how many bytes that are.
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

    /// Copies what has come out of the pool, whose buffers others need.
    pub(super) fn leave_pool(&mut self, provided: &mut ProvidedBuffers) {
        for piece in self.pieces.drain(..) {
            let filled = provided.filled(piece.buffer, piece.len);
            self.copied.extend_from_slice(filled.get(piece.at..).unwrap_or_default());
            provided.give_back(piece.buffer);
        }
    }

    /// Forgets what has come.
    pub(super) fn forget(&mut self, provided: &mut ProvidedBuffers) {
        self.pieces.drain(..).for_each(|piece| provided.give_back(piece.buffer));
        (self.copied, self.copied_at) = (Vec::new(), 0);
    }

    /// What a reader finds when nothing has come.
    pub(super) fn at_end(&self) -> Option<io::Result<usize>> {
        self.end.map(|end| match end {
            Ok(()) => Ok(0),
            Err(code) => Err(io::Error::from_raw_os_error(code)),
        })
    }
}

/// Leaves a waker, unless this one is there.
pub(super) fn wait(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *place = Some(cx.waker().clone()),
    }
}
