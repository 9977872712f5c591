//! A device whose requests wait until a test lets them go.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::device::{Device, Extent};
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, Completer, Io, IoFuture};

/// How long a test waits for requests before it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// A device around `D` on which chosen requests wait until [`HeldDevice::let_go`]. The others pass at once.
///
/// ```
/// use larder_device::{Device, HeldDevice, Io, MemoryDevice};
///
/// let device = HeldDevice::new(MemoryDevice::holding(vec![0; 1 << 20]));
/// device.hold(|io| matches!(io, Io::Flush));
/// let flush = device.submit(Io::Flush);
/// assert_eq!(device.waiting(), 1);
/// device.let_go();
/// assert!(flush.wait().is_ok());
/// ```
pub struct HeldDevice<D> {
    inner: D,
    held: Mutex<HeldRequests>,
    /// Wakes those that wait for a number of held requests.
    changed: Condvar,
}

struct HeldRequests {
    waits: fn(&Io) -> bool,
    /// In order of submission.
    waiting: VecDeque<(CheckedIo, Completer)>,
}

impl<D: Device> HeldDevice<D> {
    /// `inner`, on which no request waits.
    pub fn new(inner: D) -> Self {
        let held = HeldRequests { waits: |_| false, waiting: VecDeque::new() };
        Self { inner, held: Mutex::new(held), changed: Condvar::new() }
    }

    /// Requests wait from now on if `waits` returns true. Those that wait already go on waiting.
    pub fn hold(&self, waits: fn(&Io) -> bool) {
        self.lock().waits = waits;
    }

    /// The number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Waits until `count` requests wait.
    ///
    /// # Panics
    /// After 10 s with another number.
    #[track_caller]
    pub fn wait_for(&self, count: usize) {
        let other = |held: &mut HeldRequests| held.waiting.len() != count;
        let held = self.changed.wait_timeout_while(self.lock(), PATIENCE, other);
        let (held, _) = held.unwrap_or_else(PoisonError::into_inner);
        assert_eq!(held.waiting.len(), count, "requests that wait, after {PATIENCE:?}");
    }

    /// Carries out the request that has waited longest.
    ///
    /// # Panics
    /// If none waits.
    #[track_caller]
    pub fn let_go(&self) {
        let first = self.lock().waiting.pop_front();
        self.changed.notify_all();
        let (io, completer) = first.expect("a request waits");
        completer.complete(self.inner.start(io).wait());
    }

    /// The device below.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn lock(&self) -> MutexGuard<'_, HeldRequests> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Device for HeldDevice<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut held = self.lock();
        if !(held.waits)(io.get()) {
            drop(held);
            return self.inner.start(io);
        }
        let (future, completer) = IoFuture::pending();
        held.waiting.push_back((io, completer));
        self.changed.notify_all();
        future
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

impl<D: Device> fmt::Debug for HeldDevice<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldDevice")
            .field("info", self.info())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
