//! Devices under virtual time: a request ends when a model says so, by a [`VirtualClock`] that nobody waits for.
//!
//! A [`TimingModel`] is asked once a request, as it comes, and says when it ends; the end is noted in the clock's
//! agenda, and whoever moves the clock there completes it. So as one thread moves the clock on, ends come in the order
//! of virtual time, those of the same time in the order of their requests, and a run is a function of its requests. An
//! hour of a busy drive takes as long as what is computed in it.
//!
//! | module | what it is |
//! |---|---|
//! | [`ssd`] | the SSD model with dies, channels and garbage collection ([`larder_ssd::timed`]) |
//! | [`shape`] | storage by a handful of numbers: latency, bandwidth, parallelism, flush, seek |
//! | [`shapes`] | such numbers for persistent memory, Optane, NVMe and SATA SSDs and a disk |
//!
//! Who moves the clock? An executor that finds that no task can go on (`larder_sim::executor`); or, for plain
//! code, the thread that waits: [`block_on`](crate::block_on) and [`IoFuture::wait`] do it themselves.
//!
//! Rules, which the device asserts:
//!
//! 1. Requests come to the model in the order of the clock, which never goes back under a device.
//! 2. None ends before it came.
//! 3. What a request does to the bytes happens as it comes, in the order in which requests come; only its end is
//!    later. A read therefore sees every write that came before it, acknowledged or not.
//! 4. A future that is dropped changes nothing: the request ends when it would have.

pub mod shape;
pub mod shapes;
pub mod ssd;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::claim::{DeviceIdentity, Extent};
use crate::clock::{Clock, VirtualClock};
use crate::device::{Device, DeviceInfo, DeviceStats};
use crate::error::Error;
use crate::io::{CheckedIo, Io, IoFuture};

use super::counts::{self, Counts};
use super::payload::{Contents, Payload};
pub use shape::{Shape, ShapedStorage};
pub use ssd::SsdTiming;

/// A moment of virtual time, in nanoseconds of the clock's monotonic time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Moment(u64);

impl Moment {
    /// So many nanoseconds after the clock's zero.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// So many nanoseconds later.
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

/// Says when requests end. It is a function of the requests that it was asked for: it has no clock, no thread and no
/// chance of its own.
pub trait TimingModel: Send {
    /// What a device with this model says of itself.
    fn info(&self) -> DeviceInfo;

    /// Takes in `io`, which comes at `now`, not before any that was taken in earlier. Returns when it ends, not
    /// before `now`. The bytes are none of its business.
    ///
    /// # Errors
    /// What the model refuses; the request fails at `now`, and its bytes stay as they were.
    fn serve(&mut self, now: Moment, io: &Io) -> Result<Moment, larder_ssd::Error>;

    /// What the model has counted, for the device's counters: bytes written, by handle, to media. Bytes read and
    /// deallocated and failed requests the device counts itself.
    fn stats(&self) -> DeviceStats;
}

/// A device whose requests take as long as a model says, by a virtual clock. Bytes are kept as [`ModelDevice`] keeps
/// them.
///
/// [`ModelDevice`]: crate::ModelDevice
///
/// # Examples
/// A fresh enterprise SSD: a write is done when it is in the drive's buffer, a read of it takes as long as flash does.
/// Nobody waits in real time: the thread that waits moves the clock.
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
    state: Mutex<State<M>>,
}

struct State<M> {
    model: M,
    contents: Contents,
    counts: Counts,
    /// When the latest request came.
    latest: Moment,
    /// Requests that have come and not ended.
    under_way: Arc<AtomicU64>,
}

impl<M: TimingModel> VirtualTimeDevice<M> {
    /// A device as `model` has it, under `clock`.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`](crate::ErrorKind::Setup) if its payload does not fit the address space.
    pub fn new(model: M, payload: Payload, clock: Arc<VirtualClock>) -> Result<Self, Error> {
        let info = model.info();
        let contents = Contents::checked(payload, info.capacity_bytes)?;
        let (counts, latest, under_way) = Default::default();
        let state = State { model, contents, counts, latest, under_way };
        let identity = DeviceIdentity::draw();
        Ok(Self { info, identity, clock, state: Mutex::new(state) })
    }

    /// Looks at the model. No request proceeds while `look` runs.
    pub fn with_model<R>(&self, look: impl FnOnce(&M) -> R) -> R {
        look(&self.lock().model)
    }

    /// The clock that its requests end by.
    pub fn clock(&self) -> &Arc<VirtualClock> {
        &self.clock
    }

    /// Requests that have come and not ended.
    pub fn under_way(&self) -> u64 {
        self.lock().under_way.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: TimingModel> State<M> {
    /// Takes a request in, bytes and all. Returns when it ends.
    ///
    /// # Panics
    /// If the clock was set back: requests would come out of order. If the model ends it before it came.
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
        // Under the lock: who comes first has the earlier time.
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
        // The event owns the result: nobody has to wait for it.
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

    /// Its power never fails; whoever wants that wraps it in a [`FaultDevice`](crate::FaultDevice).
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
