//! Handles the requests of a connection, from the bytes of a socket to the volume and back.
//!
//! One turn reads all input, begins all of it, and answers what has ended with one send. Requests end in any order.
//! The memory of a connection is bounded: a request that would exceed [`HELD_BYTES_MAX`] together with the earlier
//! ones, or that is one too many, begins only when those have been answered. Until then nothing more is read.
//!
//! If a client closes the connection, the requests that it had begun are completed, and no others
//! ([`super::presence`]).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, Stream};
use larder_device::{BufferPool, Durability, IoBuffer, IoFuture, IoResult};
use larder_net::sockets::{Output, Socket};

use super::contexts::NumberedContext;
use super::negotiation::Agreement;
use super::presence::{Presence, poll_all_settled};
use super::reply::{Replies, refusal_of};
use super::request::{Command, Limits, Refusal, Request};
use super::under_way::{ReplyContext, RequestUnderWay};
use super::wire::Errno;
use crate::volume::{Extent, Volume, length};

/// Memory of a connection for data being written, read, and to be sent: about that of its longest request. The same
/// amount may be in flight to the client.
const HELD_BYTES_MAX: usize = 32 << 20;
/// Most requests of a connection in flight in the volume.
const REQUESTS_MAX: usize = 512;
/// Bytes that are read at a time.
pub(super) const INPUT_BYTES: usize = 256 << 10;
/// Most reads in a turn, before other connections have theirs.
const ROUNDS_A_TURN: usize = 4;
/// Largest reply buffer that an idle connection keeps.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Most extents of a reply to a block status.
const EXTENTS_MAX: usize = 4096;

/// The requests of a connection.
pub(super) struct Transmission<S> {
    socket: S,
    agreement: Agreement,
    limits: Limits,
    replies: Replies,
    pool: BufferPool,
    presence: Arc<Presence>,
    /// Connections whose changes must end before the first change of this one.
    gone_before: Vec<Arc<Presence>>,
    /// Input that is not processed yet.
    input: Vec<u8>,
    expects: Expects,
    under_way: FuturesUnordered<RequestUnderWay>,
    /// Memory of the requests in flight.
    held_bytes: usize,
    output: Output,
    /// A request has arrived that cannot begin yet.
    is_stalled: bool,
    /// The server reads no more requests.
    is_over: bool,
    /// The server cannot send any more replies.
    is_broken: bool,
}

/// What the client sends next.
enum Expects {
    Request,
    /// The payload of a write.
    Payload(Payload),
    /// The payload of a refused write, of which `left` bytes have yet to arrive. The reply follows the payload,
    /// because a client may not read before it has sent everything.
    Refused {
        left: usize,
        cookie: u64,
        refusal: Refusal,
    },
}

struct Payload {
    cookie: u64,
    offset: u64,
    durability: Durability,
    buffer: IoBuffer,
    filled: usize,
}

impl<S: Socket> Transmission<S> {
    /// A connection whose client has sent `input` after the handshake.
    pub(super) fn new(
        socket: S,
        agreement: Agreement,
        (presence, gone_before): (Arc<Presence>, Vec<Arc<Presence>>),
        pool: BufferPool,
        (input, output): (Vec<u8>, Output),
    ) -> Self {
        let has_contexts = !agreement.contexts.is_empty();
        let limits = agreement.export.limits(agreement.is_structured, has_contexts);
        Self {
            socket,
            limits,
            replies: Replies { is_structured: agreement.is_structured },
            agreement,
            pool,
            presence,
            gone_before,
            input,
            expects: Expects::Request,
            under_way: FuturesUnordered::new(),
            held_bytes: 0,
            output,
            is_stalled: false,
            is_over: false,
            is_broken: false,
        }
    }

    /// Stops reading. Requests in flight are completed.
    pub(super) fn ends(&mut self) {
        self.is_over = true;
        self.expects = Expects::Request;
        self.input = Vec::new();
    }

    /// Runs a turn. Ready when nothing more will arrive and the volume has ended all requests.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for round in 1.. {
            let begun = self.begin_all(cx);
            let ended = self.collect(cx);
            let received = !self.is_stalled && self.receive(cx);
            if !(begun || ended || received) {
                break;
            }
            if round == ROUNDS_A_TURN {
                cx.waker().wake_by_ref();
                break;
            }
        }
        self.send(cx);
        if self.is_over && self.under_way.is_empty() {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Removes the connection. It must have no requests in flight.
    pub(super) fn leave(&mut self) {
        assert!(self.under_way.is_empty(), "a connection that leaves has no requests in flight");
        self.agreement.export.presences.leave(&self.presence);
    }

    /// Sends the remaining replies after all requests have ended.
    pub(super) fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_broken && self.socket.poll_send(cx, &mut self.output).is_pending() {
            return Poll::Pending;
        }
        self.socket.poll_close(cx)
    }

    /// Reads input. Returns whether there was any.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        if self.is_over {
            return false;
        }
        if self.input.capacity() < INPUT_BYTES {
            self.input.reserve_exact(INPUT_BYTES - self.input.len());
        }
        match self.socket.poll_receive(cx, &mut self.input) {
            Poll::Pending => false,
            Poll::Ready(Ok(count)) if count > 0 => true,
            ended => {
                // The connection was closed or has failed: the rest of its input is not begun.
                self.is_broken |= matches!(ended, Poll::Ready(Err(_)));
                self.presence.goes();
                self.ends();
                false
            }
        }
    }

    /// Begins all input, as far as there is room. Returns whether it processed any.
    fn begin_all(&mut self, cx: &mut Context<'_>) -> bool {
        self.is_stalled = false;
        // Moved out, so that it can be read while the rest of `self` changes.
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while !self.is_over && !self.is_stalled {
            let used = match &mut self.expects {
                Expects::Request => self.begin(&input[at..], cx),
                Expects::Payload(payload) => {
                    let used = payload.fill(&input[at..]);
                    if payload.is_full() && !self.write(cx) {
                        break;
                    }
                    used
                }
                Expects::Refused { left, cookie, refusal } => {
                    let used = (*left).min(input.len() - at);
                    *left -= used;
                    let (is_all, cookie, refusal) = (*left == 0, *cookie, *refusal);
                    if is_all {
                        self.expects = Expects::Request;
                        self.refuse(cookie, refusal);
                    }
                    used
                }
            };
            at += used;
            if used == 0 || at == input.len() {
                break;
            }
        }
        if !self.is_over {
            self.input = input;
            self.input.drain(..at);
        }
        at > 0
    }

    /// Begins the request at the beginning of `input`. Returns the number of processed bytes: 0 if the request is
    /// incomplete or must wait.
    fn begin(&mut self, input: &[u8], cx: &mut Context<'_>) -> usize {
        let request = match Request::parse(input, &self.limits) {
            Ok(None) => return 0,
            Ok(Some(request)) => request,
            Err(_) => {
                self.ends();
                return 0;
            }
        };
        let Request { cookie, payload_bytes, what } = request;
        match what {
            Ok(Command::Disconnect) => self.ends(),
            Err(refusal) => {
                if !self.has_room(0) {
                    self.is_stalled = true;
                    return 0;
                }
                match usize::try_from(payload_bytes) {
                    Ok(0) => self.refuse(cookie, refusal),
                    Ok(left) => self.expects = Expects::Refused { left, cookie, refusal },
                    Err(_) => unreachable!("Linux has no machines with less than 32 bits"),
                }
            }
            Ok(command) => {
                if !self.start(cookie, command, cx) {
                    return 0;
                }
            }
        }
        Request::HEADER_BYTES
    }

    /// Begins a command. `false`: not yet, or never.
    fn start(&mut self, cookie: u64, command: Command, cx: &mut Context<'_>) -> bool {
        let held_bytes = match &command {
            Command::Read(range) | Command::Write { range, .. } => length(range),
            Command::BlockStatus { .. } => {
                self.agreement.contexts.len() * EXTENTS_MAX * size_of::<Extent>()
            }
            _ => 0,
        };
        let changes = matches!(
            command,
            Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. }
        );
        let waits = changes && poll_all_settled(&mut self.gone_before, cx).is_pending();
        if waits || !self.has_room(held_bytes) {
            self.is_stalled = true;
            return false;
        }
        let volume = Arc::clone(self.agreement.export.volume());
        let asked = |read_at| ReplyContext { cookie, read_at, held_bytes };
        match command {
            Command::Read(range) => {
                let io = volume.read(range.start, self.pool.take(length(&range)));
                self.await_end(asked(Some(range.start)), io, cx);
            }
            Command::Write { range, is_durable } => {
                self.held_bytes += held_bytes;
                self.expects = Expects::Payload(Payload {
                    cookie,
                    offset: range.start,
                    durability: durability(is_durable),
                    buffer: self.pool.take(length(&range)),
                    filled: 0,
                });
            }
            Command::Flush => self.await_end(asked(None), volume.flush(), cx),
            Command::Cache(range) => self.await_end(asked(None), volume.cache(range), cx),
            Command::Trim { range, is_durable } => {
                let trim = |volume: &dyn Volume| volume.trim(range, durability(is_durable));
                return self.change(asked(None), trim, cx);
            }
            Command::WriteZeroes { range, is_fast: true, .. }
                if !volume.zeroes_fast(range.clone()) =>
            {
                let why = "zeros are not known to be faster than a write here";
                self.refuse(cookie, Refusal { errno: Errno::NotSupported, why });
            }
            Command::WriteZeroes { range, is_durable, keeps_room, .. } => {
                let zero = |volume: &dyn Volume| {
                    volume.write_zeroes(range, keeps_room, durability(is_durable))
                };
                return self.change(asked(None), zero, cx);
            }
            Command::BlockStatus { range, only_one } => self.status(cookie, &range, only_one),
            Command::Disconnect => unreachable!("it was dealt with"),
        }
        true
    }

    /// Writes a complete payload. `false`: the client is gone, and it is not written.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let Expects::Payload(payload) = std::mem::replace(&mut self.expects, Expects::Request)
        else {
            unreachable!("a payload has come whole");
        };
        let Payload { cookie, offset, durability, buffer, .. } = payload;
        let held_bytes = buffer.len();
        // It is counted again as a request in flight.
        self.held_bytes -= held_bytes;
        let asked = ReplyContext { cookie, read_at: None, held_bytes };
        self.change(asked, |volume| volume.write(offset, buffer, durability), cx)
    }

    /// Begins a change. `false`: the client is gone.
    fn change(
        &mut self,
        asked: ReplyContext,
        begin: impl FnOnce(&dyn Volume) -> IoFuture,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(change) = self.presence.begin() else {
            self.ends();
            return false;
        };
        let io = begin(&**self.agreement.export.volume());
        self.await_change(RequestUnderWay::new(asked, io, Some(change)), asked, cx);
        true
    }

    fn await_end(&mut self, asked: ReplyContext, io: IoFuture, cx: &mut Context<'_>) {
        self.await_change(RequestUnderWay::new(asked, io, None), asked, cx);
    }

    fn await_change(
        &mut self,
        mut under_way: RequestUnderWay,
        asked: ReplyContext,
        cx: &mut Context<'_>,
    ) {
        self.held_bytes += asked.held_bytes;
        // Requests that are served from memory have usually ended already.
        match Pin::new(&mut under_way).poll(cx) {
            Poll::Ready((asked, result)) => self.answer(asked, result),
            Poll::Pending => self.under_way.push(under_way),
        }
    }

    /// Answers the requests that have ended. Returns whether there were any.
    fn collect(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while let Poll::Ready(Some((asked, result))) = Pin::new(&mut self.under_way).poll_next(cx) {
            self.answer(asked, result);
            any = true;
        }
        any
    }

    fn answer(&mut self, asked: ReplyContext, result: IoResult) {
        let ReplyContext { cookie, read_at, held_bytes } = asked;
        self.held_bytes -= held_bytes;
        if self.is_broken {
            return;
        }
        match (result, read_at) {
            (Ok(content), Some(offset)) => {
                self.replies.data(self.output.buffer(), cookie, offset, &content);
            }
            (Ok(_), None) => Replies::done(self.output.buffer(), cookie),
            (Err(failure), _) => {
                let export = self.agreement.export.name();
                tracing::warn!(export, error = %failure.error, "a request has failed");
                self.refuse(cookie, refusal_of(&failure.error));
            }
        }
    }

    fn refuse(&mut self, cookie: u64, refusal: Refusal) {
        if !self.is_broken {
            self.replies.refused(self.output.buffer(), cookie, refusal);
        }
    }

    /// Replies with the status of a range for each selected context.
    fn status(&mut self, cookie: u64, range: &std::ops::Range<u64>, only_one: bool) {
        let export = &self.agreement.export;
        let extents_max = if only_one { 1 } else { EXTENTS_MAX };
        let contexts: &[NumberedContext] = &self.agreement.contexts;
        let output = self.output.buffer();
        for (nth, (number, context)) in contexts.iter().enumerate() {
            let extents = export.volume().status(*context, range.clone(), extents_max);
            let covered: u64 = extents.iter().map(|extent| extent.bytes).sum();
            assert!(
                (1..=range.end - range.start).contains(&covered) && extents.len() <= extents_max,
                "a volume says something of a range, and no more than was asked"
            );
            let is_last = nth + 1 == contexts.len();
            Replies::status(output, cookie, (*number, is_last), &extents);
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        let held = self.held_bytes + self.output.len();
        self.under_way.len() < REQUESTS_MAX && (held == 0 || held + bytes <= HELD_BYTES_MAX)
    }

    /// Sends all replies with one call.
    fn send(&mut self, cx: &mut Context<'_>) {
        if self.is_broken || self.output.is_empty() {
            return;
        }
        let sent: Poll<io::Result<()>> = self.socket.poll_send(cx, &mut self.output);
        if self.output.is_empty() && self.output.buffer().capacity() > KEPT_BYTES_MAX {
            self.output = Output::default();
        }
        match sent {
            // A request that waited for room can continue.
            Poll::Ready(Ok(())) if self.is_stalled => cx.waker().wake_by_ref(),
            Poll::Ready(Ok(())) | Poll::Pending => {}
            Poll::Ready(Err(_)) => {
                self.is_broken = true;
                self.output = Output::default();
                self.presence.goes();
                self.ends();
            }
        }
    }
}

impl<S> Drop for Transmission<S> {
    fn drop(&mut self) {
        // Drop the requests in flight first: their changes still count.
        self.under_way = FuturesUnordered::new();
        self.agreement.export.presences.leave(&self.presence);
    }
}

impl Payload {
    /// Takes its part from the beginning of `input`. Returns the number of bytes.
    fn fill(&mut self, input: &[u8]) -> usize {
        let count = input.len().min(self.buffer.len() - self.filled);
        self.buffer.copy_in(self.filled, &input[..count]);
        self.filled += count;
        count
    }

    fn is_full(&self) -> bool {
        self.filled == self.buffer.len()
    }
}

fn durability(is_durable: bool) -> Durability {
    if is_durable { Durability::Power } else { Durability::Device }
}
