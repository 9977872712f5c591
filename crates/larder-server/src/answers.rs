//! The answers of a connection, sent in the order of its requests, although some of them wait for flash.
//!
//! Answers that are ready gather in one buffer. An answer that waits for flash queues behind it, and later answers
//! queue behind that one: the reads of a pipeline run in parallel, and their answers keep their order. The amount that
//! may gather is bounded ([`Answers::room`]), and we stop reading requests while writing stalls. So a client that does
//! not read its answers pins no memory of the cache, only a bounded copy of what it was to get.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use larder::Value;

use crate::account::{Holder, Passing};
use crate::worker::Worker;
use larder_net::sockets::{Output, Socket, yield_now};
use larder_net::within;

/// Most answers of a connection that wait for flash at a time.
const WAITING_MAX: usize = 64;
/// The send buffer is sent when it holds this number of bytes.
pub(crate) const SENT_AT: usize = 64 << 10;
/// About how many bytes of values may wait to be sent before we stop looking up more.
const HELD_MAX: usize = 256 << 10;
/// Values longer than this are copied into the send buffer piece by piece instead of whole.
pub(crate) const COPIED_MAX: usize = 32 << 10;
/// If a client takes nothing for this long, we copy the rest of the value and release the value itself.
const PATIENCE: Duration = Duration::from_millis(50);

/// The future of an answer that waits for flash.
pub(crate) type Later = Pin<Box<dyn Future<Output = Answer>>>;

/// What to send for one request.
pub(crate) enum Answer {
    /// The bytes to send.
    Bytes(Vec<u8>),
    /// A value between a head and a tail; the value is too long to be copied whole.
    Long { head: Vec<u8>, value: Value, tail: &'static [u8] },
}

/// The queue of answers of one connection; see the module.
pub(crate) struct Answers<'s> {
    worker: Rc<Worker>,
    socket: &'s mut dyn Socket,
    /// Bytes to send first.
    ready: Output,
    /// Answers behind `ready`, in order.
    behind: VecDeque<Slot>,
    /// Number of entries in `behind` that still wait.
    waiting: usize,
    /// Bytes of the answers in `behind` that are ready.
    held_bytes: usize,
    /// Length of the last answer that was waited for: the estimate for the answers that wait now.
    likely_bytes: usize,
    /// Bytes sent that are not charged to the rate limits yet ([`Answers::take_sent`]).
    sent_bytes: usize,
    /// The memory account's record of the bytes that the client does not take.
    untaken: Passing,
    /// The part of those bytes that is not in `ready`.
    copied_bytes: usize,
    /// Why nothing can be sent any more. Later answers are dropped.
    broken: Option<io::Error>,
}

enum Slot {
    Waits(Later),
    Found(Answer),
    /// The first string if no earlier part has failed, else the second.
    Ends(Option<FailureFlag>, [&'static [u8]; 2]),
}

/// Set when one part of a multi-part answer failed; each part is looked up by itself.
pub(crate) type FailureFlag = Rc<Cell<bool>>;

fn end_of(failed: Option<&FailureFlag>, ends: [&'static [u8]; 2]) -> &'static [u8] {
    ends[usize::from(failed.is_some_and(|failed| failed.get()))]
}

impl Answer {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Long { head, value, tail } => head.len() + value.len() + tail.len(),
        }
    }
}

impl<'s> Answers<'s> {
    /// The answers to a socket; `ready` are the first of them.
    pub(crate) fn new(
        worker: Rc<Worker>,
        holder: Holder,
        (socket, ready): (&'s mut dyn Socket, Output),
    ) -> Self {
        let untaken = Passing::new(&worker.shared.account, holder);
        Self {
            untaken,
            copied_bytes: 0,
            worker,
            socket,
            ready,
            behind: VecDeque::new(),
            waiting: 0,
            held_bytes: 0,
            likely_bytes: 0,
            sent_bytes: 0,
            broken: None,
        }
    }

    /// The socket, to receive requests from.
    pub(crate) fn socket(&mut self) -> &mut dyn Socket {
        self.socket
    }

    /// From now on, charges untaken answers to `holder`.
    pub(crate) fn belongs_to(&self, holder: Holder) {
        self.untaken.belongs_to(holder);
    }

    /// Fails if the connection is broken, so that we do not run further requests for a client that has gone.
    pub(crate) fn check_open(&mut self) -> io::Result<()> {
        if self.broken.is_none() && self.socket.is_broken() {
            self.broken = Some(io::ErrorKind::ConnectionReset.into());
        }
        match &self.broken {
            None => Ok(()),
            Some(error) => Err(error.kind().into()),
        }
    }

    /// The buffer to write the next answer into, if no answer waits before it.
    pub(crate) fn bytes_behind_all(&mut self) -> Option<&mut Vec<u8>> {
        self.behind.is_empty().then(|| self.ready.buffer())
    }

    /// The buffer to write the next answer into.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        if self.behind.is_empty() {
            return self.ready.buffer();
        }
        if !matches!(self.behind.back(), Some(Slot::Found(Answer::Bytes(_)))) {
            self.behind.push_back(Slot::Found(Answer::Bytes(Vec::new())));
        }
        match self.behind.back_mut() {
            Some(Slot::Found(Answer::Bytes(bytes))) => bytes,
            _ => unreachable!("it was just put there"),
        }
    }

    /// Queues an answer that is ready.
    pub(crate) fn push(&mut self, answer: Answer) {
        match answer {
            Answer::Bytes(bytes) => self.bytes().extend_from_slice(&bytes),
            long @ Answer::Long { .. } => {
                self.held_bytes += long.len();
                self.behind.push_back(Slot::Found(long));
            }
        }
    }

    /// Queues the result of `later` as the next answer. `later` starts at once and runs in parallel with the answers
    /// around it, so use it only for requests that change nothing. Makes room first ([`Answers::room`]). After
    /// `request_deadline` the answer is `too_late`; the read that was started then ends by itself.
    pub(crate) async fn later(
        &mut self,
        mut later: Later,
        too_late: impl FnOnce() -> Answer + 'static,
    ) {
        self.room().await;
        if let Some(deadline) = self.worker.shared.config.request_deadline {
            let worker = Rc::clone(&self.worker);
            later = Box::pin(async move {
                let answer = within(&*worker.clock, deadline, Pin::new(&mut later)).await;
                answer.unwrap_or_else(|| {
                    worker.counters.request_timeouts.add(1);
                    too_late()
                })
            });
        }
        match poll_fn(|cx| Poll::Ready(later.as_mut().poll(cx))).await {
            Poll::Ready(answer) => self.push(answer),
            Poll::Pending => {
                self.behind.push_back(Slot::Waits(later));
                self.waiting += 1;
            }
        }
        debug_assert!(self.waiting <= WAITING_MAX, "room was made");
    }

    /// Ends a multi-part answer: with the first string, or with the second if one of the parts has failed.
    pub(crate) fn ends(&mut self, failed: Option<&FailureFlag>, ends: [&'static [u8]; 2]) {
        match self.waiting {
            0 => self.bytes().extend_from_slice(end_of(failed, ends)),
            _ => self.behind.push_back(Slot::Ends(failed.cloned(), ends)),
        }
    }

    /// Sends what is queued if the queue is full. A request with a multi-part answer calls it between two parts.
    pub(crate) async fn room(&mut self) {
        if self.is_full() {
            // The error is reported when everything is sent.
            let _ = self.send().await;
        }
    }

    /// Waits until every queued answer is ready. Called before a request that changes something, so that the requests
    /// of a connection take effect in order.
    pub(crate) async fn settle(&mut self) {
        if self.waiting > 0 {
            poll_fn(|cx| self.poll_settle(cx)).await;
        }
    }

    fn poll_settle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for slot in &mut self.behind {
            if let Slot::Waits(later) = slot
                && let Poll::Ready(answer) = later.as_mut().poll(cx)
            {
                self.likely_bytes = answer.len();
                self.held_bytes += answer.len();
                *slot = Slot::Found(answer);
                self.waiting -= 1;
            }
        }
        if self.waiting == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether the queue is so full that no further request should start.
    fn is_full(&self) -> bool {
        let held = self.held_bytes + self.waiting * self.likely_bytes;
        self.waiting >= WAITING_MAX
            || self.ready.len() >= SENT_AT
            || self.behind.len() > 2 * WAITING_MAX
            || held >= HELD_MAX
    }

    /// Sends all answers; waits for those that are not ready yet.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        self.settle().await;
        while let Some(slot) = self.behind.pop_front() {
            if self.check_open().is_err() {
                self.behind.clear();
                break;
            }
            match slot {
                Slot::Found(answer) => {
                    self.held_bytes = self.held_bytes.saturating_sub(answer.len());
                    match answer {
                        Answer::Bytes(bytes) => self.ready.buffer().extend_from_slice(&bytes),
                        Answer::Long { head, value, tail } => {
                            self.ready.buffer().extend_from_slice(&head);
                            self.send_long(value).await;
                            self.ready.buffer().extend_from_slice(tail);
                        }
                    }
                }
                Slot::Ends(failed, ends) => {
                    self.ready.buffer().extend_from_slice(end_of(failed.as_ref(), ends));
                }
                Slot::Waits(_) => unreachable!("all have settled"),
            }
            if self.ready.len() >= SENT_AT {
                self.send_ready().await;
            }
        }
        self.held_bytes = 0;
        self.send_ready().await;
        match &self.broken {
            None => Ok(()),
            Some(error) => Err(error.kind().into()),
        }
    }

    /// Bytes sent since the last call.
    pub(crate) fn take_sent(&mut self) -> usize {
        std::mem::take(&mut self.sent_bytes)
    }

    /// Sends a value piece by piece, so that the value is held only as long as the client takes it quickly enough.
    async fn send_long(&mut self, value: Value) {
        for (number, piece) in value.chunks(SENT_AT).enumerate() {
            if self.broken.is_some() {
                return;
            }
            self.ready.buffer().extend_from_slice(piece);
            if !self.send_in_time(PATIENCE).await {
                let rest = value.get((number + 1) * SENT_AT..).unwrap_or_default().to_vec();
                drop(value);
                return self.send_slowly(rest).await;
            }
            if (number + 1) * SENT_AT < value.len() {
                // A turn moves one piece, however fast the client takes them.
                yield_now().await;
            }
        }
    }

    /// Sends the rest of a value to a slow client, from a copy that the memory account counts.
    async fn send_slowly(&mut self, rest: Vec<u8>) {
        self.copied_bytes = rest.len();
        for piece in rest.chunks(SENT_AT) {
            if self.broken.is_some() {
                break;
            }
            self.ready.buffer().extend_from_slice(piece);
            self.send_ready().await;
        }
        self.copied_bytes = 0;
    }

    /// Sends what is ready. Returns `false` if `time` was not enough for all of it; the rest then stays in the buffer.
    async fn send_in_time(&mut self, time: Duration) -> bool {
        let clock = Rc::clone(&self.worker);
        let sent = pin!(self.send_ready());
        within(&*clock.clock, time, sent).await.is_some()
    }

    async fn send_ready(&mut self) {
        if self.broken.is_none() && !self.ready.is_empty() {
            let bytes = self.ready.len();
            let (ready, socket) = (&mut self.ready, &mut *self.socket);
            let first = poll_fn(|cx| Poll::Ready(socket.poll_send(cx, ready))).await;
            let sent = match first {
                Poll::Ready(sent) => sent,
                Poll::Pending => self.send_counted().await,
            };
            match sent {
                Ok(()) => {
                    self.worker.counters.bytes_written.add(bytes as u64);
                    self.sent_bytes += bytes;
                }
                Err(error) => self.broken = Some(error),
            }
        }
        if self.broken.is_some() {
            self.ready = Output::default();
        }
    }

    /// Sends to a slow client. Its unsent bytes are counted, and dropped if others need the memory.
    async fn send_counted(&mut self) -> io::Result<()> {
        let Self { worker, socket, ready, untaken, copied_bytes, .. } = self;
        let slow = |why: &'static str| {
            worker.counters.closed_slow.add(1);
            Err(io::Error::other(why))
        };
        if !untaken.set(ready.buffer().capacity() + *copied_bytes) {
            return slow("the client takes nothing, and there is no memory for its answers");
        }
        let sending = poll_fn(|cx| match socket.poll_send(cx, ready) {
            Poll::Pending if untaken.is_evicted(cx) => {
                Poll::Ready(slow("the client takes nothing, and others need the memory"))
            }
            sent => sent,
        });
        let sent = match worker.shared.config.idle_timeout {
            None => sending.await,
            Some(timeout) => {
                let sent = within(&*worker.clock, timeout, pin!(sending)).await;
                sent.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
            }
        };
        untaken.clear();
        sent
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.ready).into_buffer();
        self.worker.buffers.give(buffer);
    }
}
