//! What a worker's loop asks of the kernel: to sleep once for all of its sockets, and to move their bytes.

mod epoll;
mod uring;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) use epoll::Epoll;

/// A way to wait for many sockets on one thread.
pub(crate) trait Backend: Sized + 'static {
    type Socket: Socket + 'static;

    /// Takes a connected stream socket in.
    fn attach(self: &Rc<Self>, fd: OwnedFd) -> io::Result<Self::Socket>;

    /// A descriptor that ends the sleep when it is readable, and nothing more.
    fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Sleeps until something has happened to a socket or a watched descriptor, at most for so long (`None`: for
    /// ever), and wakes the tasks that wait for it.
    fn sleep(&self, at_most: Option<Duration>) -> io::Result<()>;
}

/// A stream of bytes, one task's.
pub(crate) trait Socket {
    /// Waits until there is something to receive: bytes, the end, an error. Needs no buffer.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Appends what has come to `input`, as far as its spare capacity goes. 0 is the end.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>>;

    /// Sends all of `output`, which is empty when it is done: the kernel has it, or will have.
    fn poll_send(&mut self, cx: &mut Context<'_>, output: &mut Output) -> Poll<io::Result<()>>;

    /// Tells the other side that nothing more will come, where bytes have to say so. It is closed when it is dropped.
    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Bytes on their way out, in one piece, and how far they have got.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    /// Where to append.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    pub(crate) fn has_sent(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.bytes.len(), "no more is sent than there is");
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// The buffer, for somebody else.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn with_buffer(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: 0 }
    }
}
