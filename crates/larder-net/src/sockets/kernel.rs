//! The kernel's side of a ring of sockets: requests and completions.
//!
//! Invariant: memory that a request names is not freed, moved or written to before its completion was fetched. For
//! this, `sending` keeps the bytes being sent, by the number of their socket; received bytes go to [`ProvidedBuffers`].
//! Dropping [`Kernel`] ends all requests in flight; if that fails, its memory is never freed.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::provided::{BUFFER_LEN, GROUP, ProvidedBuffers};

/// Entries of the submission queue. When it is full, it is submitted at once.
const ENTRIES: u32 = 256;
/// Capacity of the completion queue. The kernel keeps further completions itself, at a cost.
const COMPLETIONS: u32 = 16 << 10;
/// Most turns, of at most 1 ms each, that a drop waits for all requests to end.
const END_TURNS: u32 = 1000;

/// The request that a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompletionOwner {
    Receive(usize),
    Send(usize),
    Cancel(usize),
    Watch(usize),
    /// The request to cancel all others.
    End,
}

/// The completion of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) of: CompletionOwner,
    /// A count, or a negative error number.
    pub(super) result: i32,
    /// The pool buffer that it has filled.
    pub(super) buffer: Option<u16>,
    /// The request continues and will have further completions.
    pub(super) goes_on: bool,
}

/// See the module.
pub(super) struct Kernel {
    /// Dropped by hand: not at all if requests in flight cannot be ended.
    memory: ManuallyDrop<Memory>,
    /// Requests that will have further completions.
    under_way: usize,
}

/// Fields are dropped in order: the ring goes before the memory that it knows.
struct Memory {
    ring: IoUring,
    provided: ProvidedBuffers,
    /// Bytes being sent, by the number of their socket.
    sending: Vec<Vec<u8>>,
}

impl CompletionOwner {
    fn number(self) -> u64 {
        let (kind, key) = match self {
            Self::Receive(key) => (0, key),
            Self::Send(key) => (1, key),
            Self::Cancel(key) => (2, key),
            Self::Watch(key) => (3, key),
            Self::End => (4, 0),
        };
        (key as u64) << 3 | kind
    }

    fn of_number(number: u64) -> Self {
        let key = usize::try_from(number >> 3).unwrap_or(usize::MAX);
        match number & 7 {
            0 => Self::Receive(key),
            1 => Self::Send(key),
            2 => Self::Cancel(key),
            3 => Self::Watch(key),
            _ => Self::End,
        }
    }
}

impl Kernel {
    /// A ring for this thread only.
    pub(super) fn new() -> io::Result<Self> {
        let mut builder = IoUring::builder();
        // Completions are posted when this thread asks for them (Linux 6.1), without interrupting it.
        builder.setup_single_issuer().setup_defer_taskrun().setup_cqsize(COMPLETIONS);
        let ring = builder.build(ENTRIES)?;
        let provided = ProvidedBuffers::register(&ring)?;
        let memory = Memory { ring, provided, sending: Vec::new() };
        Ok(Self { memory: ManuallyDrop::new(memory), under_way: 0 })
    }

    pub(super) fn provided(&mut self) -> &mut ProvidedBuffers {
        &mut self.memory.provided
    }

    /// Starts receiving from a socket into pool buffers, until a completion says that it does not continue; or, with
    /// `is_once`, into a single buffer.
    pub(super) fn receive(&mut self, key: usize, fd: RawFd, is_once: bool) -> io::Result<()> {
        let entry = if is_once {
            let receive = opcode::Recv::new(Fd(fd), std::ptr::null_mut(), BUFFER_LEN);
            receive.buf_group(GROUP).build().flags(squeue::Flags::BUFFER_SELECT)
        } else {
            opcode::RecvMulti::new(Fd(fd), GROUP).build()
        };
        self.push(entry, CompletionOwner::Receive(key))
    }

    /// Stops that receive.
    pub(super) fn stop_receiving(&mut self, key: usize) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(CompletionOwner::Receive(key).number()).build();
        self.push(entry, CompletionOwner::Cancel(key))
    }

    /// Stops a send.
    pub(super) fn stop_sending(&mut self, key: usize) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(CompletionOwner::Send(key).number()).build();
        self.push(entry, CompletionOwner::Cancel(key))
    }

    /// Starts sending `bytes`, which the kernel uses until the completion.
    pub(super) fn send(&mut self, key: usize, fd: RawFd, bytes: Vec<u8>) -> io::Result<()> {
        let sending = &mut self.memory.sending;
        if sending.len() <= key {
            sending.resize_with(key + 1, Vec::new);
        }
        assert!(sending[key].is_empty(), "one send of a socket is under way");
        sending[key] = bytes;
        self.send_from(key, fd, 0)
    }

    /// Sends the rest of the bytes after a short send.
    pub(super) fn send_from(&mut self, key: usize, fd: RawFd, at: usize) -> io::Result<()> {
        let rest = &self.memory.sending[key][at..];
        let len = u32::try_from(rest.len()).map_err(io::Error::other)?;
        let flags = libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let entry = opcode::Send::new(Fd(fd), rest.as_ptr(), len).flags(flags).build();
        self.push(entry, CompletionOwner::Send(key))
    }

    /// Number of bytes in the current send.
    pub(super) fn sending_bytes(&self, key: usize) -> usize {
        self.memory.sending.get(key).map_or(0, Vec::len)
    }

    /// Takes the bytes of a send that has ended.
    pub(super) fn take_sent(&mut self, key: usize) -> Vec<u8> {
        self.memory.sending.get_mut(key).map(std::mem::take).unwrap_or_default()
    }

    /// Makes the kernel report once that a descriptor is readable; at once if it is already.
    ///
    /// A multishot request is not safe here. Where the descriptor is another ring's, Linux (seen with 6.18.15) may
    /// remove such a request from that ring's wait queue when it wakes it, and then never report later completions of
    /// the ring.
    pub(super) fn watch(&mut self, key: usize, fd: RawFd) -> io::Result<()> {
        let readable = u32::from(libc::POLLIN.unsigned_abs());
        self.push(opcode::PollAdd::new(Fd(fd), readable).build(), CompletionOwner::Watch(key))
    }

    fn push(&mut self, entry: squeue::Entry, of: CompletionOwner) -> io::Result<()> {
        let entry = entry.user_data(of.number());
        let ring = &mut self.memory.ring;
        // SAFETY: the memory that the entry names is kept as the module says; descriptors are open until their
        // completions.
        while unsafe { ring.submission().push(&entry) }.is_err() {
            match ring.submit() {
                Err(error) if !is_passing(&error) => return Err(error),
                _ => {}
            }
        }
        self.under_way += 1;
        Ok(())
    }

    /// Submits all new requests, and sleeps until there is a completion, at most `at_most`.
    pub(super) fn enter(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        let timeout = at_most.map(Timespec::from);
        let mut arguments = SubmitArgs::new();
        if let Some(timeout) = &timeout {
            arguments = arguments.timespec(timeout);
        }
        match self.memory.ring.submitter().submit_with_args(1, &arguments) {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// The next completion, if there is one.
    pub(super) fn next(&mut self) -> Option<Completion> {
        let entry = self.memory.ring.completion().next()?;
        let goes_on = cqueue::more(entry.flags());
        let buffer = cqueue::buffer_select(entry.flags());
        if buffer.is_some() {
            self.memory.provided.taken();
        }
        if !goes_on {
            assert!(self.under_way > 0, "each request ends once");
            self.under_way -= 1;
        }
        let of = CompletionOwner::of_number(entry.user_data());
        Some(Completion { of, result: entry.result(), buffer, goes_on })
    }

    /// Ends all requests in flight.
    fn end(&mut self) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any().all()).build();
        if self.push(entry, CompletionOwner::End).is_err() {
            return;
        }
        for _ in 0..END_TURNS {
            while self.next().is_some() {}
            if self.under_way == 0 || self.enter(Some(Duration::from_millis(1))).is_err() {
                return;
            }
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.under_way > 0 {
            self.end();
        }
        if self.under_way == 0 {
            // SAFETY: it is dropped only here and not used afterwards. Nothing is in flight, so the kernel neither
            // reads nor writes any of it.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// Whether a sleep ended without a fault: by its timeout, a signal, or completions that must be fetched first.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
    error.raw_os_error().is_some_and(|code| passing.contains(&code))
}
