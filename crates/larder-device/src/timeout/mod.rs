//! A device around any other whose requests end within a time limit, with success or failure.
//!
//! A device that does not answer would block all its users. Here a request that has not ended in time fails with
//! [`ErrorKind::TimedOut`], as with the kernel's own I/O timeouts. It cannot be cancelled: it may still happen, at any
//! time. So two rules hold until it has ended below:
//!
//! 1. A request that overlaps a write (or a deallocation) that was given up is refused with [`ErrorKind::Busy`]: the
//!    late write must not overwrite a later one.
//! 2. After a request was given up no new request is sent until the device ends a request. So a caller that needs many
//!    requests waits for one timeout, not for many.
//!
//! Time in which the process or the host slept does not count against the device: a request whose time ended during the
//! sleep gets one second more.
//!
//! A user whose bytes must not be reused by another holds them with a [`Claim`], which lasts until the last request
//! that was given up has ended.

mod watch;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::Claim;
use crate::clock::Clock;
use crate::device::Device;
use crate::device::Extent;
use crate::error::{Error, ErrorKind};
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Io, IoFuture, WatchedRequest};
use watch::{Refusal, TimeoutWatch};

/// Each further part of a transfer of this size adds one timeout.
const BYTES_A_TIMEOUT: u64 = 16 << 20;
/// A flush or a deallocation may take this number of timeouts: its cost may depend on much that was written before.
const TIMEOUTS_OF_A_FLUSH: u32 = 12;

/// A device around another one that gives up on requests after a timeout.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use larder_device::{
///     Device, ErrorKind, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, MemoryDevice,
///     RealClock, TimeoutDevice, block_on,
/// };
///
/// let stalled = FaultPlan::new(1).with(FaultRule::new(Fault::Stall).on_reads());
/// let device = FaultDevice::new(MemoryDevice::holding(vec![0; 1 << 20]), &stalled);
/// let timeout = Duration::from_millis(20);
/// let device = TimeoutDevice::new(Arc::new(device), timeout, Arc::new(RealClock), None);
/// let read = || Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) };
/// let kind = || block_on(device.submit(read())).unwrap_err().error.kind();
/// assert_eq!((kind(), kind()), (ErrorKind::TimedOut, ErrorKind::Busy));
/// ```
pub struct TimeoutDevice {
    device: Arc<dyn Device>,
    watch: Arc<TimeoutWatch>,
}

impl TimeoutDevice {
    /// `device`, each of whose requests has `timeout` to end, by the monotonic time of `clock`. Every further 16 MiB
    /// add another `timeout`, and a flush or a deallocation gets twelve times as long. A request that was given up
    /// keeps `claim` until it has ended, even if the claim's owner drops it before.
    pub fn new(
        device: Arc<dyn Device>,
        timeout: Duration,
        clock: Arc<dyn Clock>,
        claim: Option<&Arc<Claim>>,
    ) -> Self {
        let watch = Arc::new(TimeoutWatch::new(timeout, clock, claim.map(Arc::downgrade)));
        Self { device, watch }
    }

    /// Number of requests that were given up, and number of those that were refused as a result, since the device was
    /// made.
    pub fn timed_out(&self) -> (u64, u64) {
        self.watch.counts()
    }

    fn refuse(&self, io: CheckedIo, refusal: &Refusal) -> IoFuture {
        let (verb, offset, bytes) = io.get().extent();
        let name = &self.device.info().name;
        let context = format!("{verb} of {bytes} bytes at {offset} on {name}: {refusal}");
        io.fail(Error::new(ErrorKind::Busy, context))
    }

    fn allowance(&self, io: &Io) -> Duration {
        let timeout = self.watch.timeout();
        let times = match io {
            // It may have to wait for the same work as a flush.
            Io::Write { .. } if io.is_power_durable() => TIMEOUTS_OF_A_FLUSH,
            Io::Read { buffer, .. } | Io::Write { buffer, .. } => {
                1 + u32::try_from(buffer.len() as u64 / BYTES_A_TIMEOUT).unwrap_or(u32::MAX - 1)
            }
            // The zeros may all have to be written.
            Io::WriteZeroes { bytes, .. } => TIMEOUTS_OF_A_FLUSH
                .saturating_add(u32::try_from(bytes / BYTES_A_TIMEOUT).unwrap_or(u32::MAX)),
            Io::Deallocate { .. } | Io::Flush => TIMEOUTS_OF_A_FLUSH,
        };
        timeout.saturating_mul(times)
    }
}

impl Device for TimeoutDevice {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        if let Some(refusal) = self.watch.refuses(io.get()) {
            return self.refuse(io, &refusal);
        }
        let request = request_of(io.get(), self.allowance(io.get()));
        let future = self.device.start(io);
        if future.has_ended() {
            future
        } else {
            future.with_deadline(self.watch.deadline_of(request))
        }
    }

    fn stats(&self) -> DeviceStats {
        let mut stats = self.device.stats();
        let (given_up, refused) = self.watch.counts();
        stats.failed_requests += given_up + refused;
        stats.shed_requests += refused;
        let stalled = self.watch.stalled_for().map_or(0, |time| time.as_millis().max(1));
        stats.stalled_ms = u64::try_from(stalled).unwrap_or(u64::MAX);
        stats
    }

    fn boot(&self) -> Option<u64> {
        self.device.boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.device.stored_at(range)
    }
}

fn request_of(io: &Io, allowance: Duration) -> WatchedRequest {
    let (verb, offset, bytes) = io.extent();
    let changes = matches!(io, Io::Write { .. } | Io::Deallocate { .. } | Io::WriteZeroes { .. });
    WatchedRequest { verb, range: offset..offset + bytes, changes, allowance }
}

#[cfg(test)]
mod tests;
