//! The interface to the kernel's driver: io_uring commands to the control device, and to the queues of a device.
//!
//! Invariants: a command to the control device names a buffer, which is not used and not freed before the completion
//! was fetched. A command to a queue names no memory: the bytes of requests are copied by reads and writes of the
//! character device. Descriptors are memory of the kernel, mapped read-only, and stay mapped as long as a
//! [`QueueRing`] lives.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use larder_device::IoBuffer;
use memmap2::{MmapOptions, MmapRaw};
use rustix::event::PollFlags;
use rustix::io::Errno;
use zerocopy::{FromZeros, IntoBytes};

use super::driver::{Driver, Event};
use super::wire::{ControlCommand, DEPTH_MAX, IoCommand, IoDescriptor, bytes_of, operation};

/// Marks a watched descriptor; its number is added. Other values are tags.
const WATCHED: u64 = 1 << 32;
/// Entries in addition to those for tags.
const SPARE_ENTRIES: u32 = 8;

/// Sends commands to the control device, one after the other. They need large entries.
pub(super) struct ControlRing {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: File,
    /// The number of commands up to now. It identifies a command.
    number: u64,
}

impl ControlRing {
    pub(super) fn new(device: File) -> io::Result<Self> {
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(4)?;
        Ok(Self { ring, device, number: 0 })
    }

    /// Sends a command, waits for its completion, and returns `buffer` as the driver has left it.
    pub(super) fn send(
        &mut self,
        operation: u32,
        command: ControlCommand,
        buffer: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        let len = u16::try_from(buffer.len()).map_err(io::Error::other)?;
        // If it is unknown whether the kernel still uses the buffer, it is never freed.
        let mut buffer = ManuallyDrop::new(buffer);
        let addr = match len {
            0 => 0,
            _ => buffer.as_mut_ptr().expose_provenance() as u64,
        };
        let command = ControlCommand { addr, len, ..command };
        let mut area = [0; 80];
        area[..size_of::<ControlCommand>()].copy_from_slice(command.as_bytes());
        self.number += 1;
        let entry = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), operation).cmd(area);
        let entry = entry.build().user_data(self.number);
        // SAFETY: the entry names the whole `buffer`, which is used and freed only after its completion, and a file
        // that is open as long as the ring.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        let result = loop {
            match self.ring.submitter().submit_and_wait(1) {
                Err(error) if !is_passing(&error) => return Err(error),
                _ => {}
            }
            let ended = self.ring.completion().find(|entry| entry.user_data() == self.number);
            if let Some(ended) = ended {
                break ended.result();
            }
        };
        let buffer = ManuallyDrop::into_inner(buffer);
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(buffer) }
    }
}

/// A queue of a device. It belongs to the thread that has made it.
pub(super) struct QueueRing {
    ring: IoUring,
    descriptors: MmapRaw,
    device: Arc<File>,
    queue: u16,
    depth: u16,
    watched: Vec<RawFd>,
}

impl QueueRing {
    /// # Errors
    /// The error of the kernel about the ring or the descriptors.
    pub(super) fn new(device: Arc<File>, queue: u16, depth: u16) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = builder.build(u32::from(depth) + SPARE_ENTRIES)?;
        let page = rustix::param::page_size();
        let bytes =
            |depth: u16| (usize::from(depth) * size_of::<IoDescriptor>()).next_multiple_of(page);
        let first = bytes(DEPTH_MAX) as u64 * u64::from(queue);
        let mut options = MmapOptions::new();
        let descriptors = options.offset(first).len(bytes(depth)).map_raw_read_only(&*device)?;
        Ok(Self { ring, descriptors, device, queue, depth, watched: Vec::new() })
    }

    /// Watches a descriptor: the sleep ends when it becomes readable. It must stay open as long as this ring.
    pub(super) fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.watched.push(fd.as_raw_fd());
        self.watch_again(self.watched.len() - 1)
    }

    /// Polls once, not repeatedly: if the descriptor is a ring, Linux forgets a repeated poll after its first report
    /// (seen with 6.18).
    fn watch_again(&mut self, number: usize) -> io::Result<()> {
        let readable = u32::from(PollFlags::IN.bits());
        let entry = opcode::PollAdd::new(Fd(self.watched[number]), readable).build();
        self.push(entry.user_data(WATCHED + number as u64))
    }

    fn command(&mut self, operation: u32, tag: u16, result: i32) -> io::Result<()> {
        let command = IoCommand { queue: self.queue, tag, result, addr: 0 };
        let mut area = [0; 16];
        area.copy_from_slice(command.as_bytes());
        let entry = opcode::UringCmd16::new(Fd(self.device.as_raw_fd()), operation).cmd(area);
        self.push(entry.build().user_data(tag.into()))
    }

    fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        // SAFETY: no entry names memory of this process, and a descriptor that is not open ends the entry with an
        // error.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            match self.ring.submit() {
                Err(error) if !is_passing(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Driver for QueueRing {
    fn fetch(&mut self, tag: u16) -> io::Result<()> {
        self.command(operation::FETCH_REQ, tag, 0)
    }

    fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.command(operation::COMMIT_AND_FETCH_REQ, tag, result)
    }

    fn descriptor(&self, tag: u16) -> IoDescriptor {
        assert!(tag < self.depth, "there are {} tags", self.depth);
        let mut words = [0_u64; size_of::<IoDescriptor>() / 8];
        let first = self.descriptors.as_ptr().cast::<u64>();
        for (nth, word) in words.iter_mut().enumerate() {
            // SAFETY: `depth` descriptors of three words each are mapped. The mapping begins at a page, so it is
            // aligned, and the kernel's memory behind it is released only with `self`. The kernel may write at any
            // time, which a volatile read of a word allows for. What is read is checked like any untrusted input.
            *word = unsafe { first.add(usize::from(tag) * 3 + nth).read_volatile() };
        }
        let mut descriptor = IoDescriptor::new_zeroed();
        descriptor.as_mut_bytes().copy_from_slice(words.as_bytes());
        descriptor
    }

    fn copy_in(&self, tag: u16, buffer: &mut IoBuffer) -> io::Result<()> {
        let mut at = bytes_of(self.queue, tag);
        for mut run in buffer.runs_mut() {
            while !run.is_empty() {
                let count = again(|| rustix::io::pread(&*self.device, &mut *run, at))?;
                run = &mut run[count..];
                at += count as u64;
            }
        }
        Ok(())
    }

    fn copy_out(&self, tag: u16, buffer: &IoBuffer) -> io::Result<()> {
        let mut at = bytes_of(self.queue, tag);
        for mut run in buffer.runs() {
            while !run.is_empty() {
                let count = again(|| rustix::io::pwrite(&*self.device, run, at))?;
                run = &run[count..];
                at += count as u64;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Event>> {
        loop {
            let Some(entry) = self.ring.completion().next() else { return Ok(None) };
            let number = entry.user_data();
            if let Ok(tag) = u16::try_from(number) {
                return Ok(Some(Event { tag, result: entry.result() }));
            }
            self.watch_again(usize::try_from(number - WATCHED).unwrap_or(usize::MAX))?;
        }
    }

    fn enter(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        let timeout = at_most.map(Timespec::from);
        let mut arguments = SubmitArgs::new();
        if let Some(timeout) = &timeout {
            arguments = arguments.timespec(timeout);
        }
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Repeats the call until it has moved some bytes.
fn again(mut move_some: impl FnMut() -> Result<usize, Errno>) -> io::Result<usize> {
    loop {
        match move_some() {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => return Ok(count),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether an error only ends a sleep and is no failure: a timeout, a signal, or completions that must be fetched
/// first.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::TIME, Errno::INTR, Errno::BUSY, Errno::AGAIN];
    error.raw_os_error().is_some_and(|code| passing.iter().any(|it| it.raw_os_error() == code))
}
