//! A request that the volume has, until it has ended.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use larder_device::{IoFuture, IoResult, steps};

use super::presence::Change;

/// What its reply needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) cookie: u64,
    /// Of a read: where it begins.
    pub(super) read_at: Option<u64>,
    /// Bytes of memory that it takes until it is answered.
    pub(super) held_bytes: usize,
}

/// See the module.
pub(super) struct UnderWay {
    asked: Asked,
    /// `None`: it has ended.
    io: Option<IoFuture>,
    change: Option<Change>,
}

impl UnderWay {
    pub(super) fn new(asked: Asked, io: IoFuture, change: Option<Change>) -> Self {
        Self { asked, io: Some(io), change }
    }
}

impl Future for UnderWay {
    type Output = (Asked, IoResult);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let io = this.io.as_mut().expect("it is polled until it has ended");
        let result = ready!(Pin::new(io).poll(cx));
        this.io = None;
        this.change = None;
        Poll::Ready((this.asked, result))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let (Some(io), Some(change)) = (self.io.take(), self.change.take()) {
            // The volume goes on with it, and so it goes on to count.
            drop(steps::request(async move {
                let ended = io.await;
                drop(change);
                ended
            }));
        }
    }
}
