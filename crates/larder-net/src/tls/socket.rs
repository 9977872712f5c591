//! A socket over a socket: decrypts what is received, and encrypts what is sent.
//!
//! Invariants: rustls always gets all of `incoming`, since it remembers positions in it. What it has left there is a
//! part of a record, or of a handshake message, unless `unprocessed` is set. The first `encrypted` bytes of the output
//! are in `outgoing` in encrypted form, so that a cancelled send can be resumed.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::sockets::{BUFFER_BYTES, Buffers, Output, Socket};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use super::certificate::common_name;
use super::credentials::Tls;

/// Most ciphertext of a client that is kept: a record has 18 KiB, and the client's handshake messages, mainly its
/// certificates, must fit too.
const INCOMING_MAX: usize = 2 * BUFFER_BYTES;
/// Bytes that are encrypted at a time: two records, which fit into a reusable buffer.
const PIECE: usize = 2 * BUFFER_BYTES - 2 * OVERHEAD;
/// More than a record adds to its content.
const OVERHEAD: usize = 64;

/// A socket over a socket: after the handshake it decrypts what is received, and encrypts what is sent.
pub struct TlsSocket<S> {
    socket: S,
    buffers: Rc<Buffers>,
    tls: Box<UnbufferedServerConnection>,
    /// Received and not decrypted yet. When empty it has no allocation.
    incoming: Vec<u8>,
    /// There may be complete records in `incoming`.
    unprocessed: bool,
    /// Decrypted, but did not fit in the reader's buffer.
    plain: Vec<u8>,
    /// The client sends nothing more.
    has_ended: bool,
    outgoing: Output,
    encrypted: usize,
    /// The close notification was queued, or cannot be.
    has_said_farewell: bool,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// There is more to do.
    GoesOn,
    /// Something was decrypted.
    Received,
    /// The content to send is encrypted.
    Encrypted,
    /// More must come from the client first.
    Waits,
}

impl<S: Socket> TlsSocket<S> {
    /// A server's TLS on `socket`, before its handshake. It takes buffers from `buffers` only while there is something
    /// in them.
    ///
    /// # Errors
    /// If the configuration of `tls` is invalid.
    pub fn new(socket: S, tls: &Tls, buffers: Rc<Buffers>) -> Result<Self, rustls::Error> {
        let tls = Box::new(UnbufferedServerConnection::new(tls.config())?);
        Ok(Self {
            socket,
            buffers,
            tls,
            incoming: Vec::new(),
            unprocessed: false,
            plain: Vec::new(),
            has_ended: false,
            outgoing: Output::default(),
            encrypted: 0,
            has_said_farewell: false,
        })
    }

    /// Whether the handshake is still in progress.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// The common name (CN) in the client's certificate; `None` if there is no certificate, or not exactly one name.
    pub fn client_name(&self) -> Option<String> {
        self.tls.peer_certificates().and_then(<[_]>::first).and_then(|one| common_name(one))
    }

    /// Whether the first byte cannot belong to TLS.
    pub fn is_no_tls(&self) -> bool {
        const HANDSHAKE: u8 = 22;
        let has_begun = self.tls.protocol_version().is_some();
        !has_begun && self.incoming.first().is_some_and(|first| *first != HANDSHAKE)
    }

    /// Receives ciphertext. 0 is the end.
    ///
    /// # Errors
    /// Errors of the socket; or the client has sent more than a handshake needs.
    pub fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // A socket that waits for bytes has no buffer for them.
        if self.socket.poll_readable(cx).is_pending() {
            self.keep_incoming();
            return Poll::Pending;
        }
        if self.incoming.len() == self.incoming.capacity() {
            if self.incoming.len() >= INCOMING_MAX {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
            if self.incoming.len() < BUFFER_BYTES {
                let mut buffer = self.buffers.take();
                buffer.extend_from_slice(&self.incoming);
                self.incoming = buffer;
            } else {
                self.incoming.reserve_exact(INCOMING_MAX - self.incoming.len());
            }
        }
        let Poll::Ready(received) = self.socket.poll_receive(cx, &mut self.incoming) else {
            self.keep_incoming();
            return Poll::Pending;
        };
        self.unprocessed = matches!(received, Ok(count) if count > 0);
        if !self.unprocessed {
            self.give_incoming();
        }
        Poll::Ready(received)
    }

    /// Advances the handshake as far as the received bytes allow.
    ///
    /// # Errors
    /// What the client has done wrong; the next [`poll_flush`](Self::poll_flush) tells the client.
    pub fn process(&mut self) -> Result<(), rustls::Error> {
        let mut nowhere = Vec::new();
        while matches!(self.step(&[], &mut nowhere)?, Progress::GoesOn | Progress::Received) {}
        self.unprocessed = false;
        self.keep_incoming();
        Ok(())
    }

    /// Sends queued TLS messages.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = self.socket.poll_send(cx, &mut self.outgoing);
        if sent.is_ready() {
            let buffer = std::mem::take(&mut self.outgoing).into_buffer();
            self.buffers.give(buffer);
        }
        sent
    }

    /// Lets rustls do one step: decrypt what has come to `input`, as far as that has capacity; or, if nothing else is
    /// left to do, encrypt `content`.
    fn step(&mut self, content: &[u8], input: &mut Vec<u8>) -> Result<Progress, rustls::Error> {
        let Self { tls, incoming, plain, outgoing, buffers, .. } = self;
        let UnbufferedStatus { mut discard, state } = tls.process_tls_records(incoming);
        let progress = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                let mut received = Ok(Progress::Received);
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            discard += record.discard;
                            put(record.payload, input, plain, buffers);
                        }
                        Err(error) => received = Err(error),
                    }
                }
                received
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => append(outgoing, buffers, 0, |to| {
                data.encode(to).map_err(|error| match error {
                    EncodeError::InsufficientSize(wanted) => Some(wanted.required_size),
                    EncodeError::AlreadyEncoded => None,
                })
            })
            .map(|_| Progress::GoesOn),
            Ok(ConnectionState::TransmitTlsData(data)) => {
                // It is in `outgoing`, before everything that comes later.
                data.done();
                Ok(Progress::GoesOn)
            }
            Ok(ConnectionState::WriteTraffic(mut traffic)) if !content.is_empty() => {
                let records = content.len().div_ceil(BUFFER_BYTES);
                append(outgoing, buffers, content.len() + records * OVERHEAD, |to| {
                    traffic.encrypt(content, to).map_err(wanted)
                })
                .map(|_| Progress::Encrypted)
            }
            Ok(ConnectionState::PeerClosed) => {
                self.has_ended = true;
                Ok(Progress::GoesOn)
            }
            Ok(_) => Ok(Progress::Waits),
            Err(error) => Err(error),
        };
        self.incoming.drain(..discard);
        progress
    }

    /// Queues the close notification, behind an alert if the client has done something wrong.
    fn say_farewell(&mut self) {
        let mut nowhere = Vec::new();
        loop {
            match self.step(&[], &mut nowhere) {
                // Further requests are not answered.
                Ok(Progress::GoesOn | Progress::Received) => self.plain.clear(),
                Ok(_) => break,
                Err(_) => return,
            }
        }
        let Self { tls, incoming, outgoing, buffers, .. } = self;
        let UnbufferedStatus { discard, state } = tls.process_tls_records(incoming);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            let farewell = |to: &mut [u8]| traffic.queue_close_notify(to).map_err(wanted);
            // A client without the notification sees the connection end.
            let _ = append(outgoing, buffers, OVERHEAD, farewell);
        }
        incoming.drain(..discard);
    }

    /// Gives the buffer of `incoming` back if it is empty.
    fn give_incoming(&mut self) {
        if self.incoming.is_empty() && self.incoming.capacity() > 0 {
            self.buffers.give(std::mem::take(&mut self.incoming));
        }
    }

    /// Shrinks `incoming` to its content while it waits for more.
    fn keep_incoming(&mut self) {
        if self.incoming.capacity() > self.incoming.len() && self.incoming.len() < BUFFER_BYTES {
            let rest = self.incoming.as_slice().to_vec();
            self.buffers.give(std::mem::replace(&mut self.incoming, rest));
        }
    }

    /// Moves bytes that were decrypted before to `input`, as far as it has capacity.
    fn take_plain(&mut self, input: &mut Vec<u8>) {
        let count = self.plain.len().min(input.capacity() - input.len());
        input.extend(self.plain.drain(..count));
        if self.plain.is_empty() {
            self.buffers.give(std::mem::take(&mut self.plain));
        }
    }
}

/// Appends decrypted bytes to `input`, and what does not fit to `rest`.
fn put(mut payload: &[u8], input: &mut Vec<u8>, rest: &mut Vec<u8>, buffers: &Buffers) {
    if rest.is_empty() {
        let fits = payload.len().min(input.capacity() - input.len());
        let (now, later) = payload.split_at(fits);
        input.extend_from_slice(now);
        payload = later;
    }
    if !payload.is_empty() {
        if rest.capacity() == 0 {
            *rest = buffers.take();
        }
        rest.extend_from_slice(payload);
    }
}

/// Gives `write` room for `guess` bytes, and appends what it writes. If the room is too small, `write` returns the size
/// that it needs, if more room would help.
fn append(
    output: &mut Output,
    buffers: &Buffers,
    guess: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), rustls::Error> {
    let bytes = output.buffer();
    if bytes.capacity() == 0 {
        *bytes = buffers.take();
    }
    let start = bytes.len();
    let mut room = guess;
    loop {
        bytes.resize(start + room, 0);
        match write(bytes.get_mut(start..).unwrap_or_default()) {
            Ok(written) => {
                bytes.truncate(start + written);
                return Ok(());
            }
            Err(Some(wanted)) if wanted > room => room = wanted,
            Err(_) => {
                bytes.truncate(start);
                return Err(rustls::Error::EncryptError);
            }
        }
    }
}

/// The room that an encryption needs, if that is the problem.
fn wanted(error: EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(wanted) => Some(wanted.required_size),
        EncryptError::EncryptExhausted => None,
    }
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<S: Socket> Socket for TlsSocket<S> {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.unprocessed || self.has_ended || !self.plain.is_empty() {
            return Poll::Ready(());
        }
        self.socket.poll_readable(cx)
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        assert!(input.capacity() > input.len(), "a read of nothing would look like the end");
        let before = input.len();
        self.take_plain(input);
        loop {
            while self.unprocessed && input.len() < input.capacity() {
                self.unprocessed = self.step(&[], input).map_err(broken)? != Progress::Waits;
            }
            self.give_incoming();
            if input.len() > before || self.has_ended {
                return Poll::Ready(Ok(input.len() - before));
            }
            // The end without a close notification counts as a normal end: requests mark their own end.
            let received = ready!(self.poll_incoming(cx));
            if received? == 0 {
                return Poll::Ready(Ok(0));
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, output: &mut Output) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_flush(cx))?;
            output.has_sent(std::mem::take(&mut self.encrypted));
            if output.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let piece = output.unsent();
            let piece = piece.get(..PIECE).unwrap_or(piece);
            let mut nowhere = Vec::new();
            loop {
                match self.step(piece, &mut nowhere).map_err(broken)? {
                    Progress::Encrypted => break,
                    Progress::GoesOn | Progress::Received => {}
                    Progress::Waits => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                }
            }
            self.encrypted = piece.len();
            // Encrypting comes after rustls has processed everything in `incoming`.
            self.unprocessed = false;
        }
    }

    fn is_broken(&self) -> bool {
        self.socket.is_broken()
    }

    fn held_bytes(&self) -> usize {
        self.incoming.capacity() + self.plain.capacity() + self.socket.held_bytes()
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_said_farewell {
            self.has_said_farewell = true;
            self.say_farewell();
        }
        self.poll_flush(cx).map(|_| ())
    }
}

impl<S> fmt::Debug for TlsSocket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSocket").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

impl<S> Drop for TlsSocket<S> {
    fn drop(&mut self) {
        let outgoing = std::mem::take(&mut self.outgoing).into_buffer();
        for buffer in
            [outgoing, std::mem::take(&mut self.incoming), std::mem::take(&mut self.plain)]
        {
            self.buffers.give(buffer);
        }
    }
}
