//! A device that misbehaves according to a plan, around any other device.
//!
//! | file | content |
//! |---|---|
//! | `plan` | what happens when |
//! | `inject` | the faults of a plan |
//! | `volatile` | writes that a crash may undo |
//! | `degraded` | a device that works, fails or is slow |
//! | `held` | a device whose requests wait until a test lets them go |

mod degraded;
mod held;
mod inject;
mod plan;
mod volatile;

use std::ops::Range;
use std::sync::Arc;

pub use degraded::{Condition, DegradedDevice};
pub use held::HeldDevice;
pub use plan::{Fault, FaultPlan, FaultRule};

use crate::device::Device;
use crate::device::Extent;
use crate::error::Error;
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, IoFuture};
use inject::{Down, Due, FaultCore, tell};
use plan::Injector;

/// Numbers of injected faults so far, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Failed requests.
    pub errors: u64,
    /// Requests that were carried out but reported as failed.
    pub failed_but_done: u64,
    /// Torn writes.
    pub torn_writes: u64,
    /// Lost writes.
    pub lost_writes: u64,
    /// Transfers with a flipped bit.
    pub bit_flips: u64,
    /// Delayed requests.
    pub delays: u64,
    /// Requests that were held back so that others overtake them.
    pub held_back: u64,
    /// Requests that stalled.
    pub stalls: u64,
    /// Crashes.
    pub crashes: u64,
    /// How often the device was pulled out: 0 or 1.
    pub gone: u64,
    /// Requests refused because the device was down.
    pub refused: u64,
    /// Unflushed writes that survived a crash.
    pub kept_by_crash: u64,
    /// Unflushed writes that a crash undid.
    pub lost_by_crash: u64,
    /// Unflushed writes of which a crash left only some sectors.
    pub torn_by_crash: u64,
}

/// A device around `D` that misbehaves as a [`FaultPlan`] says.
///
/// It carries requests out one at a time, and in the order of submission unless the plan says otherwise
/// ([`FaultPlan::completing_out_of_order`]), even if the device below could do more at once. So the same requests meet
/// the same faults, also over a device with threads of its own.
///
/// **Crash.** The request at which power is lost, and every later one, fails with
/// [`ErrorKind::Gone`](crate::ErrorKind::Gone) until [`FaultDevice::restart`]. Writes that had completed before the
/// last successful flush was submitted survive, and so does a completed write with
/// [`Durability::Power`](crate::Durability::Power). Of all other writes, including those in flight and delayed ones,
/// any subset of the 512-byte sectors survives (8-byte words on a device with smaller blocks). If several writes
/// touched a sector, any of their versions may survive. The choices are seeded. [`FaultPlan::volatile_cache`] and
/// [`FaultPlan::atomic_write_bytes`] describe better drives. Deallocations are not undone: what a deallocated range
/// reads as is unspecified anyway.
///
/// **Delay.** A delayed request is carried out late: requests that overtake it do not see its effect. A thread that
/// blocks on it ([`IoFuture::wait`]) ends the delay, because it will submit nothing further. An executor that has run
/// out of work must call [`FaultDevice::release_delayed`].
pub struct FaultDevice<D: Device + 'static> {
    core: Arc<FaultCore<D>>,
}

impl<D: Device + 'static> FaultDevice<D> {
    /// `inner`, misbehaving as `plan` says.
    pub fn new(inner: D, plan: &FaultPlan) -> Self {
        Self { core: Arc::new(FaultCore::new(inner, plan)) }
    }

    /// The device below. It holds the live image or, after a crash, the surviving one.
    pub fn inner(&self) -> &D {
        &self.core.inner
    }

    /// The number of injected faults so far.
    pub fn counts(&self) -> FaultCounts {
        self.core.lock().counts
    }

    /// Requests submitted so far, without refused ones. This is the number that [`FaultRule::at_io`] would give the
    /// next request.
    pub fn submissions(&self) -> u64 {
        self.core.lock().submissions
    }

    /// Whether the device has crashed or is gone.
    pub fn is_down(&self) -> bool {
        self.core.lock().down.is_some()
    }

    /// Replaces the plan, except for its settings on volatile writes. Counts of matches and the seed start again; the
    /// number of submissions continues.
    pub fn set_plan(&self, plan: &FaultPlan) {
        self.core.lock().injector = Injector::new(plan);
    }

    /// Carries out all delayed requests now.
    pub fn release_delayed(&self) {
        self.core.release(|_| true);
    }

    /// Loses power now, between two requests.
    ///
    /// # Errors
    /// The error of the device below while it was brought to the surviving image.
    pub fn crash(&self) -> Result<(), Error> {
        self.crash_during(Vec::new())
    }

    /// Loses power while the requests `under_way` are in flight; they never complete. Any subset of the sectors of a
    /// write survives, whatever its durability, and a flush covers nothing.
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

    /// Brings the device back after a crash, with the surviving image. The plan continues where it was. Does nothing if
    /// the device is up.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`](crate::ErrorKind::Gone) if the device was pulled out instead of crashed.
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
        let future = FaultCore::submit(&self.core, &mut state, io.into_inner(), &mut due);
        drop(state);
        tell(due);
        future
    }

    /// The inner device's counters, without the bytes that the fault device moved to keep and restore images, and with
    /// the failures that it injected. Media counters are the inner device's own.
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
