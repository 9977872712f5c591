//! The answers of a connection, in the order of its requests, though some wait for flash.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use larder::Value;

use crate::net::{Output, Socket};
use crate::worker::Worker;

/// So many answers of a connection wait for flash at a time.
const WAITING_MAX: usize = 64;
/// When so many bytes are to be sent, they are.
const SENT_AT: usize = 64 << 10;
/// A value that is longer is not copied whole into the buffer of what is to be sent, but piece by piece.
pub(crate) const COPIED_MAX: usize = 32 << 10;

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
pub(crate) struct Answers {
    worker: Rc<Worker>,
    /// What comes first.
    ready: Output,
    /// What comes behind it, in order.
    behind: VecDeque<Slot>,
    waiting: usize,
}

enum Slot {
    Waits(Later),
    Found(Answer),
}

impl Answers {
    pub(crate) fn new(worker: Rc<Worker>) -> Self {
        let ready = Output::with_buffer(worker.buffers.take());
        Self { worker, ready, behind: VecDeque::new(), waiting: 0 }
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
            long @ Answer::Long { .. } => self.behind.push_back(Slot::Found(long)),
        }
    }

    /// The next answer is what `later` comes to. It begins at once, and goes on beside those before and behind it:
    /// for requests that change nothing.
    pub(crate) async fn later(&mut self, later: impl Future<Output = Answer> + 'static) {
        let mut later: Later = Box::pin(later);
        match poll_fn(|cx| Poll::Ready(later.as_mut().poll(cx))).await {
            Poll::Ready(answer) => self.push(answer),
            Poll::Pending => {
                self.behind.push_back(Slot::Waits(later));
                self.waiting += 1;
            }
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
                *slot = Slot::Found(answer);
                self.waiting -= 1;
            }
        }
        if self.waiting == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether so much is to be sent, or waits, that no further request should be begun before.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting >= WAITING_MAX
            || self.ready.len() >= SENT_AT
            || self.behind.len() > 2 * WAITING_MAX
    }

    /// Sends all answers, which waits for those that wait.
    pub(crate) async fn send(&mut self, socket: &mut impl Socket) -> std::io::Result<()> {
        self.settle().await;
        while let Some(slot) = self.behind.pop_front() {
            match slot {
                Slot::Found(Answer::Bytes(bytes)) => self.ready.buffer().extend_from_slice(&bytes),
                Slot::Found(Answer::Long { head, value, tail }) => {
                    self.ready.buffer().extend_from_slice(&head);
                    for piece in value.chunks(SENT_AT) {
                        self.ready.buffer().extend_from_slice(piece);
                        self.send_ready(socket).await?;
                    }
                    self.ready.buffer().extend_from_slice(tail);
                }
                Slot::Waits(_) => unreachable!("all have settled"),
            }
            if self.ready.len() >= SENT_AT {
                self.send_ready(socket).await?;
            }
        }
        self.send_ready(socket).await
    }

    async fn send_ready(&mut self, socket: &mut impl Socket) -> std::io::Result<()> {
        let ready = &mut self.ready;
        poll_fn(|cx| socket.poll_send(cx, ready)).await
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.ready).into_buffer();
        self.worker.buffers.give(buffer);
    }
}
