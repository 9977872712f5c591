//! Helpers for tests of rings: requests to a pipe stay in the kernel until the test writes to it.

use std::fs::File;
use std::future::Future;
use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use crate::buffer::IoBuffer;
use crate::io::{Io, IoFuture, IoResult};
use crate::transfer::Pieces;
use crate::transfer::ledger::Ledger;

pub(crate) const BLOCK: usize = 4096;

/// A pipe to read from, and its other end.
pub(crate) fn pipe() -> (Arc<File>, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Arc::new(File::from(OwnedFd::from(reader))), writer)
}

/// The pieces of `io`, of a block each, for a ring, and the future of the request.
pub(crate) fn request(io: Io) -> (IoFuture, Pieces) {
    let (future, completer) = IoFuture::pending();
    (future, Pieces::new(io, completer, 4096, &Arc::new(Ledger::default())))
}

pub(crate) fn read_of(blocks: usize) -> Io {
    Io::Read { offset: 0, buffer: IoBuffer::zeroed(blocks * BLOCK) }
}

pub(crate) fn poll(future: &mut IoFuture, waker: &Waker) -> Poll<IoResult> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

struct Tells(mpsc::Sender<()>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

/// A waker that is not [`block_on`](crate::park::block_on)'s, and the channel that reports its wake-ups.
pub(crate) fn foreign_waker() -> (Waker, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    (Waker::from(Arc::new(Tells(sender))), receiver)
}
