//! Wakes the thread that sleeps in a ring, with an eventfd that the ring reads.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use zerocopy::IntoBytes;

/// Wakes the leader when a request was handed over. Unlike a no-op operation this does not enter the ring, where the
/// kernel would begin with the queued entries one request at a time.
pub(super) struct WakeEvent {
    pub(super) eventfd: OwnedFd,
    /// Where the read puts the count; `None` after a leak.
    pub(super) count: Option<Box<[u8; 8]>>,
    /// The kernel has the read.
    pub(super) armed: bool,
}

impl WakeEvent {
    pub(super) fn new() -> Option<Self> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
        Some(Self { eventfd, count: Some(Box::new([0; 8])), armed: false })
    }

    /// Ends the read, which wakes the leader. Returns `false` if there is no read.
    pub(super) fn ring(&self) -> bool {
        // The write fails only if the counter is full, and then the read ends all the same.
        debug_assert!(
            self.count.is_some() || !self.armed,
            "an armed read has where to put its count"
        );
        self.armed && {
            let _ = rustix::io::write(&self.eventfd, 1_u64.as_bytes());
            true
        }
    }
}

impl Drop for WakeEvent {
    fn drop(&mut self) {
        if self.armed {
            std::mem::forget(self.count.take());
        }
    }
}
