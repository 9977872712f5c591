//! A cache on devices: what it decides is carried out, by whichever thread has asked for something or has heard of the
//! end of an I/O.
//!
//! One thread at a time drives the cache, with the lock held only while it decides. Whoever comes meanwhile leaves
//! what it has to say and goes on; the driver takes it up. So what several threads ask for at one time is decided
//! together, and writes share headers. A device that ends an I/O at once does not nest.

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

use crate::cache::{Cache, Ended, Request};
use crate::fingerprint::Watch;
use crate::layout::{
    Class, CoreId, Data, DeviceIo, Ending, IoId, Outcome, RequestId, SECTOR_BYTES, Span,
};
use crate::{Error, ErrorKind};
pub use core::CachedCore;
use cores::{Behind, Cores};
use latency::Operation;
pub use latency::{Latencies, Latency, Timed};

/// Times that dirty data are looked for before some are said to be left.
const PASSES: u32 = 8;
/// Dirty ranges of a core that is given up that are looked for at once.
const RANGES_AT_ONCE: usize = 1024;

/// Placement handles of what is written to the cache device, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handles {
    /// Of what only says where others are.
    pub metadata: PlacementHandle,
    /// Of what the cores do not have.
    pub dirty: PlacementHandle,
    /// Of what they have too.
    pub clean: PlacementHandle,
}

impl Handles {
    fn of(self, class: Class) -> PlacementHandle {
        match class {
            Class::Metadata => self.metadata,
            Class::Dirty => self.dirty,
            Class::Clean => self.clean,
        }
    }
}

/// A cache, its device, and its cores. Clones are the same.
#[derive(Clone)]
pub struct RunningCache(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// None if it was detached.
    front: RwLock<Option<Front>>,
    /// Blocks of the first cache device: cores are known in blocks no shorter, whichever device there is, or none.
    block_bytes: u32,
    cores: Cores,
    pool: BufferPool,
    /// What the label says if the cache device is given up, and who writes it.
    mark: Mutex<Option<(Labeller, Vec<u8>)>>,
}

/// A device, and how it is written to.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) handles: Handles,
}

struct State {
    cache: Cache,
    users: Slab<User>,
    is_driven: bool,
    /// Something has come since the driver looked.
    has_news: bool,
    /// Who waits until nothing is under way.
    quiet: Option<Completer>,
    clock: Option<Arc<dyn Clock>>,
    latencies: Latencies,
}

/// Who waits for a request.
struct User {
    completer: Completer,
    /// Of a read: what it is read into, unless a device has it just now.
    buffer: Option<IoBuffer>,
    /// Of a write: what it wrote, to be given back.
    data: Option<Data>,
    operation: Operation,
    core: Option<CoreId>,
    /// Of a read: whether a core was asked.
    needs_core: bool,
    /// When it asked, if there is a clock.
    since: Option<Duration>,
}

impl RunningCache {
    /// A cache on `device` before `cores`.
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
        let state = State {
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
        Self(Arc::new(Shared { state, front, block_bytes, cores, pool, mark }))
    }

    /// Has the cache told the time by `clock`, the one by which [`work`](Self::work) is called, wherever it measures.
    /// Requests are timed from now on.
    pub fn set_clock(&self, clock: Arc<dyn Clock>) {
        self.0.lock().clock = Some(clock);
    }

    /// How long requests took since they were taken last.
    pub fn latencies(&self) -> Latencies {
        self.0.lock().latencies.clone()
    }

    /// The same, and begins anew: what ends later is in the next ones.
    pub fn take_latencies(&self) -> Latencies {
        std::mem::take(&mut self.0.lock().latencies)
    }

    /// Has the label say `content` before cores are written without the cache device, if that should come.
    pub(crate) fn set_mark(&self, mark: Option<(Labeller, Vec<u8>)>) {
        *self.0.mark.lock().unwrap_or_else(PoisonError::into_inner) = mark;
    }

    /// Has the fingerprints of these cores be void before they change, and of no others. Nothing is under way.
    pub(crate) fn watch(&self, watches: &BTreeMap<CoreId, Arc<Watch>>) {
        self.0.cores.watch(watches);
    }

    /// What a core is known by now. `None` if the cache keeps no fingerprint of it.
    pub fn known_by(&self, core: CoreId) -> Option<Identity> {
        Some(self.0.cores.get(core)?.watch?.identity())
    }

    /// A core behind the cache, as a device. `None` if there is none of this number. Its blocks are the longer ones of
    /// the core's and of the cache device's that there was first, or when the core came, also while there is none: the
    /// next one may have such blocks again. Once the core is taken away, all that is asked of it is refused
    /// ([`DeviceErrorKind::Gone`]).
    pub fn core(&self, core: CoreId) -> Option<CachedCore> {
        let Behind { device, block_bytes, .. } = self.0.cores.get(core)?;
        Some(CachedCore::new(self.clone(), core, device, block_bytes))
    }

    /// The numbers of its cores, ascending.
    pub fn cores(&self) -> impl Iterator<Item = CoreId> + use<> {
        self.0.cores.numbers().into_iter()
    }

    /// Those of its cores that are not there: what is dirty of them stays so.
    pub fn missing(&self) -> Vec<CoreId> {
        self.with(|cache| cache.missing().iter().copied().collect())
    }

    pub(crate) fn set_missing(&self, cores: Vec<CoreId>) {
        self.with(|cache| cache.set_missing(cores.into_iter().collect()));
    }

    /// Makes void what is dirty of a core that is missing, and forgets the core. Others are served meanwhile; its label
    /// lists it no more, durably.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if something of it is dirty still.
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

    /// Serves one more core. Its label lists it durably.
    pub(crate) fn add_core(&self, core: CoreId, device: Arc<dyn Device>) {
        let of_cache = self.device().map_or(0, |device| device.info().block_bytes);
        let block_bytes = self.0.block_bytes.max(of_cache);
        self.with(|cache| {
            cache.forget_measured();
            cache.is_there(core);
            cache.set_core_bytes(core, core::whole_bytes(device.info(), block_bytes));
            self.0.cores.insert(core, Behind { device, block_bytes, watch: None });
        });
    }

    /// Serves a core no more, which has all. Its label lists it no more, durably, and nothing is under way.
    pub(crate) fn remove_core(&self, core: CoreId) {
        self.with(|cache| {
            cache.core_is_gone(core);
            self.0.cores.remove(core);
        });
    }

    /// The cache device; `None` if it was detached.
    pub fn device(&self) -> Option<Arc<dyn Device>> {
        self.0.front().map(|front| front.device)
    }

    /// Has another cache device, or none. Nothing may be under way to the one before.
    pub(crate) fn set_front(&self, front: Option<Front>) {
        *self.0.front.write().unwrap_or_else(PoisonError::into_inner) = front;
    }

    /// Ends when nothing is under way any more. What is asked meanwhile and afterwards is held back until the cache is
    /// told to go on ([`go_on`](Self::go_on)).
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

    /// What was held back begins.
    pub(crate) fn go_on(&self) {
        self.with(Cache::release);
    }

    /// Looks at the cache, or changes how it is set. Requests wait meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&mut Cache) -> T) -> T {
        let answer = look(&mut self.0.lock().cache);
        // What was changed may let something go on.
        self.0.drive();
        answer
    }

    /// Destages what is dirty of all cores, one after the other, in one pass each. Ends when they have it durably. A
    /// core that refuses something keeps none of the others from it; then this fails, and names those that have.
    pub fn clean(&self) -> impl Future<Output = Result<(), DeviceError>> + Send + use<> {
        self.each_core(Self::clean_core)
    }

    /// The same, and the cache device says so durably: after a crash nothing is dirty but what was written after this
    /// was asked for.
    pub fn settle(&self) -> impl Future<Output = Result<(), DeviceError>> + Send + use<> {
        self.each_core(Self::settle_core)
    }

    /// All of them get their turn, whether or not one fails.
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
                    // It was taken away meanwhile, and has all.
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

    /// The same until the cores that are there have all durably, in several passes: what had begun to be written in
    /// another mode may end behind the first.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if something is dirty still.
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

    /// The same of one core, in one pass. Fails with [`DeviceErrorKind::Gone`] if there is none of this number.
    pub fn clean_core(&self, core: CoreId) -> IoFuture {
        self.ask_for_core(core, Request::Clean { core })
    }

    /// As [`settle`](Self::settle), of one core.
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

    /// Waits until nothing is under way, and makes ready what a start after an orderly stop needs. No request may
    /// come any more.
    pub(crate) async fn prepare_stop(&self) -> Result<(), IoFailure> {
        self.quiet().await?;
        self.go_on();
        let Some(core) = self.cores().next() else { return Ok(()) };
        let Some(behind) = self.0.cores.get(core) else { return Ok(()) };
        let waits = User::of(Operation::Flush, None);
        self.ask((core, &behind.device), Request::PrepareStop, waits).await.map(drop)
    }

    /// Does what is due at `now`, and says when something is due next, if anything is. To be called again then, or some
    /// time later.
    pub fn work(&self, now: Duration) -> Option<Duration> {
        let next = self.0.lock().cache.work(now);
        self.0.drive();
        next
    }

    /// Submits a request of a user of a core, which is this device.
    fn ask(
        &self,
        (of, device): (CoreId, &Arc<dyn Device>),
        request: Request,
        waits: Waits,
    ) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        {
            let mut state = self.0.lock();
            // Under the lock: whoever takes a core away finds all that was asked of it before.
            if !self.0.cores.has(of, device) {
                return IoFuture::ready(Err(waits.refused(of)));
            }
            state.submit(request, waits, completer);
        }
        self.0.drive();
        future
    }

    /// Submits a request about a core that is not there.
    fn submit(&self, request: Request, waits: Waits) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        self.0.lock().submit(request, waits, completer);
        self.0.drive();
        future
    }
}

/// A user that has not asked yet.
struct Waits {
    buffer: Option<IoBuffer>,
    data: Option<Data>,
    operation: Operation,
    core: Option<CoreId>,
}

impl Waits {
    /// The core is none of the cache's any more.
    fn refused(self, core: CoreId) -> IoFailure {
        is_gone(core, self.operation, given_back(self.buffer, self.data))
    }
}

impl User {
    fn of(operation: Operation, core: Option<CoreId>) -> Waits {
        Waits { buffer: None, data: None, operation, core }
    }

    fn timed(&self) -> Option<Timed> {
        Timed::of(self.operation, self.needs_core)
    }

    fn took(&self, now: Option<Duration>) -> Option<Duration> {
        Some(now?.saturating_sub(self.since?))
    }

    /// Tells it.
    fn hears(self, ending: Ending, shared: &Shared) {
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

/// What a user gets back. The cache may hold on to what was written: then it is a copy.
fn given_back(read: Option<IoBuffer>, written: Option<Data>) -> IoBuffer {
    let written = written.map(|data| data.into_buffer().unwrap_or_else(|data| data.copy()));
    read.or(written).unwrap_or_else(IoBuffer::empty)
}

/// What whoever asks hears of a core that was taken away.
fn is_gone(core: CoreId, operation: Operation, buffer: IoBuffer) -> IoFailure {
    let (number, what) = (core.get(), operation.name());
    let context = format!(
        "block cache: core {number}: {what}: it was taken away from the cache and has all: use its device itself, or \
         add it again"
    );
    IoFailure { error: DeviceError::new(DeviceErrorKind::Gone, context), buffer }
}

impl Shared {
    fn front(&self) -> Option<Front> {
        self.front.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An I/O has ended.
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
                // A device that refuses that as well cannot be told anything.
                let _ = labeller.write(content).await;
            }
            // The label says that nothing must be believed, or nothing can be said any more.
            shared.cores.watch(&BTreeMap::new());
            shared.lock().cache.marked();
            shared.drive();
            Ok(IoBuffer::empty())
        }));
    }

    /// Lets the cache decide, tells users, and begins I/Os, until nothing is left to be said.
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

impl State {
    fn submit(&mut self, request: Request, waits: Waits, completer: Completer) {
        let Waits { buffer, data, operation, core } = waits;
        let (needs_core, since) = (false, self.time());
        let user = User { completer, buffer, data, operation, core, needs_core, since };
        let id = self.users.insert(user);
        self.cache.submit(RequestId(id as u64), request);
    }

    /// The time, if there is a clock.
    fn time(&self) -> Option<Duration> {
        self.clock.as_ref().map(|clock| clock.monotonic())
    }

    /// To whoever measures: nobody else needs it as precisely.
    fn tell_time(&mut self) {
        if let Some(clock) = self.clock.as_ref().filter(|_| self.cache.wants_time()) {
            self.cache.at(clock.monotonic());
        }
    }

    /// One turn: whoever has ended, and what is to be carried out.
    fn decide(
        &mut self,
        ended: &mut Vec<Ended>,
        told: &mut Vec<(User, Ending)>,
        ios: &mut Vec<(IoId, DeviceIo)>,
    ) {
        self.tell_time();
        loop {
            self.cache.turn(ios);
            self.cache.ended(ended);
            let now = if ended.is_empty() { None } else { self.time() };
            let mut has_kept = false;
            for Ended { id: RequestId(id), ending, keep } in ended.drain(..) {
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
