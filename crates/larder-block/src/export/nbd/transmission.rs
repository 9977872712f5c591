//! Requests of a connection, from the bytes of a socket to the volume and back.
//!
//! In a turn all that has come is read, all of it is begun, and what has ended is answered by one send. Requests end
//! in any order. What a connection holds is bounded: a request that would take more than [`HELD_BYTES_MAX`] with those
//! before it, or is one too many, is begun when they have been answered, and nothing is read meanwhile.
//!
//! A client that has closed the connection gets what it had begun done, and nothing more ([`super::presence`]).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, Stream};
use larder_device::sockets::{Output, Socket};
use larder_device::{BufferPool, Durability, IoBuffer, IoFuture, IoResult};

use super::contexts::Numbered;
use super::negotiation::Agreement;
use super::presence::{Presence, poll_all_settled};
use super::reply::{Replies, refusal_of};
use super::request::{Command, Limits, Refusal, Request};
use super::under_way::{Asked, UnderWay};
use super::wire::Errno;
use crate::volume::{Extent, Volume, length};

/// Memory of a connection for what is written, read, and to be sent: about as much as its longest request takes. As
/// much again may be on its way to the client.
const HELD_BYTES_MAX: usize = 32 << 20;
/// Requests of a connection that the volume has at a time.
const REQUESTS_MAX: usize = 512;
/// What is read at a time.
pub(super) const INPUT_BYTES: usize = 256 << 10;
/// So often it is read in a turn, before other connections have theirs.
const ROUNDS_A_TURN: usize = 4;
/// Memory of replies that a connection keeps which has nothing to send.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Extents of a reply to a block status.
const EXTENTS_MAX: usize = 4096;

/// See the module.
pub(super) struct Transmission<S> {
    socket: S,
    agreement: Agreement,
    limits: Limits,
    replies: Replies,
    pool: BufferPool,
    presence: Arc<Presence>,
    /// Those whose changes come before the first of this.
    gone_before: Vec<Arc<Presence>>,
    /// What has come and is not dealt with.
    input: Vec<u8>,
    expects: Expects,
    under_way: FuturesUnordered<UnderWay>,
    /// Memory of what is under way.
    held_bytes: usize,
    output: Output,
    /// A request has come that cannot begin yet.
    is_stalled: bool,
    /// Nothing more is read.
    is_over: bool,
    /// Nothing can be sent any more.
    is_broken: bool,
}

/// What comes next from the client.
enum Expects {
    Request,
    /// What a write carries.
    Payload(Payload),
    /// A refused write: `left` bytes of its payload are to come. The answer follows them, as a client may not read
    /// before it has sent all of them.
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
    /// Of a client that has sent `input` after it had agreed.
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

    /// Reads nothing more: what has begun is ended.
    pub(super) fn ends(&mut self) {
        self.is_over = true;
        self.expects = Expects::Request;
        self.input = Vec::new();
    }

    /// A turn. Ready when nothing more will come and the volume has ended all that was asked of it.
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

    /// Nothing of it is under way any more.
    pub(super) fn leave(&mut self) {
        assert!(self.under_way.is_empty(), "who leaves has ended what it began");
        self.agreement.export.presences.leave(&self.presence);
    }

    /// What is left to do when all has ended: sends the rest of the replies.
    pub(super) fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_broken && self.socket.poll_send(cx, &mut self.output).is_pending() {
            return Poll::Pending;
        }
        self.socket.poll_close(cx)
    }

    /// Reads what has come. Says whether that was anything.
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
                // Without a farewell, or with an error: whatever else it has sent is not begun.
                self.is_broken |= matches!(ended, Poll::Ready(Err(_)));
                self.presence.goes();
                self.ends();
                false
            }
        }
    }

    /// Begins all that has come, as far as there is room for it. Says whether that was anything.
    fn begin_all(&mut self, cx: &mut Context<'_>) -> bool {
        self.is_stalled = false;
        // Moved out, so that it can be read while the rest changes.
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

    /// Begins the request at the beginning of `input`. Says how many bytes of it are dealt with: none, if it has not
    /// come whole or must wait.
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

    /// Begins what can be done. `false`: not yet, or never.
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
        let asked = |read_at| Asked { cookie, read_at, held_bytes };
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

    /// Writes a payload that has come whole. `false`: the client is gone, and it is not written.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let Expects::Payload(payload) = std::mem::replace(&mut self.expects, Expects::Request)
        else {
            unreachable!("a payload has come whole");
        };
        let Payload { cookie, offset, durability, buffer, .. } = payload;
        let held_bytes = buffer.len();
        // It is counted again with what is under way.
        self.held_bytes -= held_bytes;
        let asked = Asked { cookie, read_at: None, held_bytes };
        self.change(asked, |volume| volume.write(offset, buffer, durability), cx)
    }

    /// Begins a change, unless the client is gone: `false`.
    fn change(
        &mut self,
        asked: Asked,
        begin: impl FnOnce(&dyn Volume) -> IoFuture,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(change) = self.presence.begin() else {
            self.ends();
            return false;
        };
        let io = begin(&**self.agreement.export.volume());
        self.await_change(UnderWay::new(asked, io, Some(change)), asked, cx);
        true
    }

    fn await_end(&mut self, asked: Asked, io: IoFuture, cx: &mut Context<'_>) {
        self.await_change(UnderWay::new(asked, io, None), asked, cx);
    }

    fn await_change(&mut self, mut under_way: UnderWay, asked: Asked, cx: &mut Context<'_>) {
        self.held_bytes += asked.held_bytes;
        // Most that are in memory have ended already.
        match Pin::new(&mut under_way).poll(cx) {
            Poll::Ready((asked, result)) => self.answer(asked, result),
            Poll::Pending => self.under_way.push(under_way),
        }
    }

    /// Answers what has ended. Says whether that was anything.
    fn collect(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while let Poll::Ready(Some((asked, result))) = Pin::new(&mut self.under_way).poll_next(cx) {
            self.answer(asked, result);
            any = true;
        }
        any
    }

    fn answer(&mut self, asked: Asked, result: IoResult) {
        let Asked { cookie, read_at, held_bytes } = asked;
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

    /// Says what is known of a range: of as much of it as all contexts know something of.
    fn status(&mut self, cookie: u64, range: &std::ops::Range<u64>, only_one: bool) {
        let export = &self.agreement.export;
        let extents_max = if only_one { 1 } else { EXTENTS_MAX };
        let contexts: &[Numbered] = &self.agreement.contexts;
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
            // What waited for room goes on.
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
        // What is under way is let go of first: it counts on.
        self.under_way = FuturesUnordered::new();
        self.agreement.export.presences.leave(&self.presence);
    }
}

impl Payload {
    /// Takes what belongs to it from the beginning of `input`. Says how many bytes that are.
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
