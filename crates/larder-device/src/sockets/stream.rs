//! What a loop over many sockets asks of the kernel, however it is asked: to sleep once for all of them, and to move
//! their bytes.

use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::{RingSocket, SocketRing};

/// How a thread waits for its sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SocketBackend {
    /// `epoll`, which every kernel and container allows.
    Epoll,
    /// io_uring (Linux 6.1), and `epoll` where it is refused, as by most containers' default profiles.
    #[default]
    IoUring,
}

impl fmt::Display for SocketBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        })
    }
}

/// A way to wait for many sockets on one thread.
pub trait Backend: Sized + 'static {
    /// What it makes of a socket.
    type Socket: Socket + 'static;

    /// Takes a connected stream socket in.
    ///
    /// # Errors
    /// If the kernel does not take it.
    fn attach(self: &Rc<Self>, fd: OwnedFd) -> io::Result<Self::Socket>;

    /// A descriptor that ends the sleep when it is readable, and nothing more. It must be open as long as this is.
    ///
    /// # Errors
    /// If the kernel does not take it.
    fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Frees memory that it keeps for sockets, and that none has now.
    fn drop_spare(&self) {}

    /// Sleeps until something has happened to a socket or a watched descriptor, at most for so long (`None`: for
    /// ever), and wakes the tasks that wait for it.
    ///
    /// # Errors
    /// If the kernel refuses to go on.
    fn sleep(&self, at_most: Option<Duration>) -> io::Result<()>;
}

/// A stream of bytes, one task's.
pub trait Socket {
    /// Waits until there is something to receive: bytes, the end, an error. Needs no buffer.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Appends what has come to `input`, as far as its spare capacity goes, which must not be nothing. 0 is the end.
    ///
    /// # Errors
    /// What the kernel says of the connection.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>>;

    /// Sends all of `output`, which is empty when it is done: the kernel has it, or will have.
    ///
    /// # Errors
    /// What the kernel says of the connection.
    fn poll_send(&mut self, cx: &mut Context<'_>, output: &mut Output) -> Poll<io::Result<()>>;

    /// Whether nothing that is sent gets there any more, as far as the kernel has said: the other side has reset the
    /// connection. One that sends nothing more may still take answers, and is not broken.
    fn is_broken(&self) -> bool;

    /// Bytes that have come, and that it holds in memory of its own until they can be received.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Tells the other side that nothing more will come, where bytes have to say so. It is closed when it is dropped.
    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Bytes on their way out, in one piece, and how far they have got.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    /// Where to append.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Whether nothing is left to be sent.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent
    }

    /// Bytes that are left to be sent.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// What is left to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// So much of it was sent.
    ///
    /// # Panics
    /// If that is more than there is.
    pub fn has_sent(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.bytes.len(), "no more is sent than there is");
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// The buffer, for somebody else.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// What is in a buffer, on its way out.
    pub fn with_buffer(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: 0 }
    }
}

impl Backend for SocketRing {
    type Socket = RingSocket;

    fn attach(self: &Rc<Self>, fd: OwnedFd) -> io::Result<RingSocket> {
        Ok(SocketRing::attach(self, fd))
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        SocketRing::watch(self, fd)
    }

    fn drop_spare(&self) {
        self.0.borrow_mut().drop_spare();
    }

    fn sleep(&self, at_most: Option<Duration>) -> io::Result<()> {
        self.turn(at_most)
    }
}

impl Socket for RingSocket {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        RingSocket::poll_readable(self, cx)
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        RingSocket::poll_receive(self, cx, input)
    }

    /// Ready when the ring has taken all: the next send waits for it.
    fn poll_send(&mut self, cx: &mut Context<'_>, output: &mut Output) -> Poll<io::Result<()>> {
        RingSocket::poll_send(self, cx, output.buffer())
    }

    fn is_broken(&self) -> bool {
        RingSocket::is_broken(self)
    }
}
