//! A running cache on devices. A thread that submits a request, or that hears of the completion of an I/O, carries out
//! the decisions of the cache.
//!
//! One thread at a time drives the cache. It holds the lock only while the cache decides. Other threads leave their
//! news under the lock and return; the driver picks the news up. So requests that arrive from several threads at the
//! same time are decided together, and their writes share headers. A device that completes an I/O immediately does not
//! cause recursion.

mod carrying;
mod core;
mod cores;
mod latency;
mod placement;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use larder_device::label::Labeller;
use larder_device::{
    BufferPool, Clock, Completer, Device, Error as DeviceError, ErrorKind as DeviceErrorKind,
    Identity, IoBuffer, IoFailure, IoFuture, PlacementHandle, steps,
};
use slab::Slab;

use crate::cache::{Cache, Request, RequestCompletion};
use crate::fingerprint::Watch;
use crate::layout::{
    CoreId, Data, DeviceIo, Ending, IoId, Outcome, PlacementClass, RequestId, SECTOR_BYTES, Span,
};
use crate::{Error, ErrorKind};
pub use core::CachedCore;
use cores::{BackingCore, Cores};
use latency::Operation;
pub use latency::{Latencies, Latency, LatencyKind};

/// Passes over the dirty data before [`RunningCache::destage_all`] gives up.
const PASSES: u32 = 8;
/// Dirty ranges of a dropped core that are looked up at once.
const RANGES_AT_ONCE: usize = 1024;

/// Placement handles for writes to the cache device, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handles {
    /// For metadata, which only says where data is.
    pub metadata: PlacementHandle,
    /// For dirty data.
    pub dirty: PlacementHandle,
    /// For clean data.
    pub clean: PlacementHandle,
}

impl Handles {
    fn of(self, class: PlacementClass) -> PlacementHandle {
        match class {
            PlacementClass::Metadata => self.metadata,
            PlacementClass::Dirty => self.dirty,
            PlacementClass::Clean => self.clean,
        }
    }
}

/// A cache, its device and its cores. Clones share the same cache.
#[derive(Clone)]
pub struct RunningCache(Arc<SharedCache>);

struct SharedCache {
    state: Mutex<CacheState>,
    /// `None` after the cache device was detached.
    front: RwLock<Option<Front>>,
    /// Block size of the first cache device. Cores never report smaller blocks than this, whichever cache device is
    /// attached.
    block_bytes: u32,
    cores: Cores,
    pool: BufferPool,
    /// The label to write if the cache device is given up, and its writer.
    mark: Mutex<Option<(Labeller, Vec<u8>)>>,
}

/// A device and its placement handles.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) handles: Handles,
}

struct CacheState {
    cache: Cache,
    users: Slab<User>,
    is_driven: bool,
    /// Set if there is news since the driver last looked.
    has_news: bool,
    /// Completes when no I/O is in flight.
    quiet: Option<Completer>,
    clock: Option<Arc<dyn Clock>>,
    latencies: Latencies,
}

/// A client request in progress.
struct User {
    completer: Completer,
    /// Of a read: the buffer to fill, unless a device has it at the moment.
    buffer: Option<IoBuffer>,
    /// Of a write: its data, to be given back.
    data: Option<Data>,
    operation: Operation,
    core: Option<CoreId>,
    /// Of a read: whether it needed a core.
    needs_core: bool,
    /// The time of submission, if there is a clock.
    since: Option<Duration>,
}

impl RunningCache {
    /// A cache on `device` in front of `cores`.
    pub fn new(
        mut cache: Cache,
        device: Arc<dyn Device>,
        cores: BTreeMap<CoreId, Arc<dyn Device>>,
        handles: Handles,
    ) -> Self {
        let block_bytes = device.info().block_bytes;
        for (id, core) in &cores {
            cache.set_core_bytes(*id, core::whole_bytes(core.info(), block_bytes));
        }
        let state = CacheState {
            cache,
            users: Slab::new(),
            is_driven: false,
            has_news: false,
            quiet: None,
            clock: None,
            latencies: Latencies::default(),
        };
        let (state, pool) = (Mutex::new(state), BufferPool::new());
        let front = RwLock::new(Some(Front { device, handles }));
        let (mark, cores) = (Mutex::new(None), Cores::new(cores, block_bytes));
        Self(Arc::new(SharedCache { state, front, block_bytes, cores, pool, mark }))
    }

    /// Gives the cache a clock for its measurements. It must be the clock of the times passed to [`work`](Self::work).
    /// Requests are timed from now on.
    pub fn set_clock(&self, clock: Arc<dyn Clock>) {
        self.0.lock().clock = Some(clock);
    }

    /// The latencies since the last call of [`take_latencies`](Self::take_latencies).
    pub fn latencies(&self) -> Latencies {
        self.0.lock().latencies.clone()
    }

    /// Like [`latencies`](Self::latencies), and resets them: requests that end later count for the next call.
    pub fn take_latencies(&self) -> Latencies {
        std::mem::take(&mut self.0.lock().latencies)
    }

    /// Sets the label to write before cores are written without the cache device.
    pub(crate) fn set_mark(&self, mark: Option<(Labeller, Vec<u8>)>) {
        *self.0.mark.lock().unwrap_or_else(PoisonError::into_inner) = mark;
    }

    /// Maintains the fingerprints of these cores, and of no others: they are made void before the core changes. No I/O
    /// may be in flight.
    pub(crate) fn watch(&self, watches: &BTreeMap<CoreId, Arc<Watch>>) {
        self.0.cores.watch(watches);
    }

    /// The identity of a core as of now. `None` if the cache keeps no fingerprint of it.
    pub fn known_by(&self, core: CoreId) -> Option<Identity> {
        Some(self.0.cores.get(core)?.watch?.identity())
    }

    /// A cached core as a device. `None` if there is no core of this number. Its block size is the larger one of the
    /// core and of the cache device that was there first, or when the core was added. It stays so while there is no
    /// cache device, because the next one may have such blocks. Once the core is removed, all its requests are refused
    /// ([`DeviceErrorKind::Gone`]).
    pub fn core(&self, core: CoreId) -> Option<CachedCore> {
        let BackingCore { device, block_bytes, .. } = self.0.cores.get(core)?;
        Some(CachedCore::new(self.clone(), core, device, block_bytes))
    }

    /// The numbers of the cores, ascending.
    pub fn cores(&self) -> impl Iterator<Item = CoreId> + use<> {
        self.0.cores.numbers().into_iter()
    }

    /// The cores that are missing. Their dirty data stays dirty.
    pub fn missing(&self) -> Vec<CoreId> {
        self.with(|cache| cache.missing().iter().copied().collect())
    }

    pub(crate) fn set_missing(&self, cores: Vec<CoreId>) {
        self.with(|cache| cache.set_missing(cores.into_iter().collect()));
    }

    /// Discards the dirty data of a missing core, and forgets the core. Other cores are served during this. The label
    /// must no longer list the core, durably.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the core still has dirty data.
    pub(crate) async fn drop_missing(&self, core: CoreId) -> Result<(), Error> {
        let failed = |failure: IoFailure| Error::of_device("giving a core up", &failure.error);
        loop {
            let dirty = self.with(|cache| cache.dirty_ranges(core, RANGES_AT_ONCE));
            if dirty.is_empty() {
                break;
            }
            for range in dirty {
                let sectors = u32::try_from(range.end - range.start).unwrap_or(u32::MAX);
                let span = Span { core, first: range.start, sectors };
                let waits = User::of(Operation::Trim, None);
                self.submit(Request::Trim { span }, waits).await.map_err(failed)?;
            }
        }
        self.quiet().await.map_err(failed)?;
        self.with(|cache| cache.core_is_gone(core));
        self.go_on();
        Ok(())
    }

    /// Serves one more core. The label must list it, durably.
    pub(crate) fn add_core(&self, core: CoreId, device: Arc<dyn Device>) {
        let of_cache = self.device().map_or(0, |device| device.info().block_bytes);
        let block_bytes = self.0.block_bytes.max(of_cache);
        self.with(|cache| {
            cache.forget_measured();
            cache.is_there(core);
            cache.set_core_bytes(core, core::whole_bytes(device.info(), block_bytes));
            self.0.cores.insert(core, BackingCore { device, block_bytes, watch: None });
        });
    }

    /// Stops serving a core without dirty data. The label must no longer list it, durably, and no I/O may be in
    /// flight.
    pub(crate) fn remove_core(&self, core: CoreId) {
        self.with(|cache| {
            cache.core_is_gone(core);
            self.0.cores.remove(core);
        });
    }

    /// The cache device; `None` if it is detached.
    pub fn device(&self) -> Option<Arc<dyn Device>> {
        self.0.front().map(|front| front.device)
    }

    /// Replaces or removes the cache device. No I/O may be in flight to the previous one.
    pub(crate) fn set_front(&self, front: Option<Front>) {
        *self.0.front.write().unwrap_or_else(PoisonError::into_inner) = front;
    }

    /// Completes when no I/O is in flight. Requests that arrive from now on are held back until
    /// [`go_on`](Self::go_on).
    pub(crate) fn quiet(&self) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        {
            let mut state = self.0.lock();
            state.cache.hold();
            state.quiet = Some(completer);
        }
        self.0.drive();
        future
    }

    /// Begins the requests that were held back.
    pub(crate) fn go_on(&self) {
        self.with(Cache::release);
    }

    /// Reads the cache, or changes its settings. Requests wait during this call.
    pub fn with<T>(&self, look: impl FnOnce(&mut Cache) -> T) -> T {
        let answer = look(&mut self.0.lock().cache);
        // The change may allow a request to continue.
        self.0.drive();
        answer
    }

    /// Destages the dirty data of all cores, one core after the other, in one pass each. Completes when the cores have
    /// the data durably. If a core fails, the others are destaged nevertheless; then this fails and names the failed
    /// ones.
    pub fn clean(&self) -> impl Future<Output = Result<(), DeviceError>> + Send + use<> {
        self.each_core(Self::clean_core)
    }

    /// Like [`clean`](Self::clean), and also makes this durable on the cache device: after a crash only data written
    /// after this call is dirty.
    pub fn settle(&self) -> impl Future<Output = Result<(), DeviceError>> + Send + use<> {
        self.each_core(Self::settle_core)
    }

    /// Asks every core, even if one fails.
    fn each_core(
        &self,
        ask: fn(&Self, CoreId) -> IoFuture,
    ) -> impl Future<Output = Result<(), DeviceError>> + Send + use<> {
        let cache = self.clone();
        async move {
            let mut refused: Vec<DeviceError> = Vec::new();
            for core in cache.cores() {
                match ask(&cache, core).await {
                    Ok(_) => {}
                    // The core was removed during the loop. It has no dirty data.
                    Err(failure) if failure.error.kind() == DeviceErrorKind::Gone => {}
                    Err(failure) => refused.push(failure.error),
                }
            }
            match refused.len() {
                0 | 1 => refused.pop().map_or(Ok(()), Err),
                _ => {
                    let all: Vec<String> = refused.iter().map(ToString::to_string).collect();
                    Err(DeviceError::new(refused[0].kind(), all.join("; ")))
                }
            }
        }
    }

    /// Destages until all cores that are present have all data durably, in several passes: a write that began in
    /// another mode may complete after the first pass.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if dirty data is left.
    pub async fn destage_all(&self) -> Result<(), Error> {
        for _ in 0..PASSES {
            self.clean().await.map_err(|error| Error::of_device("destaging", &error))?;
            if self.with(|cache| cache.has_destaged()) {
                return Ok(());
            }
        }
        let left = self.with(|cache| {
            let stays = cache.missing().iter().map(|core| cache.dirty_sectors(*core)).sum();
            cache.usage().dirty_sectors.saturating_sub(stays)
        });
        let left = left * SECTOR_BYTES as u64;
        Err(Error::new(ErrorKind::Device, format!("destaging: {left} bytes are dirty still")))
    }

    /// Like [`clean`](Self::clean), of one core. Fails with [`DeviceErrorKind::Gone`] if there is no core of this
    /// number.
    pub fn clean_core(&self, core: CoreId) -> IoFuture {
        self.ask_for_core(core, Request::Clean { core })
    }

    /// Like [`settle`](Self::settle), of one core.
    pub fn settle_core(&self, core: CoreId) -> IoFuture {
        self.ask_for_core(core, Request::Settle { core })
    }

    fn ask_for_core(&self, core: CoreId, request: Request) -> IoFuture {
        let waits = User::of(Operation::Destage, Some(core));
        match self.0.cores.get(core) {
            Some(behind) => self.ask((core, &behind.device), request, waits),
            None => IoFuture::ready(Err(waits.refused(core))),
        }
    }

    /// Waits until no I/O is in flight, and writes what a start after an orderly stop needs. No request may arrive
    /// after this.
    pub(crate) async fn prepare_stop(&self) -> Result<(), IoFailure> {
        self.quiet().await?;
        self.go_on();
        let Some(core) = self.cores().next() else { return Ok(()) };
        let Some(behind) = self.0.cores.get(core) else { return Ok(()) };
        let waits = User::of(Operation::Flush, None);
        self.ask((core, &behind.device), Request::PrepareStop, waits).await.map(drop)
    }

    /// Does the work that is due at `now`. Returns when work is due next, if any is; the caller calls this again at
    /// that time or later.
    pub fn work(&self, now: Duration) -> Option<Duration> {
        let next = self.0.lock().cache.work(now);
        self.0.drive();
        next
    }

    /// Submits a request to core `of`, which must still be `device`.
    fn ask(
        &self,
        (of, device): (CoreId, &Arc<dyn Device>),
        request: Request,
        waits: UnsubmittedRequest,
    ) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        {
            let mut state = self.0.lock();
            // Check under the lock: the remover of a core then sees every request that was accepted before.
            if !self.0.cores.has(of, device) {
                return IoFuture::ready(Err(waits.refused(of)));
            }
            state.submit(request, waits, completer);
        }
        self.0.drive();
        future
    }

    /// Submits a request for a missing core.
    fn submit(&self, request: Request, waits: UnsubmittedRequest) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        self.0.lock().submit(request, waits, completer);
        self.0.drive();
        future
    }
}

/// A request that is not submitted yet.
struct UnsubmittedRequest {
    buffer: Option<IoBuffer>,
    data: Option<Data>,
    operation: Operation,
    core: Option<CoreId>,
}

impl UnsubmittedRequest {
    /// The error for a core that the cache no longer has.
    fn refused(self, core: CoreId) -> IoFailure {
        is_gone(core, self.operation, given_back(self.buffer, self.data))
    }
}

impl User {
    fn of(operation: Operation, core: Option<CoreId>) -> UnsubmittedRequest {
        UnsubmittedRequest { buffer: None, data: None, operation, core }
    }

    fn timed(&self) -> Option<LatencyKind> {
        LatencyKind::of(self.operation, self.needs_core)
    }

    fn took(&self, now: Option<Duration>) -> Option<Duration> {
        Some(now?.saturating_sub(self.since?))
    }

    /// Completes the request.
    fn hears(self, ending: Ending, shared: &SharedCache) {
        let buffer = given_back(self.buffer, self.data);
        let gone = self.core.filter(|core| shared.cores.get(*core).is_none());
        let result = match (ending, gone) {
            (Ending::Done, _) => Ok(buffer),
            (Ending::Failed, Some(core)) => Err(is_gone(core, self.operation, buffer)),
            (Ending::Failed, None) => {
                let front = shared.front();
                let device = front.as_ref().map_or("no device", |front| &front.device.info().name);
                let of = self.core.map_or(String::new(), |core| format!(" core {}", core.get()));
                let context = format!(
                    "block cache on {device}:{of}: {}: a device that it needed has failed",
                    self.operation.name()
                );
                Err(IoFailure { error: DeviceError::new(DeviceErrorKind::Io, context), buffer })
            }
        };
        self.completer.complete(result);
    }
}

/// The buffer that the client gets back. If the cache still holds the written data, it is a copy.
fn given_back(read: Option<IoBuffer>, written: Option<Data>) -> IoBuffer {
    let written = written.map(|data| data.into_buffer().unwrap_or_else(|data| data.copy()));
    read.or(written).unwrap_or_else(IoBuffer::empty)
}

/// The error for a request to a removed core.
fn is_gone(core: CoreId, operation: Operation, buffer: IoBuffer) -> IoFailure {
    let (number, what) = (core.get(), operation.name());
    let context = format!(
        "block cache: core {number}: {what}: it was taken away from the cache and has all: use its device itself, or \
         add it again"
    );
    IoFailure { error: DeviceError::new(DeviceErrorKind::Gone, context), buffer }
}

impl SharedCache {
    fn front(&self) -> Option<Front> {
        self.front.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An I/O has completed.
    fn completed(self: &Arc<Self>, io: IoId, outcome: Outcome) {
        {
            let mut state = self.lock();
            state.tell_time();
            state.cache.completed(io, outcome);
        }
        self.drive();
    }

    fn write_mark(self: &Arc<Self>) {
        let mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner).take();
        let shared = Arc::clone(self);
        drop(steps::request(async move {
            if let Some((labeller, content)) = mark {
                // If the device refuses this write too, there is nothing more to do.
                let _ = labeller.write(content).await;
            }
            // The label now says that the cache content is void, or nothing more can be written.
            shared.cores.watch(&BTreeMap::new());
            shared.lock().cache.marked();
            shared.drive();
            Ok(IoBuffer::empty())
        }));
    }

    /// Lets the cache decide, completes requests and begins I/Os, until there is no more news.
    fn drive(self: &Arc<Self>) {
        {
            let mut state = self.lock();
            state.has_news = true;
            if std::mem::replace(&mut state.is_driven, true) {
                return;
            }
        }
        let (mut ended, mut ios) = (Vec::new(), Vec::new());
        let mut told: Vec<(User, Ending)> = Vec::new();
        loop {
            let (wants_mark, quiet) = {
                let mut state = self.lock();
                if !std::mem::take(&mut state.has_news) {
                    state.is_driven = false;
                    return;
                }
                state.decide(&mut ended, &mut told, &mut ios);
                let is_quiet = state.cache.is_quiet();
                let quiet = state.quiet.take_if(|_| is_quiet);
                (state.cache.wants_mark(), quiet)
            };
            if wants_mark {
                self.write_mark();
            }
            for (user, ending) in told.drain(..) {
                user.hears(ending, self);
            }
            for (id, io) in ios.drain(..) {
                self.carry_out(id, io);
            }
            if let Some(quiet) = quiet {
                quiet.complete(Ok(IoBuffer::empty()));
            }
        }
    }
}

impl CacheState {
    fn submit(&mut self, request: Request, waits: UnsubmittedRequest, completer: Completer) {
        let UnsubmittedRequest { buffer, data, operation, core } = waits;
        let (needs_core, since) = (false, self.time());
        let user = User { completer, buffer, data, operation, core, needs_core, since };
        let id = self.users.insert(user);
        self.cache.submit(RequestId(id as u64), request);
    }

    /// The time, if there is a clock.
    fn time(&self) -> Option<Duration> {
        self.clock.as_ref().map(|clock| clock.monotonic())
    }

    /// Tells the cache the time if a part of it measures; no other part needs it this precisely.
    fn tell_time(&mut self) {
        if let Some(clock) = self.clock.as_ref().filter(|_| self.cache.wants_time()) {
            self.cache.at(clock.monotonic());
        }
    }

    /// One turn: collects completed requests and the I/Os to carry out.
    fn decide(
        &mut self,
        ended: &mut Vec<RequestCompletion>,
        told: &mut Vec<(User, Ending)>,
        ios: &mut Vec<(IoId, DeviceIo)>,
    ) {
        self.tell_time();
        loop {
            self.cache.turn(ios);
            self.cache.ended(ended);
            let now = if ended.is_empty() { None } else { self.time() };
            let mut has_kept = false;
            for RequestCompletion { id: RequestId(id), ending, keep } in ended.drain(..) {
                let user = self.users.remove(usize::try_from(id).expect("a key"));
                if let (Some(timed), Some(took)) = (user.timed(), user.took(now)) {
                    self.latencies.record(timed, took);
                }
                if let Some(keep) = keep {
                    let bytes = keep.bytes();
                    let data = user.buffer.as_ref().map(|read| {
                        let mut kept = IoBuffer::zeroed(bytes.len());
                        read.copy_out(bytes.start, kept.as_mut_slice());
                        Data::new(kept)
                    });
                    self.cache.keep(keep, data);
                    has_kept = true;
                }
                told.push((user, ending));
            }
            if !has_kept {
                return;
            }
        }
    }
}
