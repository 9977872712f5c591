//! The answers of a connection, in the order of its requests, though some wait for flash.
//!
//! What can be sent at once gathers in one buffer. An answer that waits stands behind it, and what comes later behind
//! that: reads of one pipeline run beside each other, and their answers keep their order. How much may gather is
//! bounded ([`Answers::room`]); reading stops where writing stalls, and a client that does not read holds no memory of
//! the cache, but a bounded copy of what it was to get.

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
use crate::within::within;
use crate::worker::Worker;
use larder_device::sockets::{Output, Socket};

/// So many answers of a connection wait for flash at a time.
const WAITING_MAX: usize = 64;
/// When so many bytes are to be sent, they are.
const SENT_AT: usize = 64 << 10;
/// So many bytes of values wait to be sent, about, before further ones are looked for.
const HELD_MAX: usize = 256 << 10;
/// A value that is longer is not copied whole into the buffer of what is to be sent, but piece by piece.
pub(crate) const COPIED_MAX: usize = 32 << 10;
/// A client that takes nothing for so long gets what is left of a value from a copy: the value is let go.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a request that waited has found: bytes to send.
pub(crate) type Later = Pin<Box<dyn Future<Output = Answer>>>;

/// What is to be sent for a request.
pub(crate) enum Answer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A value between bytes, too long to be copied whole.
    Long { head: Vec<u8>, value: Value, tail: &'static [u8] },
}

/// See the module.
pub(crate) struct Answers<'s> {
    worker: Rc<Worker>,
    socket: &'s mut dyn Socket,
    /// What comes first.
    ready: Output,
    /// What comes behind it, in order.
    behind: VecDeque<Slot>,
    /// How many of `behind` wait.
    waiting: usize,
    /// Bytes of what `behind` has found.
    held_bytes: usize,
    /// Length of the last long answer that was waited for: what those are likely to have that wait now.
    likely_bytes: usize,
    /// Bytes that were sent and that nobody has paid for ([`Answers::take_sent`]).
    sent_bytes: usize,
    /// What the client does not take is counted.
    untaken: Passing,
    /// Of it, what is not in `ready`.
    copied_bytes: usize,
    /// Why nothing can be sent any more. Whatever is answered then is forgotten.
    broken: Option<io::Error>,
}

enum Slot {
    Waits(Later),
    Found(Answer),
    /// The first if what stands before it has not failed, else the second.
    Ends(Failed, [&'static [u8]; 2]),
}

/// Whether a part of an answer that has several, each found by itself, could not be found.
pub(crate) type Failed = Rc<Cell<bool>>;

impl Answer {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Long { head, value, tail } => head.len() + value.len() + tail.len(),
        }
    }
}

impl<'s> Answers<'s> {
    pub(crate) fn new(worker: Rc<Worker>, holder: Holder, socket: &'s mut dyn Socket) -> Self {
        let ready = Output::with_buffer(worker.buffers.take());
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

    /// Where requests come from.
    pub(crate) fn socket(&mut self) -> &mut dyn Socket {
        self.socket
    }

    /// Answers are those of `holder` from now on.
    pub(crate) fn belongs_to(&self, holder: Holder) {
        self.untaken.belongs_to(holder);
    }

    /// Refuses to go on where no answer gets there any more: what was asked by then is not done for a client that has
    /// gone.
    pub(crate) fn check_open(&mut self) -> io::Result<()> {
        if self.broken.is_none() && self.socket.is_broken() {
            self.broken = Some(io::ErrorKind::ConnectionReset.into());
        }
        match &self.broken {
            None => Ok(()),
            Some(error) => Err(error.kind().into()),
        }
    }

    /// Where the bytes of the next answer go.
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

    /// The next answer, which is there.
    pub(crate) fn push(&mut self, answer: Answer) {
        match answer {
            Answer::Bytes(bytes) => self.bytes().extend_from_slice(&bytes),
            long @ Answer::Long { .. } => {
                self.held_bytes += long.len();
                self.behind.push_back(Slot::Found(long));
            }
        }
    }

    /// The next answer is what `later` comes to. It begins at once, and goes on beside those before and behind it:
    /// for requests that change nothing. Makes room first ([`Answers::room`]). If it takes longer than a request may,
    /// the answer is `too_late`, and what was begun ends by itself.
    pub(crate) async fn later(
        &mut self,
        later: impl Future<Output = Answer> + 'static,
        too_late: impl FnOnce() -> Answer + 'static,
    ) {
        self.room().await;
        let mut later: Later = match self.worker.shared.config.request_deadline {
            None => Box::pin(later),
            Some(deadline) => {
                let worker = Rc::clone(&self.worker);
                Box::pin(async move {
                    let answer = within(&*worker.clock, deadline, pin!(later)).await;
                    answer.unwrap_or_else(|| {
                        worker.counters.request_timeouts.add(1);
                        too_late()
                    })
                })
            }
        };
        match poll_fn(|cx| Poll::Ready(later.as_mut().poll(cx))).await {
            Poll::Ready(answer) => self.push(answer),
            Poll::Pending => {
                self.behind.push_back(Slot::Waits(later));
                self.waiting += 1;
            }
        }
        debug_assert!(self.waiting <= WAITING_MAX, "room was made");
    }

    /// Ends an answer of several parts: with the first, or with the second if one of them has failed.
    pub(crate) fn ends(&mut self, failed: &Failed, ends: [&'static [u8]; 2]) {
        match self.waiting {
            0 => self.bytes().extend_from_slice(ends[usize::from(failed.get())]),
            _ => self.behind.push_back(Slot::Ends(Rc::clone(failed), ends)),
        }
    }

    /// Sends what there is if that is much, for a request whose answer has many parts: between two of them.
    pub(crate) async fn room(&mut self) {
        if self.is_full() {
            // A failure is told when all is sent.
            let _ = self.send().await;
        }
    }

    /// Waits until all that was begun has its answer: before a request that changes something, so that requests of a
    /// connection happen in their order.
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

    /// Whether so much is to be sent, or waits, that no further request should be begun before.
    fn is_full(&self) -> bool {
        let held = self.held_bytes + self.waiting * self.likely_bytes;
        self.waiting >= WAITING_MAX
            || self.ready.len() >= SENT_AT
            || self.behind.len() > 2 * WAITING_MAX
            || held >= HELD_MAX
    }

    /// Sends all answers, which waits for those that wait.
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
                    self.ready.buffer().extend_from_slice(ends[usize::from(failed.get())]);
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

    /// How many bytes were sent since this was called last.
    pub(crate) fn take_sent(&mut self) -> usize {
        std::mem::take(&mut self.sent_bytes)
    }

    /// Sends a value piece by piece: it is held no longer than the client takes it.
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
        }
    }

    /// What is left of a value for a client that does not take it: a copy, which is counted.
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

    /// Sends what is ready. `false`: not all of it in so much time; then it is still there.
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

    /// The client takes its answers slowly: what it does not take is counted, and given up where others need the
    /// memory.
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
