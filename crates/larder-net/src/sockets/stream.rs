//! The interface of a loop over many sockets: to sleep once for all of them, and to move their bytes.

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
    /// io_uring (Linux 6.1), and `epoll` where io_uring is refused, as by most containers' default profiles.
    #[default]
    IoUring,
}

impl SocketBackend {
    /// A ring for the sockets of this thread, if one is wanted and the kernel allows it. Without one the thread uses
    /// [`Epoll`](super::Epoll).
    pub fn ring(self) -> Option<SocketRing> {
        match self {
            Self::Epoll => None,
            Self::IoUring => SocketRing::new()
                .inspect_err(|error| {
                    tracing::warn!(%error, "the kernel refuses io_uring for sockets; they are served by epoll");
                })
                .ok(),
        }
    }
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
    /// The socket type of this backend.
    type Socket: Socket + 'static;

    /// Adds a connected stream socket.
    ///
    /// # Errors
    /// If the kernel does not take it.
    fn attach(self: &Rc<Self>, fd: OwnedFd) -> io::Result<Self::Socket>;

    /// Watches a descriptor: when it is readable, the sleep ends. It must stay open as long as this backend exists.
    ///
    /// # Errors
    /// If the kernel does not take it.
    fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Frees memory that is kept for sockets and currently unused.
    fn drop_spare(&self) {}

    /// Sleeps until there is an event of a socket or a watched descriptor, at most `at_most` (`None`: forever), and
    /// wakes the tasks that wait for it.
    ///
    /// # Errors
    /// If the kernel refuses to continue.
    fn sleep(&self, at_most: Option<Duration>) -> io::Result<()>;
}

/// A stream of bytes, used by one task.
pub trait Socket {
    /// Waits until there is something to receive: bytes, the end of the stream or an error. It needs no buffer.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Appends received bytes to `input`, up to its spare capacity, which must not be 0. Returns 0 at the end of the
    /// stream.
    ///
    /// # Errors
    /// The error of the connection.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>>;

    /// Sends all of `output`, which is empty when this is ready: the kernel then has the bytes, or will get them.
    ///
    /// # Errors
    /// The error of the connection.
    fn poll_send(&mut self, cx: &mut Context<'_>, output: &mut Output) -> Poll<io::Result<()>>;

    /// Whether sent bytes can no longer arrive, as far as the kernel has reported: the peer has reset the connection. A
    /// peer that only sends nothing more may still receive answers, and is not broken.
    fn is_broken(&self) -> bool;

    /// Received bytes that the socket holds in its own memory until they can be taken.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Tells the peer that nothing more will come, where the protocol needs bytes for that. Dropping the socket closes
    /// it.
    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Bytes to send, in one buffer, and how many of them have been sent.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    sent: usize,
}

impl Output {
    /// The buffer, to append to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Whether nothing is left to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent
    }

    /// Number of bytes left to send.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// The bytes left to send.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Marks `count` more bytes as sent.
    ///
    /// # Panics
    /// If fewer bytes are left.
    pub fn has_sent(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.bytes.len(), "no more is sent than there is");
        if self.is_empty() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// The buffer, for reuse.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// An output of the bytes in a buffer.
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

    /// Ready when the ring has taken all bytes; the next send waits for this one.
    fn poll_send(&mut self, cx: &mut Context<'_>, output: &mut Output) -> Poll<io::Result<()>> {
        RingSocket::poll_send(self, cx, output.buffer())
    }

    fn is_broken(&self) -> bool {
        RingSocket::is_broken(self)
    }
}
