//! A share of a device's time for each of its tenants: limits in bytes and requests per second, then weighted deficit
//! round robin over what waits.
//!
//! ```text
//!   tenant 0: limits ─► queue ─┐
//!   tenant 1: limits ─► queue ─┼─ deficit round robin ─► at most `depth` requests in flight ─► device
//!   tenant 2: limits ─► queue ─┘
//! ```
//!
//! A drive that maps pages itself has no dies to give, and does not say how long a request takes. So a request is
//! charged its bytes and [`REQUEST_BYTES`], which stand for its command and its page. A tenant without requests earns
//! no credit, and the others get all of the device.
//!
//! Invariants: at most `depth` requests are in flight; none waits for a turn while fewer are; a flush waits for
//! nothing.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use larder_device::{
    CheckedIo, Clock, Completer, Device, DeviceInfo, DeviceStats, Extent, Io, IoBuffer, IoFuture,
    steps,
};
use larder_vssd::share::{DeficitQueue, TokenBucket};

/// Charged for each request in addition to its bytes.
pub const REQUEST_BYTES: u64 = 16 << 10;
/// A turn of weight 1 is worth this number of bytes.
const QUANTUM_BYTES: u64 = 64 << 10;
/// An idle tenant saves up this much of its limits.
const BURST: Duration = Duration::from_millis(100);

/// The share of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceShare {
    /// Share of the device's time, relative to other tenants that want it; 1 to 1000.
    pub weight: u32,
    /// Most bytes a second that it reads and writes; `None`: no limit.
    pub bytes_per_second: Option<u64>,
    /// Most requests a second; `None`: no limit.
    pub requests_per_second: Option<u64>,
}

impl Default for DeviceShare {
    fn default() -> Self {
        Self { weight: 1, bytes_per_second: None, requests_per_second: None }
    }
}

/// The tenants of a device, whose requests share its time. Clones are the same tenants.
///
/// ```
/// use std::sync::Arc;
/// use larder_blocks::isolation::{DeviceShare, DeviceSharing};
/// use larder_device::{Device, Io, IoBuffer, MemoryDevice, RealClock};
///
/// let device: Arc<dyn Device> = Arc::new(MemoryDevice::holding(vec![7; 1 << 20]));
/// let shares = [DeviceShare { weight: 3, ..DeviceShare::default() }, DeviceShare::default()];
/// let sharing = DeviceSharing::new(&shares, 32, Arc::new(RealClock));
/// let photos = sharing.device_of(0, device);
/// let read = photos.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) });
/// assert_eq!(read.wait().unwrap().as_slice()[0], 7);
/// ```
#[derive(Clone)]
pub struct DeviceSharing(Arc<Sharing>);

struct Sharing {
    clock: Arc<dyn Clock>,
    depth: u32,
    state: Mutex<SharingState>,
}

struct SharingState {
    waiting: DeficitQueue<Completer>,
    in_flight: u32,
    tenants: Vec<TenantShare>,
}

#[derive(Default)]
struct TenantShare {
    bytes: Option<TokenBucket>,
    requests: Option<TokenBucket>,
    delayed_requests: u64,
    delayed: Duration,
}

/// A device as one of its tenants has it.
pub struct SharedDevice {
    sharing: DeviceSharing,
    tenant: usize,
    device: Arc<dyn Device>,
}

/// A request in flight.
struct Place(Arc<Sharing>);

impl fmt::Debug for DeviceSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceSharing").field("depth", &self.0.depth).finish_non_exhaustive()
    }
}

impl DeviceSharing {
    /// Tenants with these shares, whose requests are in flight at most `depth` at a time, all together. Limits count
    /// by the monotonic time of `clock`.
    ///
    /// # Panics
    /// If `depth` or a weight is 0.
    pub fn new(shares: &[DeviceShare], depth: u32, clock: Arc<dyn Clock>) -> Self {
        assert!(depth > 0, "a device has at least one request in flight");
        let weights: Vec<u32> = shares.iter().map(|share| share.weight).collect();
        let bucket = |rate: u64| TokenBucket::lasting(rate, BURST);
        let tenant = |share: &DeviceShare| TenantShare {
            bytes: share.bytes_per_second.map(bucket),
            requests: share.requests_per_second.map(bucket),
            ..TenantShare::default()
        };
        let state = SharingState {
            waiting: DeficitQueue::new(&weights, QUANTUM_BYTES),
            in_flight: 0,
            tenants: shares.iter().map(tenant).collect(),
        };
        Self(Arc::new(Sharing { clock, depth, state: Mutex::new(state) }))
    }

    /// `device`, or a part of it, as the tenant at position `tenant` of the shares has it.
    ///
    /// # Panics
    /// If there is no such tenant.
    pub fn device_of(&self, tenant: usize, device: Arc<dyn Device>) -> SharedDevice {
        assert!(tenant < self.0.lock().tenants.len(), "tenant {tenant} has a share");
        SharedDevice { sharing: self.clone(), tenant, device }
    }
}

impl Sharing {
    fn lock(&self) -> MutexGuard<'_, SharingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the limits of a tenant let a request of `bytes` begin that comes at `now`.
    fn admitted_at(&self, tenant: usize, bytes: u64, now: Duration) -> Duration {
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let limits = &mut self.lock().tenants[tenant];
        let bytes = limits.bytes.as_mut().map(|bucket| bucket.take(now_ns, bytes));
        let requests = limits.requests.as_mut().map(|bucket| bucket.take(now_ns, 1));
        bytes.max(requests).map_or(now, Duration::from_nanos)
    }

    /// Waits for a tenant's turn. Returns whether it did not come at once, too.
    async fn turn(self: Arc<Self>, tenant: usize, cost: u64) -> (Place, bool) {
        let (mut turn, completer) = IoFuture::pending();
        self.lock().waiting.push(tenant, cost, completer);
        self.begin_due();
        let has_come = poll_fn(|cx| Poll::Ready(Pin::new(&mut turn).poll(cx).is_ready())).await;
        if !has_come {
            // It cannot fail: only `begin_due` completes it.
            let _ = turn.await;
        }
        (Place(self), !has_come)
    }

    /// Lets requests begin while there is room.
    fn begin_due(&self) {
        loop {
            let mut state = self.lock();
            if state.in_flight >= self.depth {
                return;
            }
            let Some((_, completer)) = state.waiting.pop() else { return };
            state.in_flight += 1;
            // The request that begins may end at once and come back here.
            drop(state);
            completer.complete(Ok(IoBuffer::empty()));
        }
    }

    fn count_delay(&self, tenant: usize, delay: Duration) {
        let tenant = &mut self.lock().tenants[tenant];
        tenant.delayed_requests += 1;
        tenant.delayed += delay;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
        self.0.begin_due();
    }
}

impl Device for SharedDevice {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let io = io.into_inner();
        if matches!(io, Io::Flush) {
            return self.device.submit(io);
        }
        let bytes = match &io {
            Io::Read { buffer, .. } | Io::Write { buffer, .. } => buffer.len() as u64,
            _ => 0,
        };
        let (sharing, device) = (Arc::clone(&self.sharing.0), Arc::clone(&self.device));
        let tenant = self.tenant;
        steps::request(async move {
            let came = sharing.clock.monotonic();
            let at = sharing.admitted_at(tenant, bytes, came);
            if at > came {
                sharing.clock.sleep_until(at).await;
            }
            let (place, waited) = Arc::clone(&sharing).turn(tenant, bytes + REQUEST_BYTES).await;
            if waited || at > came {
                sharing.count_delay(tenant, sharing.clock.monotonic().saturating_sub(came));
            }
            let ended = device.submit(io).await;
            drop(place);
            ended
        })
    }

    fn stats(&self) -> DeviceStats {
        let mut stats = self.device.stats();
        let tenant = &self.sharing.0.lock().tenants[self.tenant];
        stats.delayed_requests += tenant.delayed_requests;
        stats.delayed_ns += u64::try_from(tenant.delayed.as_nanos()).unwrap_or(u64::MAX);
        stats
    }

    fn boot(&self) -> Option<u64> {
        self.device.boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.device.stored_at(range)
    }
}
