//! The ring of a thread's sockets, and a socket in it.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use slab::Slab;

use super::kernel::{Completion, CompletionOwner, Kernel};
use super::slot::{Receiving, Slot, wait};

/// How long a send may continue after its socket was dropped.
const FAREWELL: Duration = Duration::from_secs(5);
/// Most buffers of ended sends that are kept for later sends.
const SPARE_MAX: usize = 64;
/// Bytes that all sends in flight together may hold. At this limit further sends wait, and a send that started more
/// than [`SLOW`] ago and has not ended is aborted.
const UNSENT_BYTES_MAX: usize = 4 << 20;
const SLOW: Duration = Duration::from_secs(1);
/// A buffer with a larger capacity is not kept.
const SPARE_BYTES_MAX: usize = 128 << 10;

/// See [the module](crate::sockets). It belongs to the thread that made it.
pub struct SocketRing(pub(super) Rc<RefCell<Sockets>>);

/// A stream socket in a ring, until it is dropped. A send in flight then continues for a few seconds more.
pub struct RingSocket {
    sockets: Rc<RefCell<Sockets>>,
    key: usize,
}

pub(super) struct Sockets {
    kernel: Kernel,
    slots: Slab<Slot>,
    watched: Vec<i32>,
    /// Sockets that stopped receiving for want of buffers.
    starved: Vec<usize>,
    /// Bytes that sockets hold outside the pool.
    copied_bytes: usize,
    /// Dropped sockets with a send in flight, and the deadline of that send.
    farewells: Vec<(Instant, usize)>,
    spare: Vec<Vec<u8>>,
    /// Total capacity of the buffers being sent.
    unsent_bytes: usize,
    /// Tasks that wait until other sockets' sends end.
    crowded_out: Vec<Waker>,
}

impl SocketRing {
    /// A ring for sockets of this thread.
    ///
    /// # Errors
    /// Where the kernel refuses io_uring, as in most containers, or is older than 6.1.
    pub fn new() -> io::Result<Self> {
        let sockets = Sockets {
            kernel: Kernel::new()?,
            slots: Slab::new(),
            watched: Vec::new(),
            starved: Vec::new(),
            copied_bytes: 0,
            farewells: Vec::new(),
            spare: Vec::new(),
            unsent_bytes: 0,
            crowded_out: Vec::new(),
        };
        Ok(Self(Rc::new(RefCell::new(sockets))))
    }

    /// Adds a connected stream socket.
    pub fn attach(&self, fd: OwnedFd) -> RingSocket {
        let key = self.0.borrow_mut().slots.insert(Slot::new(fd));
        RingSocket { sockets: Rc::clone(&self.0), key }
    }

    /// Watches a descriptor: when it becomes readable, the sleep ends. It must stay open as long as the ring exists.
    ///
    /// # Errors
    /// If the kernel does not take the request.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut sockets = self.0.borrow_mut();
        let (key, fd) = (sockets.watched.len(), fd.as_raw_fd());
        sockets.kernel.watch(key, fd)?;
        sockets.watched.push(fd);
        Ok(())
    }

    /// Submits all new requests, sleeps until there is an event of a socket or a watched descriptor, at most `at_most`
    /// (`None`: forever), and wakes the tasks that wait for it.
    ///
    /// # Errors
    /// If the kernel refuses to continue with the ring.
    pub fn turn(&self, at_most: Option<Duration>) -> io::Result<()> {
        let mut sockets = self.0.borrow_mut();
        let at_most = sockets.see_off(at_most)?;
        let at_most = sockets.end_slow_sends(at_most)?;
        sockets.feed_the_starved()?;
        // A send that completes at once ends this sleep, and the next turn sleeps again. Where the processors have
        // other work, a client that sends one request at a time has often sent the next one by then. So the thread does
        // not fall asleep, which saves half of its time per request. Where processors are idle the thread does fall
        // asleep; there, sends without a completion (`IOSQE_CQE_SKIP_SUCCESS`) give more requests per second, for the
        // same processor time each.
        sockets.kernel.enter(at_most)?;
        while let Some(completion) = sockets.kernel.next() {
            sockets.happened(completion)?;
        }
        Ok(())
    }
}

impl Sockets {
    #[cfg(test)]
    pub(super) fn slots_len(&self) -> usize {
        self.slots.len()
    }

    #[cfg(test)]
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    #[cfg(test)]
    pub(super) fn copied_bytes(&self) -> usize {
        self.copied_bytes
    }

    /// Frees buffers that are kept for sends.
    pub(super) fn drop_spare(&mut self) {
        self.spare = Vec::new();
    }

    /// Processes a completion.
    pub(super) fn happened(&mut self, completion: Completion) -> io::Result<()> {
        let Completion { of, result, buffer, goes_on } = completion;
        match of {
            CompletionOwner::Receive(key) => self.received(key, result, buffer, goes_on)?,
            CompletionOwner::Send(key) => self.sent(key, result)?,
            CompletionOwner::Cancel(key) => self.slots[key].under_way -= 1,
            CompletionOwner::Watch(key) if !goes_on => self.kernel.watch(key, self.watched[key])?,
            CompletionOwner::Watch(_) | CompletionOwner::End => {}
        }
        if let CompletionOwner::Receive(key)
        | CompletionOwner::Send(key)
        | CompletionOwner::Cancel(key) = of
        {
            self.let_go(key);
        }
        Ok(())
    }

    fn received(
        &mut self,
        key: usize,
        result: i32,
        buffer: Option<u16>,
        goes_on: bool,
    ) -> io::Result<()> {
        let slot = &mut self.slots[key];
        if !goes_on {
            slot.receiving = Receiving::Off;
            slot.under_way -= 1;
        }
        match (usize::try_from(result), buffer) {
            (Ok(len), Some(buffer)) if len > 0 && !slot.is_orphan => slot.came(buffer, len),
            (Ok(0), buffer) => {
                slot.end.get_or_insert(Ok(()));
                buffer.into_iter().for_each(|buffer| self.kernel.provided().give_back(buffer));
            }
            // The socket was dropped: discard the bytes.
            (Ok(_), buffer) => {
                buffer.into_iter().for_each(|buffer| self.kernel.provided().give_back(buffer));
            }
            (Err(_), _) if -result == libc::ENOBUFS => self.starved.push(key),
            // The receive was stopped; it resumes when there is room. A receive that the kernel has moved to a thread
            // of its own ends with EINTR when it is stopped, and may end with EAGAIN.
            (Err(_), _) if [libc::ECANCELED, libc::EINTR, libc::EAGAIN].contains(&-result) => {}
            (Err(_), _) => {
                slot.end.get_or_insert(Err(-result));
            }
        }
        if self.slots[key].is_full() {
            self.stop(key)?;
        }
        let slot = &mut self.slots[key];
        if slot.has_come() || slot.end.is_some() {
            if let Some(reader) = slot.reader.take() {
                reader.wake();
            }
            return Ok(());
        }
        // The receive had to stop, and a task waits for more. If there are no buffers, `feed_the_starved` resumes it.
        if slot.reader.is_some() && -result != libc::ENOBUFS {
            self.receive_more(key)?;
        }
        Ok(())
    }

    fn sent(&mut self, key: usize, result: i32) -> io::Result<()> {
        let slot = &mut self.slots[key];
        slot.under_way -= 1;
        match usize::try_from(result) {
            Ok(count) => slot.sent += count,
            Err(_) => slot.send_error = Some(-result),
        }
        let all = self.kernel.sending_bytes(key);
        if slot.send_error.is_none() && slot.sent < all {
            if result > 0 {
                slot.under_way += 1;
                return self.kernel.send_from(key, slot.fd(), slot.sent);
            }
            slot.send_error = Some(libc::EPIPE);
        }
        slot.is_sending = false;
        let writer = slot.writer.take();
        let mut bytes = self.kernel.take_sent(key);
        self.unsent_bytes -= bytes.capacity();
        self.crowded_out.drain(..).for_each(Waker::wake);
        if self.spare.len() < SPARE_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
        if let Some(writer) = writer {
            writer.wake();
        }
        Ok(())
    }

    /// Makes the kernel stop receiving for a socket.
    fn stop(&mut self, key: usize) -> io::Result<()> {
        let slot = &mut self.slots[key];
        if slot.receiving == Receiving::On {
            slot.receiving = Receiving::Stopping;
            slot.under_way += 1;
            self.kernel.stop_receiving(key)?;
        }
        Ok(())
    }

    /// Makes the kernel receive for a socket, if it wants more; only one buffer while any socket holds bytes outside
    /// the pool.
    fn receive_more(&mut self, key: usize) -> io::Result<()> {
        let slot = &mut self.slots[key];
        if slot.wants_more() {
            slot.receiving = match self.copied_bytes {
                0 => Receiving::On,
                _ => Receiving::Once,
            };
            self.kernel.receive(key, slot.fd(), slot.receiving == Receiving::Once)?;
            slot.under_way += 1;
        }
        Ok(())
    }

    /// Makes room in the pool for sockets that found no buffer, and resumes their receives.
    fn feed_the_starved(&mut self) -> io::Result<()> {
        if self.starved.is_empty() {
            return Ok(());
        }
        if self.kernel.provided().free() == 0 {
            self.empty_pool()?;
        }
        for key in std::mem::take(&mut self.starved) {
            if self.slots.contains(key) {
                self.receive_more(key)?;
            }
        }
        Ok(())
    }

    /// Called when sockets that are not read hold all buffers: copies their bytes out of the pool.
    ///
    /// From then on no socket gets more than one buffer at a time, until those bytes are read. Otherwise the kernel,
    /// which may fill many buffers before the request to stop reaches it, would empty the pool again and again.
    fn empty_pool(&mut self) -> io::Result<()> {
        let keys: Vec<usize> = self.slots.iter().map(|(key, _)| key).collect();
        for key in keys {
            let slot = &mut self.slots[key];
            self.copied_bytes -= slot.copied_bytes();
            slot.leave_pool(self.kernel.provided());
            self.copied_bytes += slot.copied_bytes();
            self.stop(key)?;
        }
        Ok(())
    }

    /// Aborts sends of dropped sockets whose time is over. Returns how long the thread may sleep.
    fn see_off(&mut self, at_most: Option<Duration>) -> io::Result<Option<Duration>> {
        if self.farewells.is_empty() {
            return Ok(at_most);
        }
        let (now, mut next) = (Instant::now(), at_most);
        for (until, key) in std::mem::take(&mut self.farewells) {
            let Some(slot) =
                self.slots.get_mut(key).filter(|slot| slot.is_orphan && slot.is_sending)
            else {
                continue;
            };
            if until <= now {
                slot.under_way += 1;
                self.kernel.stop_sending(key)?;
            } else {
                let left = until - now;
                next = Some(next.map_or(left, |next| next.min(left)));
                self.farewells.push((until, key));
            }
        }
        Ok(next)
    }

    /// Aborts sends that have been in flight for [`SLOW`], if other sends wait for memory. Returns how long the thread
    /// may sleep.
    fn end_slow_sends(&mut self, at_most: Option<Duration>) -> io::Result<Option<Duration>> {
        if self.crowded_out.is_empty() {
            return Ok(at_most);
        }
        let now = Instant::now();
        for (key, slot) in &mut self.slots {
            let is_slow = slot.sending_since.is_some_and(|since| now - since >= SLOW);
            if slot.is_sending && is_slow && slot.send_error.is_none() {
                // The send has failed, whatever result the kernel gives it.
                slot.send_error = Some(libc::ETIMEDOUT);
                slot.under_way += 1;
                self.kernel.stop_sending(key)?;
            }
        }
        Ok(Some(at_most.map_or(SLOW / 10, |at_most| at_most.min(SLOW / 10))))
    }

    /// Frees the slot of a dropped socket when nothing of it is in flight any more.
    fn let_go(&mut self, key: usize) {
        let slot = &mut self.slots[key];
        if slot.is_orphan {
            self.copied_bytes -= slot.copied_bytes();
            slot.forget(self.kernel.provided());
            if slot.under_way == 0 {
                self.slots.remove(key);
            }
        }
    }

    fn abandon(&mut self, key: usize) -> io::Result<()> {
        let slot = &mut self.slots[key];
        slot.is_orphan = true;
        if matches!(slot.receiving, Receiving::On | Receiving::Once) {
            slot.receiving = Receiving::Stopping;
            slot.under_way += 1;
            self.kernel.stop_receiving(key)?;
        }
        if self.slots[key].is_sending {
            self.farewells.push((Instant::now() + FAREWELL, key));
        }
        self.let_go(key);
        Ok(())
    }
}

impl RingSocket {
    #[cfg(test)]
    pub(super) fn key(&self) -> usize {
        self.key
    }

    /// Waits until there is something to receive: bytes, the end of the stream or an error. It needs no buffer.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut sockets = self.sockets.borrow_mut();
        // A receive that cannot be submitted is an error of the socket, which counts as something to receive.
        if let Err(error) = sockets.receive_more(self.key) {
            let code = error.raw_os_error().unwrap_or(libc::EIO);
            sockets.slots[self.key].end.get_or_insert(Err(code));
        }
        let slot = &mut sockets.slots[self.key];
        if slot.has_come() || slot.end.is_some() {
            return Poll::Ready(());
        }
        wait(&mut slot.reader, cx);
        Poll::Pending
    }

    /// Appends received bytes to `input`, up to its spare capacity, which must not be 0. Returns 0 at the end of the
    /// stream.
    ///
    /// # Errors
    /// The error of the connection.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        assert!(input.capacity() > input.len(), "a read of nothing would look like the end");
        if self.poll_readable(cx).is_pending() {
            return Poll::Pending;
        }
        let mut sockets = self.sockets.borrow_mut();
        let Sockets { kernel, slots, copied_bytes, .. } = &mut *sockets;
        let slot = &mut slots[self.key];
        *copied_bytes -= slot.copied_bytes();
        let count = slot.receive(input, kernel.provided());
        *copied_bytes += slot.copied_bytes();
        if count > 0 {
            return Poll::Ready(sockets.receive_more(self.key).map(|()| count));
        }
        Poll::Ready(slots[self.key].at_end().unwrap_or(Ok(0)))
    }

    /// Takes `bytes` to send them, and leaves an empty buffer. Ready once the bytes were taken, which waits for the
    /// previous send. The bytes are then in flight; if they do not arrive, the next send reports it.
    ///
    /// # Errors
    /// The error of this send or the previous one.
    pub fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<u8>) -> Poll<io::Result<()>> {
        let mut sockets = self.sockets.borrow_mut();
        let Sockets { kernel, slots, spare, unsent_bytes, crowded_out, .. } = &mut *sockets;
        let slot = &mut slots[self.key];
        if let Some(code) = slot.send_error {
            return Poll::Ready(Err(io::Error::from_raw_os_error(code)));
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if slot.is_sending {
            wait(&mut slot.writer, cx);
            return Poll::Pending;
        }
        if *unsent_bytes >= UNSENT_BYTES_MAX {
            crowded_out.push(cx.waker().clone());
            return Poll::Pending;
        }
        let taken = std::mem::replace(bytes, spare.pop().unwrap_or_default());
        *unsent_bytes += taken.capacity();
        slot.sending_since = Some(Instant::now());
        (slot.is_sending, slot.sent) = (true, 0);
        slot.under_way += 1;
        Poll::Ready(kernel.send(self.key, slot.fd(), taken))
    }
}

impl RingSocket {
    /// Whether sent bytes can no longer arrive.
    pub fn is_broken(&self) -> bool {
        let sockets = self.sockets.borrow();
        let slot = &sockets.slots[self.key];
        slot.send_error.is_some() || matches!(slot.end, Some(Err(_)))
    }
}

impl Drop for RingSocket {
    fn drop(&mut self) {
        // An error here means that the ring as a whole is about to fail, and this socket with it.
        let _ = self.sockets.borrow_mut().abandon(self.key);
    }
}

impl fmt::Debug for SocketRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sockets = self.0.borrow();
        f.debug_struct("SocketRing").field("sockets", &sockets.slots.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for RingSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingSocket").field("key", &self.key).finish_non_exhaustive()
    }
}
