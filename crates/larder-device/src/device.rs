//! The device trait, and where the bytes of a device are stored.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Io, IoFuture};

/// Distinguishes a device from all others that this process ever has, even from one that later lies at the same memory
/// address: a request that was given up may outlive its device, and a claim with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceIdentity(u64);

impl DeviceIdentity {
    /// A new identity, which no other device has.
    pub fn draw() -> Self {
        static DRAWN: AtomicU64 = AtomicU64::new(0);
        Self(DRAWN.fetch_add(1, Ordering::Relaxed))
    }
}

/// Where bytes of a device are finally stored. Two extents that overlap have bytes in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    device: Storing,
    range: Range<u64>,
}

/// The device that stores bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Storing {
    Identity(DeviceIdentity),
    /// The device's memory address, for a device that outlives all its requests.
    At(usize),
}

impl Extent {
    /// The addresses `range` of the device with `identity`, which stores them itself.
    pub fn on(identity: DeviceIdentity, range: Range<u64>) -> Self {
        Self { device: Storing::Identity(identity), range }
    }

    /// The addresses `range` of `device`, which stores them itself and outlives all its requests. It is identified by
    /// its memory address. A device whose requests may outlive it needs an identity instead ([`Extent::on`]).
    pub fn of<D: Device + ?Sized>(device: &D, range: Range<u64>) -> Self {
        Self { device: Storing::At(std::ptr::from_ref(device).cast::<()>().addr()), range }
    }

    /// The bytes of the device.
    pub(crate) fn range(&self) -> &Range<u64> {
        &self.range
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.device == other.device
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}

/// A storage device. Used as `dyn`: a virtual call costs nothing compared to a flash read.
pub trait Device: Send + Sync {
    /// The device's information.
    fn info(&self) -> &DeviceInfo;

    /// Starts `io`, whose bounds, alignment and handle have been checked. Called by [`Device::submit`]; a wrapper
    /// passes on the request that it was given.
    fn start(&self, io: CheckedIo) -> IoFuture;

    /// Counters since the device was opened.
    fn stats(&self) -> DeviceStats;

    /// Identifies the period in which completed writes certainly survive. It changes when writes that had completed but
    /// were not flushed may have been lost: with every boot of the computer, or a loss of the device's power. `None` if
    /// unknown.
    fn boot(&self) -> Option<u64> {
        None
    }

    /// Where the bytes of `range`, which is not empty, are finally stored. A device over others returns what they
    /// report for their parts of it, so that [`Claim`](crate::Claim) detects two devices with bytes in common. A device
    /// that stores bytes itself, and whose requests may outlive it, names them by its own
    /// [`DeviceIdentity`].
    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        vec![Extent::of(self, range)]
    }

    /// Checks `io` and starts it. If the future is dropped, the request continues and its memory stays alive until it
    /// ends.
    fn submit(&self, io: Io) -> IoFuture {
        match io.check(self.info()) {
            Ok(checked) => self.start(checked),
            Err(failure) => IoFuture::ready(Err(failure)),
        }
    }
}

impl<D: Device + ?Sized> Device for Arc<D> {
    fn info(&self) -> &DeviceInfo {
        (**self).info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        (**self).start(io)
    }

    fn stats(&self) -> DeviceStats {
        (**self).stats()
    }

    fn boot(&self) -> Option<u64> {
        (**self).boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        (**self).stored_at(range)
    }
}
