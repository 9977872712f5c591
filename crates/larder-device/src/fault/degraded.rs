//! A device that works, fails or is slow, and can be switched from one request to the next.
//!
//! Requests that pass go to the device below unchanged: many are in flight at once, and take as long as they take
//! there. So under virtual time latency and throughput keep their meaning. Those of a
//! [`FaultDevice`](super::FaultDevice) do not, because it carries out one request after the other.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::device::Device;
use crate::device::Extent;
use crate::error::{Error, ErrorKind};
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, IoFuture};
use crate::steps;

/// State of a [`DegradedDevice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// Like the device below.
    #[default]
    Well,
    /// Every request fails at once with [`ErrorKind::Gone`], and is not carried out.
    Gone,
    /// Every request fails at once with [`ErrorKind::Io`], and is not carried out.
    Failing,
    /// Each request takes this number of times as long as on the device below, at least 1. The device below carries it
    /// out at once. Where time is virtual, the caller must move the clock: waiting for the request does not.
    Slower(u32),
}

/// A device around `D` that behaves as its current [`Condition`] says. Requests that were sent before a change continue
/// as they began.
///
/// ```
/// use std::sync::Arc;
/// use larder_device::{Condition, DegradedDevice, Device, ErrorKind, Io, IoBuffer, MemoryDevice, RealClock};
///
/// let device = DegradedDevice::new(MemoryDevice::holding(vec![7; 1 << 20]), Arc::new(RealClock));
/// let read = || device.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) }).wait();
/// assert_eq!(read().unwrap().as_slice()[0], 7);
/// device.becomes(Condition::Gone);
/// assert_eq!(read().unwrap_err().error.kind(), ErrorKind::Gone);
/// device.becomes(Condition::Well);
/// assert!(read().is_ok());
/// ```
pub struct DegradedDevice<D> {
    inner: D,
    clock: Arc<dyn Clock>,
    condition: Mutex<Condition>,
}

impl<D: Device> DegradedDevice<D> {
    /// `inner`, in condition [`Condition::Well`]. Delays use the monotonic time of `clock`.
    pub fn new(inner: D, clock: Arc<dyn Clock>) -> Self {
        Self { inner, clock, condition: Mutex::default() }
    }

    /// Sets the condition for all requests from the next one on.
    pub fn becomes(&self, condition: Condition) {
        *self.condition.lock().unwrap_or_else(PoisonError::into_inner) = condition;
    }

    /// The current condition.
    pub fn condition(&self) -> Condition {
        *self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device below.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn refuse(&self, kind: ErrorKind, io: CheckedIo) -> IoFuture {
        let (verb, offset, bytes) = io.get().extent();
        let name = &self.info().name;
        let context = format!("{verb} of {bytes} bytes at {offset} on {name}: failed (injected)");
        io.fail(Error::new(kind, context))
    }

    fn start_slower(&self, times: u32, io: CheckedIo) -> IoFuture {
        let clock = Arc::clone(&self.clock);
        let begun = clock.monotonic();
        let request = self.inner.start(io);
        steps::request(async move {
            let result = request.await;
            let now = clock.monotonic();
            let more = now.saturating_sub(begun).saturating_mul(times.saturating_sub(1));
            clock.sleep_until(now.saturating_add(more)).await;
            result
        })
    }
}

impl<D: Device> Device for DegradedDevice<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        match self.condition() {
            Condition::Well => self.inner.start(io),
            Condition::Gone => self.refuse(ErrorKind::Gone, io),
            Condition::Failing => self.refuse(ErrorKind::Io, io),
            Condition::Slower(times) => self.start_slower(times, io),
        }
    }

    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }

    fn boot(&self) -> Option<u64> {
        self.inner.boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.inner.stored_at(range)
    }
}

impl<D: Device> fmt::Debug for DegradedDevice<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DegradedDevice")
            .field("info", self.info())
            .field("condition", &self.condition())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::buffer::IoBuffer;
    use crate::clock::VirtualClock;
    use crate::io::Io;
    use crate::model::Payload;
    use crate::model::virtual_time::{ShapedStorage, VirtualTimeDevice, shapes};

    #[test]
    fn concurrent_requests_each_take_the_given_multiple_of_the_time() {
        let clock = Arc::new(VirtualClock::default());
        let storage = ShapedStorage::new(shapes::NVME_TLC, 1 << 20).unwrap();
        let inner = VirtualTimeDevice::new(storage, Payload::Memory, Arc::clone(&clock)).unwrap();
        let device = DegradedDevice::new(inner, Arc::clone(&clock) as _);
        let takes = |condition| {
            device.becomes(condition);
            let begun = clock.monotonic();
            let read = |number: u64| {
                device.submit(Io::Read { offset: number * 4096, buffer: IoBuffer::zeroed(4096) })
            };
            let reads: Vec<IoFuture> = (0..8).map(read).collect();
            let mut last = begun;
            while clock.advance_to_next().is_some() {
                last = clock.monotonic();
            }
            let all = reads.into_iter().map(IoFuture::wait).collect::<Result<Vec<_>, _>>();
            (last - begun, all.map(|_| ()).map_err(|failure| failure.error.kind()))
        };
        let (well, done) = takes(Condition::Well);
        assert!(done.is_ok() && well < Duration::from_micros(2 * 80), "{well:?}");
        assert_eq!(takes(Condition::Slower(100)), (well * 100, Ok(())));
        assert_eq!(takes(Condition::Failing), (Duration::ZERO, Err(ErrorKind::Io)));
        assert_eq!(takes(Condition::Gone), (Duration::ZERO, Err(ErrorKind::Gone)));
        assert_eq!(takes(Condition::Well), (well, Ok(())));
    }
}
