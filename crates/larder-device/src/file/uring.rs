//! The I/O engine over io_uring: one ring, driven by one thread.
//!
//! Submitters leave pieces in a queue and, if the ring's thread sleeps, wake it through an eventfd
//! on which the ring keeps a read armed. The thread moves pieces from the queue into the ring as
//! far as there are free slots, sleeps in the kernel until something completes, and settles what
//! did.
//!
//! Invariants:
//!
//! 1. A piece whose address the kernel knows lies in [`InFlight`] until its completion was reaped.
//! 2. If the thread must end before that (the ring broke, or a bug panicked), `InFlight` leaks the
//!    pieces, so that the kernel never writes to memory that someone else has.
//! 3. `asleep` is set only under the queue's lock and only when the queue is empty, and the thread
//!    looks at the queue again after every wake-up: no piece is left lying.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::event::EventfdFlags;

use super::engine::{Engine, join};
use super::sys;
use super::transfer::{Piece, Pieces, Step, Verb};

/// `user_data` of the read on the eventfd; every other is the index of a slot.
const WAKE: u64 = u64::MAX;

/// The submitters' end.
pub(super) struct Uring {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: OwnedFd,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Piece>,
    /// The ring's thread is, or is about to be, in the kernel and must be woken.
    asleep: bool,
    /// The device is gone, or the ring broke: nothing more is taken.
    closed: bool,
}

impl Uring {
    /// Sets up a ring with at most `depth` pieces under way.
    pub(super) fn new(file: &Arc<File>, depth: u16) -> io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared { queue: Mutex::default(), wake });
        let (report, outcome) = mpsc::channel();
        let (file, theirs) = (Arc::clone(file), Arc::clone(&shared));
        // A ring with a single issuer must be made by the thread that issues.
        let thread =
            std::thread::Builder::new().name("larder-ring".to_owned()).spawn(move || {
                let _close = CloseOnExit(&theirs);
                match make_ring(depth) {
                    Ok(ring) => {
                        let _ = report.send(Ok(()));
                        Driver::new(ring, file, &theirs, depth).run();
                    }
                    Err(e) => {
                        let _ = report.send(Err(e));
                    }
                }
            })?;
        outcome.recv().unwrap_or_else(|_| Err(io::Error::other("the ring's thread died")))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Engine for Uring {
    fn submit(&self, pieces: Pieces) {
        let mut queue = self.shared.lock();
        if queue.closed {
            drop(queue);
            // Unsettled, they fail their request.
            pieces.for_each(drop);
            return;
        }
        queue.waiting.extend(pieces);
        let asleep = std::mem::take(&mut queue.asleep);
        drop(queue);
        if asleep {
            self.shared.wake();
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake();
        self.thread.take().into_iter().for_each(join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Fails only if the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.wake, bytemuck::bytes_of(&1u64));
    }
}

/// When the thread ends, for whatever reason, nothing must wait for it any more.
struct CloseOnExit<'a>(&'a Shared);

impl Drop for CloseOnExit<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        drop(waiting);
    }
}

/// A ring that knows all our operations, with what newer kernels offer to single-threaded users
/// where they do.
fn make_ring(depth: u16) -> io::Result<IoUring> {
    let entries = u32::from(depth) + 1;
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::new(entries))?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed =
        [opcode::Read::CODE, opcode::Write::CODE, opcode::Fallocate::CODE, opcode::Fsync::CODE];
    if needed.iter().all(|&code| probe.is_supported(code)) {
        Ok(ring)
    } else {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel's io_uring is too old"))
    }
}

/// What the kernel may be working on.
struct InFlight {
    slots: Vec<Option<Piece>>,
    free: Vec<usize>,
    /// Where the read on the eventfd puts its eight bytes; absent only after a leak.
    wake_count: Option<Box<[u8; 8]>>,
    wake_armed: bool,
}

impl InFlight {
    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.slots.drain(..).flatten().for_each(Piece::leak);
        if self.wake_armed {
            std::mem::forget(self.wake_count.take());
        }
    }
}

/// The ring's thread.
struct Driver<'a> {
    ring: IoUring,
    in_flight: InFlight,
    shared: &'a Shared,
    file: Arc<File>,
}

impl<'a> Driver<'a> {
    fn new(ring: IoUring, file: Arc<File>, shared: &'a Shared, depth: u16) -> Self {
        let depth = usize::from(depth);
        let in_flight = InFlight {
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            wake_count: Some(Box::new([0; 8])),
            wake_armed: false,
        };
        Self { ring, in_flight, shared, file }
    }

    /// Serves until the device is gone and all is done, or the ring breaks. `InFlight` cares for
    /// what is left then.
    fn run(&mut self) {
        let mut settled = Vec::new();
        while self.refill() && self.enter().is_ok() {
            if !self.reap(&mut settled) {
                return;
            }
        }
    }

    /// Moves waiting pieces into free slots. `false`: there is nothing left to do, ever, or the
    /// ring takes nothing.
    fn refill(&mut self) -> bool {
        let shared = self.shared;
        let mut queue = shared.lock();
        while let Some(&slot) = self.in_flight.free.last()
            && let Some(piece) = queue.waiting.pop_front()
        {
            self.in_flight.free.pop();
            self.in_flight.slots[slot] = Some(piece);
            if !self.push(slot) {
                return false;
            }
        }
        queue.asleep = queue.waiting.is_empty() && !queue.closed;
        let finished = queue.closed && queue.waiting.is_empty();
        drop(queue);
        if finished {
            return !self.in_flight.is_empty() || self.in_flight.wake_armed;
        }
        self.in_flight.wake_armed || self.arm_wake()
    }

    /// Hands what is new to the kernel and sleeps until something has completed.
    fn enter(&mut self) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            Ok(_) => Ok(()),
            // Interrupted, or out of resources until completions are reaped: both pass.
            Err(e)
                if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) =>
            {
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Settles what has completed. `false`: the ring takes nothing more.
    fn reap(&mut self, settled: &mut Vec<(u64, i32)>) -> bool {
        settled.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        for (user_data, result) in settled.drain(..) {
            if user_data == WAKE {
                self.in_flight.wake_armed = false;
                continue;
            }
            let Ok(slot) = usize::try_from(user_data) else { return false };
            let Some(piece) = self.in_flight.slots.get_mut(slot).and_then(Option::as_mut) else {
                return false;
            };
            let result = match usize::try_from(result) {
                Ok(count) => Ok(count),
                Err(_) => Err(io::Error::from_raw_os_error(-result)),
            };
            match piece.settle(result) {
                Step::Again if self.push(slot) => {}
                Step::Again => return false,
                Step::End => {
                    self.in_flight.free.push(slot);
                    // Drops the piece, and with the last one the request completes.
                    self.in_flight.slots[slot] = None;
                }
            }
        }
        true
    }

    /// Puts the piece in `slot` into the submission queue.
    fn push(&mut self, slot: usize) -> bool {
        let Some(piece) = self.in_flight.slots[slot].as_mut() else { return false };
        let entry = describe(piece, types::Fd(self.file.as_raw_fd())).user_data(slot as u64);
        // SAFETY: the entry's memory belongs to the piece, which stays in its slot until the
        // completion is reaped, or is leaked (invariants 1 and 2). The descriptor stays
        // open as long as the driver holds the file, and the driver outlives every
        // completion or leaks what waits for one; a descriptor closed by then would fail the
        // operation, not harm memory.
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    /// Arms the read through which submitters wake the thread.
    fn arm_wake(&mut self) -> bool {
        let Some(count) = &mut self.in_flight.wake_count else { return false };
        let fd = types::Fd(self.shared.wake.as_raw_fd());
        let entry = opcode::Read::new(fd, count.as_mut_ptr(), 8).build().user_data(WAKE);
        // SAFETY: the eight bytes are on the heap and stay there until the read has completed:
        // `InFlight` owns them, lends them to nothing else, and leaks them if it is dropped
        // while the read is armed.
        self.in_flight.wake_armed = unsafe { self.ring.submission().push(&entry) }.is_ok();
        self.in_flight.wake_armed
    }
}

/// The ring's words for what remains of `piece`.
fn describe(piece: &mut Piece, file: types::Fd) -> squeue::Entry {
    let (offset, bytes) = (piece.offset(), piece.remaining());
    // A piece with memory is at most as long as the largest transfer, which is a `u32`.
    let len = u32::try_from(bytes).unwrap_or(u32::MAX);
    match piece.verb() {
        Verb::Read => {
            opcode::Read::new(file, piece.memory().as_mut_ptr(), len).offset(offset).build()
        }
        Verb::Write => {
            opcode::Write::new(file, piece.memory().as_ptr(), len).offset(offset).build()
        }
        Verb::Deallocate => opcode::Fallocate::new(file, bytes)
            .offset(offset)
            .mode(i32::try_from(sys::PUNCH_HOLE.bits()).unwrap_or(0))
            .build(),
        Verb::Flush => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::IoBuffer;
    use crate::error::ErrorKind;
    use crate::file::transfer::Ledger;
    use crate::io::{Io, IoFuture};

    fn shared() -> Shared {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        Shared { queue: Mutex::default(), wake }
    }

    fn read_request(shared: &Shared) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        let io = Io::Read { offset: 0, buffer: IoBuffer::zeroed(8192) };
        let pieces = Pieces::new(io, completer, 4096, &Arc::new(Ledger::default()));
        shared.lock().waiting.extend(pieces);
        future
    }

    #[test]
    fn a_ring_that_breaks_fails_its_requests_and_keeps_their_memory() {
        let Ok(ring) = make_ring(2) else { return println!("io_uring is not tested: refused") };
        // Nobody ever writes to the pipe: the reads stay in the kernel.
        let (reader, _writer) = std::io::pipe().unwrap();
        let file = Arc::new(File::from(OwnedFd::from(reader)));
        let shared = shared();
        let (stuck, waiting) = (read_request(&shared), read_request(&shared));
        {
            let _close = CloseOnExit(&shared);
            let mut driver = Driver::new(ring, file, &shared, 2);
            assert!(driver.refill());
            driver.ring.submit().unwrap();
            assert!(!driver.in_flight.is_empty());
        }
        let failure = stuck.wait().unwrap_err();
        assert_eq!(failure.error.kind(), ErrorKind::Gone, "{failure}");
        assert!(failure.buffer.is_empty(), "the kernel may still have its memory");
        let failure = waiting.wait().unwrap_err();
        assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Gone, 8192));
    }

    #[test]
    fn a_closed_ring_takes_nothing() {
        let ring = Uring { shared: Arc::new(shared()), thread: None };
        drop(CloseOnExit(&ring.shared));
        let (future, completer) = IoFuture::pending();
        ring.submit(Pieces::new(Io::Flush, completer, 4096, &Arc::new(Ledger::default())));
        assert_eq!(future.wait().unwrap_err().error.kind(), ErrorKind::Gone);
    }
}
