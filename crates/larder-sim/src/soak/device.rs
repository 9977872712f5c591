//! A device whose requests end when the simulation decides: each is delayed by a seeded amount of virtual time, and may
//! overtake others or be overtaken.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_device::{
    CheckedIo, Completer, Device, DeviceInfo, DeviceStats, Error, ErrorKind, Extent, FaultDevice,
    FaultPlan, Io, IoBuffer, IoFailure, IoFuture, IoResult, ModelDevice,
};

/// Durations of requests, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delays {
    /// Most take up to this.
    pub(super) usual_ns: u64,
    /// One in this many takes a thousand times as long.
    pub(super) slow_one_in: u32,
}

/// How a device fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    /// Every request fails, as if the cable were pulled.
    Gone,
    /// Every write fails, as if there were no room.
    Full,
    /// No request ends.
    Silent,
}

/// Requests that would end later than this belong to a silent device.
const NEVER_NS: u64 = 1 << 62;

/// The SSD model with faults, whose completions the simulation releases.
pub(super) struct StagedDevice {
    inner: FaultDevice<ModelDevice>,
    info: DeviceInfo,
    stage: Mutex<Stage>,
}

struct Stage {
    /// By the nanosecond at which they end, and then by number.
    held: BTreeMap<(u64, u64), Held>,
    number: u64,
    now_ns: u64,
    rng: fastrand::Rng,
    delays: Delays,
    outage: Option<Outage>,
    refused: u64,
}

enum Held {
    /// Is executed when it is released.
    Request(CheckedIo, Completer),
    /// Was started, and may have been executed. When it is released, the drive is told that it has completed, and the
    /// caller gets the result.
    Begun(IoFuture, Completer),
    /// Has ended; the caller gets the result when it is released.
    Result(IoResult, Completer),
    /// Is executed elsewhere when it is released.
    Elsewhere(Box<dyn FnOnce() -> IoResult + Send>, Completer),
}

impl StagedDevice {
    /// A drive with this name.
    pub(super) fn new(
        (name, model): (String, ModelDevice),
        plan: &FaultPlan,
        delays: Delays,
        seed: u64,
    ) -> Self {
        let stage = Stage {
            held: BTreeMap::new(),
            number: 0,
            now_ns: 0,
            rng: fastrand::Rng::with_seed(seed),
            delays,
            outage: None,
            refused: 0,
        };
        let inner = FaultDevice::new(model, plan);
        let info = DeviceInfo { name, ..inner.info().clone() };
        Self { inner, info, stage: Mutex::new(stage) }
    }

    pub(super) fn faults(&self) -> &FaultDevice<ModelDevice> {
        &self.inner
    }

    /// Requests in flight.
    pub(super) fn held(&self) -> usize {
        self.lock().held.len()
    }

    /// Requests that an outage has refused.
    pub(super) fn refused(&self) -> u64 {
        self.lock().refused
    }

    /// Requests that have failed, for any reason.
    pub(super) fn failed(&self) -> u64 {
        let counts = self.inner.counts();
        self.refused() + counts.errors + counts.torn_writes
    }

    /// Sets the outage. When a silent outage ends, the held requests continue.
    pub(super) fn set_outage(&self, outage: Option<Outage>) {
        let mut stage = self.lock();
        stage.outage = outage;
        if outage != Some(Outage::Silent) {
            let silenced = stage.held.split_off(&(NEVER_NS, 0));
            for held in silenced.into_values() {
                let due = stage.due();
                stage.held.insert(due, held);
            }
        }
    }

    /// Sets the durations of requests from now on.
    pub(super) fn set_delays(&self, delays: Delays) {
        self.lock().delays = delays;
    }

    pub(super) fn advance_to(&self, now_ns: u64) {
        self.lock().now_ns = now_ns;
    }

    /// A request to another system, for callers that fetch what the cache misses: it takes as long as a request to the
    /// device.
    pub(super) fn elsewhere(&self) -> IoFuture {
        self.hold_as(|completer| Held::Result(Ok(IoBuffer::empty()), completer))
    }

    /// A request to another system that is executed when it ends.
    pub(super) fn hold(&self, request: impl FnOnce() -> IoResult + Send + 'static) -> IoFuture {
        self.hold_as(|completer| Held::Elsewhere(Box::new(request), completer))
    }

    /// The same for one that was started, and may have been executed.
    pub(super) fn hold_begun(&self, request: IoFuture) -> IoFuture {
        self.hold_as(|completer| Held::Begun(request, completer))
    }

    fn hold_as(&self, held: impl FnOnce(Completer) -> Held) -> IoFuture {
        let mut stage = self.lock();
        let due = stage.due();
        let (future, completer) = IoFuture::pending();
        stage.held.insert(due, held(completer));
        future
    }

    /// Draws yes or no.
    pub(super) fn draws(&self) -> bool {
        self.lock().rng.bool()
    }

    /// When the next request ends.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let due_ns = self.lock().held.keys().next().map(|(due_ns, _)| *due_ns);
        due_ns.filter(|due_ns| *due_ns < NEVER_NS)
    }

    /// Releases the next request.
    pub(super) fn release_next(&self) {
        if self.next_due_ns().is_none() {
            return;
        }
        let Some((_, held)) = self.lock().held.pop_first() else { return };
        match held {
            Held::Request(io, completer) => completer.complete(self.inner.start(io).wait()),
            Held::Begun(request, completer) => completer.complete(request.wait()),
            Held::Result(result, completer) => completer.complete(result),
            Held::Elsewhere(request, completer) => completer.complete(request()),
        }
    }

    /// The computer stops while requests are in flight: some of those not executed yet still are. No caller may be
    /// waiting any more.
    pub(super) fn cut(&self) {
        let held = std::mem::take(&mut self.lock().held);
        for held in held.into_values() {
            // The callers are gone.
            let _unheard = match held {
                Held::Request(io, _) if self.draws() => Some(self.inner.start(io).wait()),
                Held::Elsewhere(request, _) if self.draws() => Some(request()),
                _ => None,
            };
        }
        // The drive continues.
        self.inner.release_delayed();
    }

    /// The drive loses power, and with it all data that is not durable. Requests not executed yet are in flight: any
    /// part of them may be done.
    pub(super) fn lose_power(&self) -> Result<(), Error> {
        let held = std::mem::take(&mut self.lock().held);
        let under_way = held.into_values().filter_map(|held| match held {
            Held::Request(io, _unheard) => Some(io),
            Held::Begun(..) | Held::Result(..) | Held::Elsewhere(..) => None,
        });
        self.inner.crash_during(under_way.collect())?;
        self.inner.restart()
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stage {
    fn refusal(&mut self, io: &Io) -> Option<Error> {
        let kind = match (self.outage?, io) {
            (Outage::Gone, _) => ErrorKind::Gone,
            (Outage::Full, Io::Write { .. } | Io::WriteZeroes { .. }) => ErrorKind::NoSpace,
            (Outage::Full | Outage::Silent, _) => return None,
        };
        self.refused += 1;
        Some(Error::new(kind, format!("{}: refused (simulated outage)", io.extent().0)))
    }

    fn due(&mut self) -> (u64, u64) {
        self.number += 1;
        let mut delay_ns = self.rng.u64(1..=self.delays.usual_ns);
        if self.rng.u32(..self.delays.slow_one_in) == 0 {
            delay_ns *= 1000;
        }
        match self.outage {
            Some(Outage::Silent) => (NEVER_NS, self.number),
            _ => (self.now_ns + delay_ns, self.number),
        }
    }
}

impl Device for StagedDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut stage = self.lock();
        let due = stage.due();
        let (future, completer) = IoFuture::pending();
        let held = if let Some(error) = stage.refusal(io.get()) {
            let buffer = io.into_inner().into_buffer();
            Held::Result(Err(IoFailure { error, buffer }), completer)
        } else if stage.rng.bool() || matches!(io.get(), Io::Flush) {
            // A flush need not cover later writes. It may take effect at any time between submission and completion:
            // here immediately, unless the drive delays it.
            Held::Begun(self.inner.start(io), completer)
        } else {
            Held::Request(io, completer)
        };
        stage.held.insert(due, held);
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
