//! Sockets with `epoll`, edge-triggered: the kernel reports an event once, and the socket counts as ready until a read
//! or write finds otherwise.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use slab::Slab;

use super::stream::{Backend, Output, Socket};

/// Number of watched descriptors that are not sockets.
const WATCHED: u64 = u64::MAX;

/// A socket that moves this number of bytes without having to wait lets other sockets run. If its peer is as fast as
/// this thread, it would never have to wait.
const SHARE_BYTES: usize = 128 << 10;

/// Sockets of one thread with `epoll`, for kernels that refuse a [`SocketRing`](super::SocketRing).
pub struct Epoll {
    queue: OwnedFd,
    /// By the number that the kernel reports.
    sockets: RefCell<Slab<Rc<Interest>>>,
    events: RefCell<Vec<epoll::Event>>,
}

/// Readiness of a socket, and the tasks that wait for it.
#[derive(Default)]
struct Interest {
    readable: Cell<bool>,
    /// The peer sends nothing more, so the kernel will not report again that the socket is readable.
    ended: Cell<bool>,
    /// The peer has reset the connection.
    broken: Cell<bool>,
    writable: Cell<bool>,
    reader: Cell<Option<Waker>>,
    writer: Cell<Option<Waker>>,
}

/// A registered socket, until it is dropped.
pub struct EpollSocket {
    fd: OwnedFd,
    epoll: Rc<Epoll>,
    key: usize,
    interest: Rc<Interest>,
    /// Bytes that it has moved since it last let other sockets run.
    moved: usize,
}

impl Epoll {
    /// An `epoll` queue for this thread.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let events = RefCell::new(Vec::with_capacity(256));
        Ok(Self { queue, sockets: RefCell::default(), events })
    }
}

impl Backend for Epoll {
    type Socket = EpollSocket;

    fn attach(self: &Rc<Self>, fd: OwnedFd) -> io::Result<EpollSocket> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let interest = Rc::new(Interest::default());
        interest.writable.set(true);
        let key = self.sockets.borrow_mut().insert(Rc::clone(&interest));
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let added = epoll::add(&self.queue, &fd, epoll::EventData::new_u64(key as u64), flags);
        if let Err(error) = added {
            self.sockets.borrow_mut().remove(key);
            return Err(error.into());
        }
        Ok(EpollSocket { fd, epoll: Rc::clone(self), key, interest, moved: 0 })
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(WATCHED);
        Ok(epoll::add(&self.queue, fd, data, epoll::EventFlags::IN)?)
    }

    fn sleep(&self, at_most: Option<Duration>) -> io::Result<()> {
        let timeout = at_most.map(Timespec::try_from).transpose().ok().flatten();
        let mut events = self.events.borrow_mut();
        match epoll::wait(&self.queue, spare_capacity(&mut events), timeout.as_ref()) {
            // A ring's completion interrupts the sleep before it makes its descriptor readable.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let sockets = self.sockets.borrow();
        for event in events.drain(..) {
            let number = usize::try_from(event.data.u64()).ok();
            // The event is of a socket that was dropped in this turn, or of a watched descriptor.
            let Some(interest) = number.and_then(|number| sockets.get(number)) else { continue };
            interest.happened(event.flags);
        }
        Ok(())
    }
}

impl Interest {
    fn happened(&self, flags: epoll::EventFlags) {
        use epoll::EventFlags as Is;
        if flags.contains(Is::ERR) {
            self.broken.set(true);
        }
        if flags.intersects(Is::IN | Is::RDHUP | Is::HUP | Is::ERR) {
            self.readable.set(true);
            if flags.intersects(Is::RDHUP | Is::HUP | Is::ERR) {
                self.ended.set(true);
            }
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
        if flags.intersects(Is::OUT | Is::HUP | Is::ERR) {
            self.writable.set(true);
            if let Some(writer) = self.writer.take() {
                writer.wake();
            }
        }
    }
}

/// Stores the task's waker, unless it is stored already.
fn wait(cell: &Cell<Option<Waker>>, cx: &Context<'_>) {
    let mut waker = cell.take();
    match &mut waker {
        Some(waker) => waker.clone_from(cx.waker()),
        None => waker = Some(cx.waker().clone()),
    }
    cell.set(waker);
}

thread_local! {
    /// For reads that may bring less than their buffer has room for. Its memory stays with the thread: [`SHARE_BYTES`].
    static PART: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Appends to `input` what has come, at most `bytes` bytes. Its spare capacity is no smaller.
fn read_at_most(fd: &OwnedFd, input: &mut Vec<u8>, bytes: usize) -> Result<usize, Errno> {
    if input.capacity() - input.len() <= bytes {
        return rustix::io::read(fd, spare_capacity(input));
    }
    // Only what has come is copied; to read into `input` itself, all of `bytes` would have to be zeroed first.
    PART.with_borrow_mut(|part| {
        part.clear();
        part.reserve_exact(bytes);
        let count = rustix::io::read(fd, spare_capacity(part))?;
        input.extend_from_slice(part);
        Ok(count)
    })
}

impl EpollSocket {
    /// Whether other sockets should run first. The task is then woken again at once.
    fn has_had_its_share(&mut self, cx: &Context<'_>) -> bool {
        let has = self.moved >= SHARE_BYTES;
        if has {
            self.moved = 0;
            cx.waker().wake_by_ref();
        }
        has
    }
}

impl Socket for EpollSocket {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.interest.readable.get() {
            return Poll::Ready(());
        }
        wait(&self.interest.reader, cx);
        Poll::Pending
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let room = input.capacity() - input.len();
        assert!(room > 0, "a read of nothing would look like the end");
        if self.has_had_its_share(cx) {
            return Poll::Pending;
        }
        while self.interest.readable.get() {
            match read_at_most(&self.fd, input, room.min(SHARE_BYTES)) {
                Ok(count) => {
                    // A short read has taken all that there was.
                    self.interest
                        .readable
                        .set(count == room.min(SHARE_BYTES) || self.interest.ended.get());
                    self.moved += count;
                    return Poll::Ready(Ok(count));
                }
                Err(Errno::AGAIN) => self.interest.readable.set(false),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        self.moved = 0;
        wait(&self.interest.reader, cx);
        Poll::Pending
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, output: &mut Output) -> Poll<io::Result<()>> {
        while !output.is_empty() {
            if self.has_had_its_share(cx) {
                return Poll::Pending;
            }
            if !self.interest.writable.get() {
                self.moved = 0;
                wait(&self.interest.writer, cx);
                return Poll::Pending;
            }
            match send(&self.fd, output.unsent(), SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.moved += count;
                    output.has_sent(count);
                }
                Err(Errno::AGAIN) => self.interest.writable.set(false),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn is_broken(&self) -> bool {
        self.interest.broken.get()
    }
}

impl Drop for EpollSocket {
    fn drop(&mut self) {
        self.epoll.sockets.borrow_mut().remove(self.key);
        // Closing removes it too, unless a child process has the descriptor.
        let _ = epoll::delete(&self.epoll.queue, &self.fd);
    }
}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll").finish_non_exhaustive()
    }
}

impl fmt::Debug for EpollSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpollSocket").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The sender has filled the kernel's buffer, and the receiver has room for all of it.
    #[test]
    fn one_read_takes_no_more_than_a_share() {
        let epoll = Rc::new(Epoll::new().unwrap());
        let (ours, theirs) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&theirs, 1 << 20).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(more) = std::io::Write::write(&mut &theirs, &[7; 16 << 10]) {
            sent += more;
        }
        assert!(sent > SHARE_BYTES, "{sent}");
        let mut socket = epoll.attach(ours.into()).unwrap();
        socket.interest.readable.set(true);
        let mut cx = Context::from_waker(Waker::noop());
        let mut input = Vec::with_capacity(4 << 20);
        let Poll::Ready(Ok(count)) = socket.poll_receive(&mut cx, &mut input) else {
            panic!("it is there")
        };
        assert_eq!((count, input.len()), (SHARE_BYTES, SHARE_BYTES));
        assert!(socket.interest.readable.get(), "there is more");
        while input.len() < sent {
            let _ = socket.poll_receive(&mut cx, &mut input);
        }
        assert!(input.iter().all(|byte| *byte == 7));
    }

    /// Both sides are as fast as memory: the socket never has to wait, and still lets others run.
    #[test]
    fn a_socket_that_never_has_to_wait_lets_others_come() {
        let epoll = Rc::new(Epoll::new().unwrap());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut socket = epoll.attach(ours.into()).unwrap();
        let waker = Waker::noop();
        let mut cx = Context::from_waker(waker);
        let (mut sent, mut pauses) = (0, 0);
        while sent < 4 * SHARE_BYTES {
            let mut output = Output::with_buffer(vec![7; 32 << 10]);
            while socket.poll_send(&mut cx, &mut output).is_pending() {
                assert!(socket.interest.writable.get(), "it has had to wait");
                pauses += 1;
            }
            sent += 32 << 10;
            let mut taken = vec![0; 32 << 10];
            std::io::Read::read_exact(&mut &theirs, &mut taken).unwrap();
        }
        assert_eq!(pauses, 3, "before each further share");
    }
}
