//! A request in flight in the volume.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use larder_device::{IoFuture, IoResult, steps};

use super::presence::Change;

/// Data of a request that its reply needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyContext {
    pub(super) cookie: u64,
    /// For a read: its offset.
    pub(super) read_at: Option<u64>,
    /// Bytes of memory that the request occupies until it is answered.
    pub(super) held_bytes: usize,
}

/// A request in flight in the volume.
pub(super) struct RequestUnderWay {
    asked: ReplyContext,
    /// `None` after it has ended.
    io: Option<IoFuture>,
    change: Option<Change>,
}

impl RequestUnderWay {
    pub(super) fn new(asked: ReplyContext, io: IoFuture, change: Option<Change>) -> Self {
        Self { asked, io: Some(io), change }
    }
}

impl Future for RequestUnderWay {
    type Output = (ReplyContext, IoResult);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let io = this.io.as_mut().expect("it is polled until it has ended");
        let result = ready!(Pin::new(io).poll(cx));
        this.io = None;
        this.change = None;
        Poll::Ready((this.asked, result))
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        if let (Some(io), Some(change)) = (self.io.take(), self.change.take()) {
            // The volume continues the I/O, so the change continues to count.
            drop(steps::request(async move {
                let ended = io.await;
                drop(change);
                ended
            }));
        }
    }
}
