//! A hosted ring on Linux: its queues, its wake-up event, and the files and buffers registered with it.
//!
//! Invariant: access to the queues is tied to the one set of [`KernelTables`], made with the ring and never copied.
//! Code that has the tables mutably is the only one to use the queues.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use io_uring::{Probe, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use zerocopy::IntoBytes;

use super::fixed::{BufferGrant, FixedBuffers, is_refusal};
use super::kernel::{EnterOutcome, Kernel, Wait};
use super::queues::{Queues, await_readable};
use super::wire::{AnyWire, Link, Range};
use crate::transfer::Piece;

/// Entries of the table of registered files: that number of devices save the kernel a look-up per request.
const FILES: u32 = 64;

pub(crate) struct Linux {
    queues: Queues,
    probe: Probe,
    wake_event: OwnedFd,
}

/// State that changes together with the queues, and the right to use them.
pub(crate) struct KernelTables {
    fixed: FixedBuffers,
    /// Free entries of the kernel's table of files.
    files: Vec<u32>,
}

/// The state of a device that all its rings share.
pub(crate) struct Guest {
    pub(crate) wire: Arc<dyn AnyWire>,
    pub(crate) file: Arc<File>,
    /// Whether the device wants its buffers registered.
    pub(crate) registered_buffers: bool,
    /// Pieces that went to the kernel with a registered buffer.
    pub(crate) fixed_pieces: AtomicU64,
    /// A ring broke while requests of the device were in flight.
    pub(crate) broken: AtomicBool,
}

/// A device in this ring.
pub(crate) struct RingTarget {
    guest: Arc<Guest>,
    registered_file: Option<u32>,
    /// Whether its requests may name registered buffers.
    fixed: bool,
}

impl RingTarget {
    pub(crate) fn registered_file(&self) -> bool {
        self.registered_file.is_some()
    }
}

impl KernelTables {
    /// Whether the kernel granted registered buffers, and the number of pieces that used them.
    pub(crate) fn granted(&self) -> BufferGrant {
        self.fixed.granted()
    }
}

impl Linux {
    /// A ring of `entries` entries, and its tables.
    pub(crate) fn new(entries: u32, registered_buffers: bool) -> io::Result<(Self, KernelTables)> {
        let (queues, probe) = Queues::new(entries)?;
        Self::over(queues, probe, registered_buffers)
    }

    #[cfg(all(test, not(shuttle)))]
    pub(super) fn with_small_entries(entries: u32) -> io::Result<(Self, KernelTables)> {
        let queues = Queues::small(entries)?;
        let mut probe = Probe::new();
        queues.submitter().register_probe(&mut probe)?;
        Self::over(queues, probe, false)
    }

    fn over(queues: Queues, probe: Probe, buffers: bool) -> io::Result<(Self, KernelTables)> {
        let wake_event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let granted = queues.submitter().register_files_sparse(FILES).is_ok();
        let files = if granted { (0..FILES).rev().collect() } else { Vec::new() };
        let fixed = FixedBuffers::new(&queues.submitter(), buffers);
        Ok((Self { queues, probe, wake_event }, KernelTables { fixed, files }))
    }

    /// Lets a device join. `None` if the ring cannot carry the device's operations.
    pub(crate) fn admit(
        &self,
        tables: &mut KernelTables,
        guest: &Arc<Guest>,
    ) -> Option<RingTarget> {
        let wire = &guest.wire;
        let speaks = wire.needed().iter().all(|&code| self.probe.is_supported(code));
        if !speaks || (wire.is_big() && !self.queues.is_big()) {
            return None;
        }
        let registered_file = tables.files.pop().filter(|&entry| {
            let known = self.set_file(entry, guest.file.as_raw_fd());
            if !known {
                tables.files.clear();
            }
            known
        });
        let fixed = guest.registered_buffers;
        Some(RingTarget { guest: Arc::clone(guest), registered_file, fixed })
    }

    fn set_file(&self, entry: u32, fd: i32) -> bool {
        self.queues.submitter().register_files_update(entry, &[fd]).is_ok()
    }
}

impl Kernel for Linux {
    type Target = RingTarget;
    type KernelTables = KernelTables;

    fn push(
        &self,
        tables: &mut KernelTables,
        target: &mut RingTarget,
        (slot, piece, range): (u64, &mut Piece, &mut Range),
    ) -> bool {
        let guest = &target.guest;
        let (file, flags) = match target.registered_file {
            Some(entry) => (i32::try_from(entry).unwrap_or(0), squeue::Flags::FIXED_FILE),
            None => (guest.file.as_raw_fd(), squeue::Flags::empty()),
        };
        piece.by_entry = false;
        let entry = match target.fixed {
            true => tables.fixed.entry(&self.queues.submitter(), piece),
            false => None,
        };
        if entry.is_some() {
            guest.fixed_pieces.fetch_add(1, Ordering::Relaxed);
        }
        let link = Link { file: types::Fd(file), flags, slot, entry, range };
        let entry = guest.wire.describe(piece, link);
        // SAFETY: we have the tables. The entry names only memory of the piece and of the range, which stay in place
        // until the completion was fetched, or forever (invariant 1 of a hosted ring). The target keeps the file open
        // until then.
        unsafe { self.queues.push(entry) }
    }

    fn arm_wake_event(&self, _: &mut KernelTables) -> bool {
        // SAFETY: we have the tables. The wake-up event lives as long as the ring.
        unsafe { self.queues.push_wake_event(self.wake_event.as_fd()) }
    }

    fn next(&self, _: &mut KernelTables) -> Option<(u64, i32)> {
        // SAFETY: we have the tables.
        unsafe { self.queues.next() }
    }

    fn untold(&self, _: &mut KernelTables) -> bool {
        // SAFETY: we have the tables.
        unsafe { self.queues.untold() }
    }

    fn outcome(
        &self,
        target: &mut RingTarget,
        piece: &mut Piece,
        result: i32,
    ) -> Option<io::Result<usize>> {
        if is_refusal(piece, result) {
            // Other devices in the ring may keep using registered buffers: old kernels refuse them in commands only.
            target.fixed = false;
            return None;
        }
        Some(target.guest.wire.outcome(piece, result))
    }

    fn enter(&self, wait: Wait) -> EnterOutcome {
        self.queues.enter(wait)
    }

    fn wake(&self) {
        // The write fails only if the counter is full, and then the wake-up event is signalled all the same.
        let _ = rustix::io::write(&self.wake_event, 1_u64.as_bytes());
    }

    fn await_wake(&self, timeout: Option<Duration>) {
        let _ = await_readable(self.wake_event.as_fd(), timeout);
        let _ = rustix::io::read(&self.wake_event, &mut [0; 8]);
    }

    fn release(&self, tables: &mut KernelTables, target: RingTarget) {
        let Some(entry) = target.registered_file else { return };
        // Otherwise the kernel would hold the file as long as the ring lives.
        if self.set_file(entry, -1) {
            tables.files.push(entry);
        }
    }

    fn abandon(&self, target: RingTarget) {
        target.guest.broken.store(true, Ordering::SeqCst);
    }

    fn close(&self, tables: &mut KernelTables) {
        tables.fixed.close(&self.queues.submitter());
        // Otherwise the kernel would hold the files until it has torn the ring down.
        let _ = self.queues.submitter().unregister_files();
    }
}

impl AsFd for Linux {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queues.as_fd()
    }
}
