//! A socket over a socket: what is received is decrypted, what is sent is encrypted.
//!
//! Invariants: rustls is always shown all of `incoming`, since it remembers places in it; what it has left there is a
//! part of a record, or of a message of the handshake, unless `unprocessed` says otherwise. The first `encrypted` bytes
//! of what is to be sent lie encrypted in `outgoing`, so that a send that is given up can be taken up again.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use larder_device::sockets::{BUFFER_BYTES, Buffers, Output, Socket};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use crate::certificate::common_name;
use crate::credentials::Tls;

/// So much ciphertext of a client is kept at most: a record has 18 KiB, and what it says in a handshake, its
/// certificates above all, must fit too.
const INCOMING_MAX: usize = 2 * BUFFER_BYTES;
/// So much is encrypted at a time: two records, which fit into a buffer that is used again.
const PIECE: usize = 2 * BUFFER_BYTES - 2 * OVERHEAD;
/// More than a record adds to its content.
const OVERHEAD: usize = 64;

/// A socket over a socket: what is received is decrypted, what is sent is encrypted, once there was a handshake.
pub struct TlsSocket<S> {
    socket: S,
    buffers: Rc<Buffers>,
    tls: Box<UnbufferedServerConnection>,
    /// What has come and is not decrypted. Empty, it has no memory.
    incoming: Vec<u8>,
    /// There may be whole records in `incoming`.
    unprocessed: bool,
    /// What was decrypted and did not fit where it was to go.
    plain: Vec<u8>,
    /// The client sends nothing more.
    has_ended: bool,
    outgoing: Output,
    encrypted: usize,
    /// That it ends was said, or cannot be.
    has_said_farewell: bool,
}

/// How far a step has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// There is more to be done.
    GoesOn,
    /// Something was decrypted.
    Received,
    /// What was to be sent is encrypted.
    Encrypted,
    /// More must come from the client first.
    Waits,
}

impl<S: Socket> TlsSocket<S> {
    /// TLS of a server on `socket`, before its handshake. It takes `buffers` while something is in them.
    ///
    /// # Errors
    /// If the configuration of `tls` cannot be.
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

    /// Whether the handshake has not ended.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// The common name (CN) in the client's certificate, if it has shown one, and that has one name.
    pub fn client_name(&self) -> Option<String> {
        self.tls.peer_certificates().and_then(<[_]>::first).and_then(|one| common_name(one))
    }

    /// Whether what has come begins as no TLS does.
    pub fn is_no_tls(&self) -> bool {
        const HANDSHAKE: u8 = 22;
        let has_begun = self.tls.protocol_version().is_some();
        !has_begun && self.incoming.first().is_some_and(|first| *first != HANDSHAKE)
    }

    /// Takes ciphertext in. 0 is the end.
    ///
    /// # Errors
    /// Of the socket, and if a client sends more than a handshake has.
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

    /// Takes the handshake as far as it goes with what has come.
    ///
    /// # Errors
    /// What the client has done wrong: it is told with the next [`poll_flush`](Self::poll_flush).
    pub fn process(&mut self) -> Result<(), rustls::Error> {
        let mut nowhere = Vec::new();
        while matches!(self.step(&[], &mut nowhere)?, Progress::GoesOn | Progress::Received) {}
        self.unprocessed = false;
        self.keep_incoming();
        Ok(())
    }

    /// Sends what TLS has to say for itself.
    ///
    /// # Errors
    /// Of the socket.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = self.socket.poll_send(cx, &mut self.outgoing);
        if sent.is_ready() {
            let buffer = std::mem::take(&mut self.outgoing).into_buffer();
            self.buffers.give(buffer);
        }
        sent
    }

    /// Lets rustls do one thing: with what has come, whose content goes to `input` as far as that has capacity; or,
    /// when nothing else is left, with `content`, which it encrypts.
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
                // It is in `outgoing`, before whatever comes later.
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

    /// Says that nothing more will come from here, behind the alert that tells why if the client has done wrong.
    fn say_farewell(&mut self) {
        let mut nowhere = Vec::new();
        loop {
            match self.step(&[], &mut nowhere) {
                // What it still asks is not answered.
                Ok(Progress::GoesOn | Progress::Received) => self.plain.clear(),
                Ok(_) => break,
                Err(_) => return,
            }
        }
        let Self { tls, incoming, outgoing, buffers, .. } = self;
        let UnbufferedStatus { discard, state } = tls.process_tls_records(incoming);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            let farewell = |to: &mut [u8]| traffic.queue_close_notify(to).map_err(wanted);
            // Who is not told sees the connection end.
            let _ = append(outgoing, buffers, OVERHEAD, farewell);
        }
        incoming.drain(..discard);
    }

    /// Nothing is in `incoming`: its memory is for others.
    fn give_incoming(&mut self) {
        if self.incoming.is_empty() && self.incoming.capacity() > 0 {
            self.buffers.give(std::mem::take(&mut self.incoming));
        }
    }

    /// What is in `incoming` waits for more, in no more memory than it needs.
    fn keep_incoming(&mut self) {
        if self.incoming.capacity() > self.incoming.len() && self.incoming.len() < BUFFER_BYTES {
            let rest = self.incoming.as_slice().to_vec();
            self.buffers.give(std::mem::replace(&mut self.incoming, rest));
        }
    }

    /// Moves what was decrypted before to `input`, as far as it has capacity.
    fn take_plain(&mut self, input: &mut Vec<u8>) {
        let count = self.plain.len().min(input.capacity() - input.len());
        input.extend(self.plain.drain(..count));
        if self.plain.is_empty() {
            self.buffers.give(std::mem::take(&mut self.plain));
        }
    }
}

/// Appends what was decrypted to `input`, and what it has no capacity for to `rest`.
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

/// Appends what `write` writes into so many bytes; where that is too little, it says how many it wants, if that would
/// help.
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

/// How much room an encryption wants, if that is what is missing.
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
            // A connection that ends without a farewell: requests say themselves where they end.
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
            // Before it encrypts, it has gone through all that has come.
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
