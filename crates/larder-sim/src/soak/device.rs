//! A device whose requests end when the simulation says so: each is held back for a while of
//! virtual time, drawn by seed, and overtakes others or is overtaken.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_device::{
    CheckedIo, Completer, Device, DeviceInfo, DeviceStats, Error, ErrorKind, Extent, FaultDevice,
    FaultPlan, Io, IoBuffer, IoFailure, IoFuture, IoResult, ModelDevice,
};

/// How long requests take, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delays {
    /// Most take up to this.
    pub(super) usual_ns: u64,
    /// One in this many takes a thousand times as long.
    pub(super) slow_one_in: u32,
}

/// What a device that answers nothing says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    /// Every request fails: somebody has pulled the cable.
    Gone,
    /// Every write fails: there is no room.
    Full,
    /// No request ends.
    Silent,
}

/// Requests that end later than this are those of a device that answers nothing.
const NEVER_NS: u64 = 1 << 62;

/// The SSD model with faults, whose completions wait for the simulation.
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
    /// Happens when it is let go.
    Request(CheckedIo, Completer),
    /// Was begun, and may have happened; its owner is told when it is let go, and so is the drive that it has
    /// completed.
    Begun(IoFuture, Completer),
    /// Has ended; its owner is told when it is let go.
    Result(IoResult, Completer),
    /// Happens elsewhere when it is let go.
    Elsewhere(Box<dyn FnOnce() -> IoResult + Send>, Completer),
}

impl StagedDevice {
    /// A drive of this name.
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

    /// Requests under way.
    pub(super) fn held(&self) -> usize {
        self.lock().held.len()
    }

    /// Requests that an outage has refused.
    pub(super) fn refused(&self) -> u64 {
        self.lock().refused
    }

    /// Requests that have failed, for whatever reason.
    pub(super) fn failed(&self) -> u64 {
        let counts = self.inner.counts();
        self.refused() + counts.errors + counts.torn_writes
    }

    /// What was held back by an outage that ends goes on.
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

    /// How long requests take from now on.
    pub(super) fn set_delays(&self, delays: Delays) {
        self.lock().delays = delays;
    }

    pub(super) fn advance_to(&self, now_ns: u64) {
        self.lock().now_ns = now_ns;
    }

    /// A request to somebody else, for whoever fetches what the cache misses: it takes its time as
    /// the device's own do.
    pub(super) fn elsewhere(&self) -> IoFuture {
        self.hold_as(|completer| Held::Result(Ok(IoBuffer::empty()), completer))
    }

    /// A request to something else, which happens when it ends.
    pub(super) fn hold(&self, request: impl FnOnce() -> IoResult + Send + 'static) -> IoFuture {
        self.hold_as(|completer| Held::Elsewhere(Box::new(request), completer))
    }

    /// The same of one that was begun, and may have happened.
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

    /// Yes or no, by chance.
    pub(super) fn draws(&self) -> bool {
        self.lock().rng.bool()
    }

    /// When the next request ends.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let due_ns = self.lock().held.keys().next().map(|(due_ns, _)| *due_ns);
        due_ns.filter(|due_ns| *due_ns < NEVER_NS)
    }

    /// Lets the next request end.
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

    /// The computer stops while requests are under way: of those that have not happened yet, some
    /// still do. Nobody may be waiting any more.
    pub(super) fn cut(&self) {
        let held = std::mem::take(&mut self.lock().held);
        for held in held.into_values() {
            // Who asked for it is no more.
            let _unheard = match held {
                Held::Request(io, _) if self.draws() => Some(self.inner.start(io).wait()),
                Held::Elsewhere(request, _) if self.draws() => Some(request()),
                _ => None,
            };
        }
        // The drive goes on.
        self.inner.release_delayed();
    }

    /// The drive loses power, and with it what it has not made durable. What has not happened yet is under way:
    /// any part of it may be there.
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
            // A flush need not cover what happens after it was asked for.
            // It may happen at any moment between submission and completion: here at the first, unless the
            // drive holds it back.
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
