//! Devices under virtual time: a model says when a request ends, by a [`VirtualClock`] for which no thread waits in
//! real time.
//!
//! A [`TimingModel`] is asked once per request, when the request comes, and returns when it ends. The end becomes an
//! event of the clock, and the thread that moves the clock there completes the request. So if one thread moves the
//! clock, requests end in the order of virtual time, those of the same time in the order in which they came, and a run
//! is a function of its requests. An hour of a busy drive takes only as long as its computation.
//!
//! | module | content |
//! |---|---|
//! | [`ssd`] | the SSD model with dies, channels and garbage collection ([`larder_ssd::timed`]) |
//! | [`shape`] | storage described by a few numbers: latency, bandwidth, parallelism, flush, seek |
//! | [`shapes`] | such numbers for persistent memory, Optane, NVMe and SATA SSDs and a disk |
//!
//! The clock is moved by an executor that finds that no task can continue (`larder_sim::executor`) or, in plain code,
//! by the thread that waits: [`block_on`](crate::block_on) and [`IoFuture::wait`] do so themselves.
//!
//! Rules, which the device asserts:
//!
//! 1. Requests reach the model in the order of the clock, which never goes back under a device.
//! 2. No request ends before it came.
//! 3. A request takes effect on the bytes when it comes, in the order in which requests come; only its end is later. A
//!    read therefore sees every write that came before it, acknowledged or not.
//! 4. Dropping a future changes nothing: the request ends when it would have.

pub mod shape;
pub mod shapes;
pub mod ssd;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, VirtualClock};
use crate::device::{Device, DeviceIdentity, Extent};
use crate::error::Error;
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Io, IoFuture};

use super::counts::{self, ModelCounts};
use super::payload::{Contents, Payload};
pub use shape::{Shape, ShapedStorage};
pub use ssd::SsdTiming;

/// A moment of virtual time, in nanoseconds of the clock's monotonic time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment `nanoseconds` after the clock's zero.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `nanoseconds` later.
    #[must_use]
    pub const fn after(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }

    fn of(clock: &VirtualClock) -> Self {
        Self(u64::try_from(clock.monotonic().as_nanos()).unwrap_or(u64::MAX))
    }

    fn since_zero(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// Says when requests end. It depends only on the requests that it was given: it has no clock, no thread and no
/// randomness of its own.
pub trait TimingModel: Send {
    /// The information of a device with this model.
    fn info(&self) -> DeviceInfo;

    /// Takes in `io`, which comes at `now`, not before any earlier request. Returns when it ends, not before `now`. The
    /// model does not look at the bytes.
    ///
    /// # Errors
    /// The model's refusal. The request then fails at `now`, and its bytes stay as they were.
    fn serve(&mut self, now: Moment, io: &Io) -> Result<Moment, larder_ssd::Error>;

    /// Counters of the model, for the device's counters: bytes written, by handle, and to media. The device itself
    /// counts bytes read and deallocated and failed requests.
    fn stats(&self) -> DeviceStats;
}

/// A device whose requests take as long as a model says, by a virtual clock. It keeps bytes as [`ModelDevice`] does.
///
/// [`ModelDevice`]: crate::ModelDevice
///
/// # Examples
/// A fresh enterprise SSD: a write is done when it is in the drive's buffer, and a read takes as long as flash does. No
/// thread waits in real time: the thread that waits moves the clock.
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use larder_device::model::virtual_time::{SsdTiming, VirtualTimeDevice};
/// use larder_device::{Clock, Device, Io, IoBuffer, Payload, PlacementHandle, VirtualClock};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
/// use larder_ssd::timed::small;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let geometry = Geometry { logical_pages: 19_200, pages_per_unit: 192, units: 120 };
/// let model = SsdTiming::new(ManagedConfig::new(geometry), small())?;
/// let clock = Arc::new(VirtualClock::default());
/// let device = VirtualTimeDevice::new(model, Payload::Memory, Arc::clone(&clock))?;
///
/// let write = Io::write(0, IoBuffer::zeroed(192 << 10), PlacementHandle::new(1));
/// device.submit(write).wait()?;
/// let written = clock.now();
/// assert!(written < Duration::from_micros(100), "{written:?}");
/// device.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) }).wait()?;
/// let read = clock.now() - written;
/// assert!(read > Duration::from_micros(50), "{read:?}");
/// # Ok(())
/// # }
/// ```
pub struct VirtualTimeDevice<M> {
    info: DeviceInfo,
    identity: DeviceIdentity,
    clock: Arc<VirtualClock>,
    state: Mutex<VirtualTimeState<M>>,
}

struct VirtualTimeState<M> {
    model: M,
    contents: Contents,
    counts: ModelCounts,
    /// When the latest request came.
    latest: Moment,
    /// Number of requests that have come and not ended.
    under_way: Arc<AtomicU64>,
}

impl<M: TimingModel> VirtualTimeDevice<M> {
    /// A device with `model`, under `clock`.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](crate::ErrorKind::Setup) if its payload does not fit the address space.
    pub fn new(model: M, payload: Payload, clock: Arc<VirtualClock>) -> Result<Self, Error> {
        let info = model.info();
        let contents = Contents::checked(payload, info.capacity_bytes)?;
        let (counts, latest, under_way) = Default::default();
        let state = VirtualTimeState { model, contents, counts, latest, under_way };
        let identity = DeviceIdentity::draw();
        Ok(Self { info, identity, clock, state: Mutex::new(state) })
    }

    /// Gives access to the model. No request proceeds while `look` runs.
    pub fn with_model<R>(&self, look: impl FnOnce(&M) -> R) -> R {
        look(&self.lock().model)
    }

    /// The clock by which its requests end.
    pub fn clock(&self) -> &Arc<VirtualClock> {
        &self.clock
    }

    /// Number of requests that have come and not ended.
    pub fn under_way(&self) -> u64 {
        self.lock().under_way.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, VirtualTimeState<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: TimingModel> VirtualTimeState<M> {
    /// Takes a request in and moves its bytes. Returns when it ends.
    ///
    /// # Panics
    /// If the clock was set back, because requests would come out of order, or if the model ends the request before it
    /// came.
    fn take_in(&mut self, now: Moment, io: &mut Io) -> (Moment, Result<(), larder_ssd::Error>) {
        assert!(now >= self.latest, "{now:?} after {:?}: the clock went back", self.latest);
        self.latest = now;
        let served = self.model.serve(now, io);
        let (end, outcome) = match served {
            Ok(end) => (end, Ok(())),
            Err(error) => (now, Err(error)),
        };
        assert!(end >= now, "a request that came at {now:?} cannot end at {end:?}");
        if outcome.is_ok() {
            match io {
                Io::Read { offset, buffer } => self.contents.read_into(*offset, buffer),
                Io::Write { offset, buffer, .. } => self.contents.write_from(*offset, buffer),
                Io::Deallocate { offset, bytes } | Io::WriteZeroes { offset, bytes } => {
                    self.contents.clear(*offset, *bytes);
                }
                Io::Flush => {}
            }
        }
        self.counts.note(io, &outcome);
        self.under_way.fetch_add(1, Ordering::SeqCst);
        (end, outcome)
    }
}

impl<M: TimingModel> Device for VirtualTimeDevice<M> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut io = io.into_inner();
        let mut state = self.lock();
        // Read under the lock: the request that comes first gets the earlier time.
        let now = Moment::of(&self.clock);
        let (end, outcome) = state.take_in(now, &mut io);
        let under_way = Arc::clone(&state.under_way);
        drop(state);
        let result = match outcome {
            Ok(()) => Ok(io.into_buffer()),
            Err(error) => Err(counts::failure(&error, io, &self.info.name)),
        };
        let (future, completer) = IoFuture::pending();
        completer.driven_by(Arc::clone(&self.clock) as _);
        // The event owns the result, so that the request ends even if its future was dropped.
        self.clock.call_at(end.since_zero(), move || {
            let before = under_way.fetch_sub(1, Ordering::SeqCst);
            assert!(before > 0, "no request ends that has not come");
            completer.complete(result);
        });
        future
    }

    fn stats(&self) -> DeviceStats {
        let state = self.lock();
        let counted = state.counts.alone();
        DeviceStats {
            host_read_bytes: counted.host_read_bytes,
            deallocated_bytes: counted.deallocated_bytes,
            durable_written_bytes: counted.durable_written_bytes,
            zeroed_bytes: counted.zeroed_bytes,
            zeroes_written_bytes: counted.zeroes_written_bytes,
            failed_requests: counted.failed_requests,
            ..state.model.stats()
        }
    }

    /// It never loses power; for that, wrap it in a [`FaultDevice`](crate::FaultDevice).
    fn boot(&self) -> Option<u64> {
        Some(0)
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        vec![Extent::on(self.identity, range)]
    }
}

impl<M> fmt::Debug for VirtualTimeDevice<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualTimeDevice").field("info", &self.info).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
