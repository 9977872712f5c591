//! A device that misbehaves to plan, around any other.

mod degraded;
mod inject;
mod plan;
mod volatile;

use std::ops::Range;
use std::sync::Arc;

pub use degraded::{Condition, DegradedDevice};
pub use plan::{Fault, FaultPlan, FaultRule};

use crate::claim::Extent;
use crate::device::{Device, DeviceInfo, DeviceStats};
use crate::error::Error;
use crate::io::{CheckedIo, IoFuture};
use inject::{Core, Down, Due, tell};
use plan::Injector;

/// What was injected so far, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Requests failed.
    pub errors: u64,
    /// Requests reported as failed that were carried out.
    pub failed_but_done: u64,
    /// Writes torn.
    pub torn_writes: u64,
    /// Writes lost.
    pub lost_writes: u64,
    /// Transfers with a flipped bit.
    pub bit_flips: u64,
    /// Requests delayed.
    pub delays: u64,
    /// Requests that were held back so that others overtake them.
    pub held_back: u64,
    /// Requests that stalled.
    pub stalls: u64,
    /// Crashes.
    pub crashes: u64,
    /// Times that the device was pulled out: 0 or 1.
    pub gone: u64,
    /// Requests refused because the device was down.
    pub refused: u64,
    /// Unflushed writes that survived a crash.
    pub kept_by_crash: u64,
    /// Unflushed writes that a crash undid.
    pub lost_by_crash: u64,
    /// Unflushed writes of which a crash left some sectors.
    pub torn_by_crash: u64,
}

/// A device around `D` that does what a [`FaultPlan`] says.
///
/// It carries requests out one at a time, and in the order of submission unless the plan says otherwise
/// ([`FaultPlan::completing_out_of_order`]), whatever the device below could do at once: so the same requests meet the
/// same faults, also over a device with threads of its own.
///
/// **Crash.** The request at which power is lost, and everything after it, fails with
/// [`ErrorKind::Gone`](crate::ErrorKind::Gone) until [`FaultDevice::restart`]. Writes that had completed
/// before the last successful flush was submitted survive, and so does a write with
/// [`Durability::Power`](crate::Durability::Power) that has completed. Of all others, those under way and delayed ones
/// included, any subset of the sectors of 512 bytes survives (of a device with smaller blocks: of its words of 8
/// bytes), and where several touched a sector, any of their versions, by seeded choices. [`FaultPlan::volatile_cache`]
/// and [`FaultPlan::atomic_write_bytes`] are for better drives. Deallocations are not undone: what a deallocated range
/// reads as is unspecified anyway.
///
/// **Delay.** A delayed request is carried out late: those that overtake it do not see it. A thread
/// that blocks on it ([`IoFuture::wait`]) ends the delay, for it will submit nothing further. An
/// executor that has run out of work must call [`FaultDevice::release_delayed`].
pub struct FaultDevice<D: Device + 'static> {
    core: Arc<Core<D>>,
}

impl<D: Device + 'static> FaultDevice<D> {
    /// `inner`, misbehaving as `plan` says.
    pub fn new(inner: D, plan: &FaultPlan) -> Self {
        Self { core: Arc::new(Core::new(inner, plan)) }
    }

    /// The device below. It holds the live image, or after a crash the one that survived.
    pub fn inner(&self) -> &D {
        &self.core.inner
    }

    /// What was injected so far.
    pub fn counts(&self) -> FaultCounts {
        self.core.lock().counts
    }

    /// Requests submitted so far, refused ones excepted; the number that [`FaultRule::at_io`] would
    /// give the next one.
    pub fn submissions(&self) -> u64 {
        self.core.lock().submissions
    }

    /// Whether the device has crashed or is gone.
    pub fn is_down(&self) -> bool {
        self.core.lock().down.is_some()
    }

    /// Replaces the plan, but not what it says of volatile writes. Counting by match and chance
    /// start anew; submissions go on.
    pub fn set_plan(&self, plan: &FaultPlan) {
        self.core.lock().injector = Injector::new(plan);
    }

    /// Carries out everything delayed, now.
    pub fn release_delayed(&self) {
        self.core.release(|_| true);
    }

    /// Loses power now, between two requests.
    ///
    /// # Errors
    /// What the device below reported while it was brought to the surviving image.
    pub fn crash(&self) -> Result<(), Error> {
        self.crash_during(Vec::new())
    }

    /// Loses power while these are under way, of which nobody will hear: any subset of the sectors of a write
    /// survives, whatever its durability, and a flush covers nothing.
    ///
    /// # Errors
    /// As [`FaultDevice::crash`].
    pub fn crash_during(&self, under_way: Vec<CheckedIo>) -> Result<(), Error> {
        let mut due = Due::new();
        let mut state = self.core.lock();
        let outcome = match state.down {
            None => {
                for io in under_way {
                    let _unheard = self.core.strand(&mut state, io.into_inner());
                }
                self.core.go_down(&mut state, Down::Crashed, &mut due)
            }
            Some(_) => Ok(()),
        };
        drop(state);
        tell(due);
        outcome
    }

    /// Brings the device back after a crash, with the image that survived. The plan goes on where
    /// it was. A device that is up stays so.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`](crate::ErrorKind::Gone) if the device is not down by a crash but gone.
    pub fn restart(&self) -> Result<(), Error> {
        let mut state = self.core.lock();
        if state.down == Some(Down::Gone) {
            return Err(self.core.gone("restart"));
        }
        state.down = None;
        Ok(())
    }
}

impl<D: Device + 'static> std::fmt::Debug for FaultDevice<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultDevice").field("info", self.info()).finish_non_exhaustive()
    }
}

impl<D: Device + 'static> Device for FaultDevice<D> {
    fn info(&self) -> &DeviceInfo {
        &self.core.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut due = Due::new();
        let mut state = self.core.lock();
        let future = Core::submit(&self.core, &mut state, io.into_inner(), &mut due);
        drop(state);
        tell(due);
        future
    }

    /// The inner device's counters without what the fault device moved to keep and restore images,
    /// and with the failures that it injected. Media counters are the inner device's own.
    fn stats(&self) -> DeviceStats {
        let state = self.core.lock();
        let (own, counts) = (state.volatile.housekeeping, state.counts);
        let mut stats = self.core.inner.stats();
        stats.host_read_bytes = stats.host_read_bytes.saturating_sub(own.read_bytes);
        stats.host_written_bytes = stats.host_written_bytes.saturating_sub(own.written_bytes);
        if let Some(default) = stats.host_written_bytes_by_handle.first_mut() {
            *default = default.saturating_sub(own.written_bytes);
        }
        stats.failed_requests += counts.errors + counts.refused;
        stats
    }

    fn boot(&self) -> Option<u64> {
        let counts = self.core.lock().counts;
        Some(self.core.inner.boot()?.wrapping_add(counts.crashes + counts.gone))
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.core.inner.stored_at(range)
    }
}

impl<D: Device + 'static> Drop for FaultDevice<D> {
    fn drop(&mut self) {
        self.release_delayed();
    }
}
