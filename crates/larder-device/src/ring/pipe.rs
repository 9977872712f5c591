//! For tests of rings: requests to a pipe stay in the kernel until the test writes to it.

use std::fs::File;
use std::future::Future;
use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use crate::buffer::IoBuffer;
use crate::file::ledger::Ledger;
use crate::file::transfer::Pieces;
use crate::io::{Io, IoFuture, IoResult};

pub(crate) const BLOCK: usize = 4096;

/// A pipe to read from, and its other end.
pub(crate) fn pipe() -> (Arc<File>, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Arc::new(File::from(OwnedFd::from(reader))), writer)
}

/// What a ring is given of `io`, in pieces of a block, and what its user waits for.
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

/// A waker that has nothing to do with [`block_on`](crate::park::block_on), and what hears it.
pub(crate) fn foreign_waker() -> (Waker, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    (Waker::from(Arc::new(Tells(sender))), receiver)
}
