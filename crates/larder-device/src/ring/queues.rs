//! The two queues of a ring, for entries of either size.
//!
//! A ring with large entries (Linux 5.19) carries small ones as well and wastes 64 bytes of each. It is tried first,
//! because only such a ring takes commands to NVMe namespaces.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use io_uring::{IoUring, Probe, Submitter, cqueue, opcode, squeue, types};

use super::kernel::{EnterOutcome, WAKE_EVENT, Wait};
use super::wire::AnyEntry;

/// Where the kernel puts what it reads from eventfds, for all rings. The value is never used, and the memory lives
/// forever.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A ring. Its queues are shared with the kernel.
pub(crate) enum Queues {
    Small(IoUring),
    Big(IoUring<squeue::Entry128, cqueue::Entry32>),
}

impl Queues {
    /// A ring of `entries` entries, and the operations that it supports.
    pub(crate) fn new(entries: u32) -> io::Result<(Self, Probe)> {
        let big = Self::big(entries, true).or_else(|_| Self::big(entries, false));
        let ring = big.or_else(|_| Self::small(entries))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        Ok((ring, probe))
    }

    fn big(entries: u32, all: bool) -> io::Result<Self> {
        let mut builder = IoUring::<squeue::Entry128, cqueue::Entry32>::builder();
        if all {
            // An entry that the kernel refuses does not stop the ones after it (Linux 5.18).
            builder.setup_submit_all();
        }
        builder.build(entries).map(Self::Big)
    }

    pub(super) fn small(entries: u32) -> io::Result<Self> {
        IoUring::new(entries).map(Self::Small)
    }

    pub(crate) fn is_big(&self) -> bool {
        matches!(self, Self::Big(_))
    }

    pub(crate) fn submitter(&self) -> Submitter<'_> {
        match self {
            Self::Small(ring) => ring.submitter(),
            Self::Big(ring) => ring.submitter(),
        }
    }

    fn has_timeouts(&self) -> bool {
        match self {
            Self::Small(ring) => ring.params().is_feature_ext_arg(),
            Self::Big(ring) => ring.params().is_feature_ext_arg(),
        }
    }

    /// Puts `entry` into the submission queue. Returns `false` if the queue is full or its entries are too small.
    ///
    /// # Safety
    /// No other thread uses the queues during the call. The memory that the entry names belongs to the kernel until the
    /// completion was fetched, and its file is open when the kernel takes the entry.
    pub(crate) unsafe fn push(&self, entry: AnyEntry) -> bool {
        match (self, entry) {
            // SAFETY: as the caller promises.
            (Self::Small(ring), AnyEntry::Small(entry)) => unsafe {
                ring.submission_shared().push(&entry).is_ok()
            },
            // SAFETY: as the caller promises.
            (Self::Big(ring), AnyEntry::Small(entry)) => unsafe {
                ring.submission_shared().push(&entry.into()).is_ok()
            },
            // SAFETY: as the caller promises.
            (Self::Big(ring), AnyEntry::Big(entry)) => unsafe {
                ring.submission_shared().push(&entry).is_ok()
            },
            (Self::Small(_), AnyEntry::Big(_)) => false,
        }
    }

    /// Puts a read of `eventfd` into the submission queue, which ends with [`WAKE_EVENT`].
    ///
    /// # Safety
    /// No other thread uses the queues during the call. The descriptor stays open as long as the ring does.
    pub(crate) unsafe fn push_wake_event(&self, eventfd: BorrowedFd<'_>) -> bool {
        let fd = types::Fd(eventfd.as_raw_fd());
        let read = opcode::Read::new(fd, COUNT.as_ptr().cast(), 8).build().user_data(WAKE_EVENT);
        // SAFETY: as the caller promises; the eight bytes live forever, and nothing relies on them.
        unsafe { self.push(read.into()) }
    }

    /// The next completion: its `user_data` and its result.
    ///
    /// # Safety
    /// No other thread uses the queues during the call.
    pub(crate) unsafe fn next(&self) -> Option<(u64, i32)> {
        let entry: cqueue::Entry = match self {
            // SAFETY: as the caller promises.
            Self::Small(ring) => unsafe { ring.completion_shared().next()? },
            // SAFETY: as the caller promises.
            Self::Big(ring) => unsafe { ring.completion_shared().next()?.into() },
        };
        Some((entry.user_data(), entry.result()))
    }

    /// Whether the submission queue has an entry that the kernel has not taken.
    ///
    /// # Safety
    /// No other thread uses the queues during the call.
    pub(crate) unsafe fn untold(&self) -> bool {
        match self {
            // SAFETY: as the caller promises.
            Self::Small(ring) => unsafe { !ring.submission_shared().is_empty() },
            // SAFETY: as the caller promises.
            Self::Big(ring) => unsafe { !ring.submission_shared().is_empty() },
        }
    }

    /// Submits to the kernel, and waits if asked to. Any thread may call this at any time: the kernel serialises its
    /// callers itself.
    pub(crate) fn enter(&self, wait: Wait) -> EnterOutcome {
        let outcome = match wait {
            Wait::No => self.submitter().submit().map(drop),
            Wait::Completion(None) => self.submitter().submit_and_wait(1).map(drop),
            Wait::Completion(Some(timeout)) if self.has_timeouts() => self.enter_within(timeout),
            Wait::Completion(Some(timeout)) => {
                let told = self.submitter().submit().map(drop);
                told.and_then(|()| await_readable(self.as_fd(), Some(timeout)))
            }
        };
        match outcome.map_err(|error| (error.kind(), error)) {
            Ok(()) | Err((io::ErrorKind::Interrupted | io::ErrorKind::TimedOut, _)) => {
                EnterOutcome::Told
            }
            // Out of resources until completions are fetched, or for a moment.
            Err((io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy, _)) => {
                EnterOutcome::Later
            }
            Err((_, error)) if is_time_over(&error) => EnterOutcome::Told,
            Err(_) => EnterOutcome::Broken,
        }
    }

    fn enter_within(&self, timeout: Duration) -> io::Result<()> {
        let timeout = types::Timespec::from(timeout);
        let arguments = types::SubmitArgs::new().timespec(&timeout);
        self.submitter().submit_with_args(1, &arguments).map(drop)
    }
}

impl AsFd for Queues {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let fd = match self {
            Self::Small(ring) => ring.as_raw_fd(),
            Self::Big(ring) => ring.as_raw_fd(),
        };
        // SAFETY: the ring is open as long as it is borrowed.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

/// `ETIME`, for which the standard library has no name.
fn is_time_over(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::TIME.raw_os_error())
}

/// Sleeps until `fd` is readable or the time is over.
pub(crate) fn await_readable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = timeout.and_then(|it| Timespec::try_from(it).ok());
    poll(&mut fds, timeout.as_ref())?;
    Ok(())
}
