//! Sockets by io_uring: the ring of `larder_device::sockets`.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use larder_device::sockets::{RingSocket, SocketRing};

use super::{Backend, Output, Socket};

impl Backend for SocketRing {
    type Socket = RingSocket;

    fn attach(self: &Rc<Self>, fd: OwnedFd) -> io::Result<RingSocket> {
        Ok(SocketRing::attach(self, fd))
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        SocketRing::watch(self, fd)
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
}
