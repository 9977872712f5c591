//! The answers of a running cache.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use larder_block::cache::Mode;
use larder_block::layout::{CoreId, SECTOR_BYTES};
use larder_block::manage::{AttachOptions, CheckedCore, OpenCache, StartReport, StoredCache};
use larder_block::policy::pressure::BypassPolicy;
use larder_block::running::{Handles, RunningCache};
use larder_device::block_on;
use larder_device::label::Uuid;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Answer, CoreExports, Progress, Question};
use crate::args::{
    CleaningArg, CutOffArg, DeviceFormatArgs, LayoutArg, PromotionArg, ReadAheadArg, RoutingArg,
    TargetArg,
};
use crate::block::report::{Destaged, DirtyCore, DirtyRange, Running, Stats, Status, Usage};
use crate::block::{create, known_caches, metrics, target};

/// How often progress is sent.
const TICK: Duration = Duration::from_millis(200);
/// Most ranges of a core in a listing.
const RANGES_MAX: usize = 10_000;
/// Most ranges of a core in an error message.
const RANGES_NAMED: usize = 4;

/// A running cache that answers questions.
pub(in crate::block) struct Answers {
    pub(super) cache: RunningCache,
    /// The exports of its cores.
    pub(super) exported: CoreExports,
    /// `None` when it is ending.
    opened: Arc<Mutex<Option<OpenCache>>>,
    known: Mutex<CacheDeviceFacts>,
    began: Instant,
    end: Sender<StopRequest>,
}

/// Facts about the current cache device, or the last one.
pub(super) struct CacheDeviceFacts {
    uuid: Uuid,
    stored: StoredCache,
    started: StartReport,
    checked: Vec<CheckedCore>,
}

impl CacheDeviceFacts {
    pub(super) fn of(opened: &OpenCache) -> Self {
        let (uuid, started) = (opened.uuid, opened.started);
        let checked = opened.checked().to_vec();
        Self { uuid, stored: opened.stored().clone(), started, checked }
    }
}

pub(super) const ENDING: &str = "the cache is ending";

/// A request to end the cache; the client waits for the result.
pub(in crate::block) struct StopRequest {
    /// Whether to destage dirty data.
    pub(in crate::block) flush: bool,
    /// Receives the result.
    pub(in crate::block) answer: SyncSender<Result<Destaged, String>>,
    /// Disconnects when the answer is on its way.
    pub(in crate::block) told: Receiver<()>,
}

pub(super) type AnswerSink<'a> = &'a mut (dyn FnMut(&Answer) -> io::Result<()> + 'a);

impl Answers {
    /// Requests to end the cache are sent to `end`.
    pub(in crate::block) fn new(
        opened: OpenCache,
        exported: CoreExports,
        end: Sender<StopRequest>,
    ) -> (Self, Arc<Mutex<Option<OpenCache>>>) {
        let (cache, known) = (opened.cache.clone(), Mutex::new(CacheDeviceFacts::of(&opened)));
        let opened = Arc::new(Mutex::new(Some(opened)));
        let began = Instant::now();
        let shared = Arc::clone(&opened);
        (Self { cache, exported, opened, known, began, end }, shared)
    }

    /// Answers a question, in one line or several.
    pub(super) fn answer(&self, question: Question, tell: AnswerSink<'_>) -> io::Result<()> {
        // Dropped after the answer was sent.
        let mut ending = None;
        let answered = match question {
            Question::Status {} => value(&self.status()),
            Question::Stats { reset } => value(&Stats::of(&self.cache, reset)),
            Question::Flush { core } => self.flush(core, tell),
            Question::Mode { mode, flush } => self.set_mode(&mode, flush, tell),
            Question::Cleaning { policy } => self.set_cleaning(&policy),
            Question::CutOff { policy } => self.set_cut_off(&policy),
            Question::ReadAhead { policy } => self.set_read_ahead(&policy),
            Question::Promotion { policy } => self.set_promotion(&policy),
            Question::Routing { policy } => self.set_routing(&policy),
            Question::Bypass { policy } => self.set_bypass(&policy),
            Question::IoClass { csv } => self.io_classes(csv.as_deref()),
            Question::Dirty { core } => self.dirty(core),
            Question::Detach {} => self.detach(tell),
            Question::Attach { cache, layout, line, segment, over, over_other } => {
                let format = format(&layout, line, segment, (over.as_deref(), over_other));
                format.and_then(|format| self.attach(&cache, &format))
            }
            Question::AddCore { core, path } => self.add_core(core, &path),
            Question::RemoveCore { core } => self.remove_core(core, tell),
            Question::AttachCore { core, path } => self.attach_core(core, &path),
            Question::GiveUpCore { core } => self.give_up_core(core),
            Question::Stop { flush } => self.end(&mut ending, flush),
        };
        tell(&answered.map_or_else(Answer::Error, Answer::Done))
    }

    /// Its metrics as OpenMetrics.
    pub(in crate::block) fn metrics(&self) -> String {
        metrics::page(&[metrics::CacheMetrics::alone(self.status(), Stats::of(&self.cache, false))])
            .finish()
    }

    pub(super) fn opened(&self) -> MutexGuard<'_, Option<OpenCache>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self) -> MutexGuard<'_, CacheDeviceFacts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> Status {
        let seconds = self.began.elapsed().as_secs();
        let known = self.known();
        let running = Running::of(&self.cache, seconds, &known.started);
        let mode = self.cache.with(|cache| cache.options().mode);
        let stored = StoredCache { mode, ..known.stored.clone() };
        Status::of_running(known.uuid, &stored, running).with_cores(&self.cache, &known.checked)
    }

    /// A core of this number, whether present or missing.
    pub(super) fn known_core(&self, number: u16) -> Result<CoreId, String> {
        match self.cache.missing().into_iter().find(|core| core.get() == number) {
            Some(missing) => Ok(missing),
            None => self.core(number),
        }
    }

    pub(super) fn core(&self, number: u16) -> Result<CoreId, String> {
        let known = CoreId::new(number).filter(|id| self.cache.cores().any(|core| core == *id));
        known.ok_or_else(|| {
            let numbers: Vec<String> =
                self.cache.cores().map(|core| core.get().to_string()).collect();
            format!("core {number}: there is none; there are {}", numbers.join(", "))
        })
    }

    fn flush(&self, core: Option<u16>, tell: AnswerSink<'_>) -> Result<Value, String> {
        if let Some(missing) = self.cache.missing().iter().find(|it| Some(it.get()) == core) {
            return Err(format!("core {}: it is missing: attach it first", missing.get()));
        }
        let core = core.map(|number| self.core(number)).transpose()?;
        let (flushed, destaged) = watched(&self.cache, core, tell, || match core {
            Some(core) => {
                block_on(self.cache.settle_core(core)).map(drop).map_err(|failure| failure.error)
            }
            None => block_on(self.cache.settle()),
        });
        flushed.map_err(|error| format!("{error}; {}", still_dirty(&self.cache)))?;
        if let Some(opened) = self.opened().as_ref() {
            block_on(opened.note_fingerprints());
        }
        let left = still_missing(&self.cache, &self.known().stored);
        match left.filter(|_| core.is_none()) {
            Some(left) => Err(format!("flushed; {left}")),
            None => value(&destaged),
        }
    }

    fn set_mode(&self, mode: &str, flush: bool, tell: AnswerSink<'_>) -> Result<Value, String> {
        let mode: Mode = mode.parse().map_err(|error: larder_block::Error| error.to_string())?;
        let mut opened = self.opened();
        let opened = opened.as_mut().ok_or(ENDING)?;
        let (set, destaged) =
            watched(&self.cache, None, tell, || block_on(opened.set_mode(mode, flush)));
        set.map_err(|error| {
            let mode = self.cache.with(|cache| cache.options().mode);
            format!("{error}; the mode is {mode} now; {}", still_dirty(&self.cache))
        })?;
        value(&destaged)
    }

    fn set_cleaning(&self, policy: &str) -> Result<Value, String> {
        let cleaning: CleaningArg = policy.parse()?;
        let set = self.cache.with(|cache| cache.set_cleaning(cleaning.0));
        set.map_err(|error| error.to_string())?;
        Ok(json!({ "policy": cleaning.to_string() }))
    }

    fn set_cut_off(&self, policy: &str) -> Result<Value, String> {
        let cut_off: CutOffArg = policy.parse()?;
        let CutOffArg { policy, threshold_bytes } = cut_off;
        self.cache.with(|cache| cache.set_cut_off(policy, threshold_bytes));
        Ok(json!({ "policy": cut_off.to_string() }))
    }

    fn set_read_ahead(&self, policy: &str) -> Result<Value, String> {
        let read_ahead: ReadAheadArg = policy.parse()?;
        let set = self.cache.with(|cache| cache.set_read_ahead(read_ahead.0));
        set.map_err(|error| error.to_string())?;
        Ok(json!({ "policy": read_ahead.to_string() }))
    }

    fn set_promotion(&self, policy: &str) -> Result<Value, String> {
        let promotion: PromotionArg = policy.parse()?;
        let set = self.cache.with(|cache| cache.set_promotion(promotion.0));
        set.map_err(|error| error.to_string())?;
        Ok(json!({ "policy": promotion.to_string() }))
    }

    fn set_routing(&self, policy: &str) -> Result<Value, String> {
        let routing: RoutingArg = policy.parse()?;
        let policy = routing.policy(self.known().stored.profile.as_ref())?;
        let set = self.cache.with(|cache| cache.set_routing(policy));
        set.map_err(|error| error.to_string())?;
        Ok(json!({ "policy": routing.to_string() }))
    }

    fn set_bypass(&self, policy: &str) -> Result<Value, String> {
        let policy: BypassPolicy =
            policy.parse().map_err(|error: larder_block::Error| error.to_string())?;
        self.cache.with(|cache| cache.set_bypass(policy));
        Ok(json!({ "policy": policy.to_string() }))
    }

    fn io_classes(&self, csv: Option<&str>) -> Result<Value, String> {
        if let Some(csv) = csv {
            let classes = csv.parse().map_err(|error: larder_block::Error| error.to_string())?;
            self.cache.with(|cache| cache.set_classes(classes));
        }
        let csv = self.cache.with(|cache| cache.options().classes.to_string());
        Ok(json!({ "csv": csv }))
    }

    fn dirty(&self, core: Option<u16>) -> Result<Value, String> {
        let cores = match core {
            Some(number) => vec![self.known_core(number)?],
            None => self.cache.cores().chain(self.cache.missing()).collect(),
        };
        let sector = SECTOR_BYTES as u64;
        let of = |core: CoreId| {
            let mut ranges = self.cache.with(|cache| cache.dirty_ranges(core, RANGES_MAX + 1));
            let has_more = ranges.len() > RANGES_MAX;
            ranges.truncate(RANGES_MAX);
            let ranges = ranges.iter().map(|range| DirtyRange {
                offset: range.start * sector,
                bytes: (range.end - range.start) * sector,
            });
            DirtyCore { core: core.get(), ranges: ranges.collect(), has_more }
        };
        value(&cores.into_iter().map(of).collect::<Vec<_>>())
    }

    /// Detaches the cache device with nothing dirty, or leaves everything as it was.
    fn detach(&self, tell: AnswerSink<'_>) -> Result<Value, String> {
        let mut opened = self.opened();
        let opened = opened.as_mut().ok_or(ENDING)?;
        let (left, destaged) = watched(&self.cache, None, tell, || block_on(opened.detach()));
        left.map_err(|error| format!("{error}; {}; the cache goes on", still_dirty(&self.cache)))?;
        value(&destaged)
    }

    /// Attaches this cache device, after formatting it.
    fn attach(&self, cache: &str, format: &DeviceFormatArgs) -> Result<Value, String> {
        let target: TargetArg = cache.parse()?;
        let mut opened = self.opened();
        let opened = opened.as_mut().ok_or(ENDING)?;
        if opened.is_attached() {
            return Err(format!("the cache {} is attached already: detach it first", opened.uuid));
        }
        let device = target::open(&target).map_err(|error| error.to_string())?;
        let layout = create::layout(format, &*device).map_err(|error| error.to_string())?;
        let over = create::over(format);
        let (handles, _) = Handles::plan(&device.info().placement, true);
        let options = AttachOptions { layout, over, handles, ..AttachOptions::default() };
        block_on(opened.attach(&device, &options))
            .map_err(|error| create::explained(&error, over).to_string())?;
        known_caches::record(opened.uuid, &target);
        *self.known() = CacheDeviceFacts::of(opened);
        value(&self.status())
    }

    /// Asks the process to end, and waits until the cache is stopped.
    fn end(&self, ending: &mut Option<Sender<()>>, flush: bool) -> Result<Value, String> {
        let (answer, answered) = mpsc::sync_channel(1);
        let (still, told) = mpsc::channel();
        *ending = Some(still);
        let is_ending = |_| ENDING.to_owned();
        self.end
            .send(StopRequest { flush, answer, told })
            .map_err(|error| is_ending(error.to_string()))?;
        let destaged = answered.recv().map_err(|error| is_ending(error.to_string()))??;
        value(&destaged)
    }
}

/// The format options for a device.
fn format(
    layout: &str,
    line: u32,
    segment: Option<u32>,
    (over, over_other): (Option<&str>, bool),
) -> Result<DeviceFormatArgs, String> {
    let known = || LayoutArg::value_variants().iter().map(|one| one.name()).collect::<Vec<_>>();
    let layout = LayoutArg::from_str(layout, false)
        .map_err(|_| format!("layout {layout:?}: give one of {}", known().join(", ")))?;
    let over = over.map(|uuid| uuid.parse().map_err(|error| format!("over {uuid:?}: {error}")));
    Ok(DeviceFormatArgs { layout, line, segment, over: over.transpose()?, over_other })
}

pub(super) fn value(answer: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

/// Runs `work` and sends the progress of destaging while it runs: of one core, or of all. Sends nothing to a client
/// that has gone.
pub(super) fn watched<T: Send>(
    cache: &RunningCache,
    of: Option<CoreId>,
    tell: AnswerSink<'_>,
    work: impl FnOnce() -> T + Send,
) -> (T, Destaged) {
    let dirty_before_bytes = Usage::of(cache).dirty_bytes;
    let dirty_of = || match of {
        Some(core) => cache.with(|cache| cache.dirty_sectors(core)) * SECTOR_BYTES as u64,
        None => Usage::of(cache).dirty_bytes,
    };
    let mut before_bytes = dirty_of();
    let (finished, wait) = mpsc::channel::<()>();
    let done = std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _finished = finished;
            work()
        });
        let mut is_heard = true;
        while wait.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let dirty_bytes = dirty_of();
            before_bytes = before_bytes.max(dirty_bytes);
            let progress = Answer::Progress(Progress { dirty_bytes, before_bytes });
            is_heard = is_heard && tell(&progress).is_ok();
        }
        worker.join()
    });
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    (done, Destaged { dirty_before_bytes, dirty_bytes: Usage::of(cache).dirty_bytes })
}

/// What only the cache has of missing cores, as a message; `None` if there is nothing.
pub(in crate::block) fn still_missing(
    cache: &RunningCache,
    stored: &StoredCache,
) -> Option<String> {
    let of = |id: CoreId| {
        let bytes = cache.with(|cache| cache.dirty_sectors(id)) * SECTOR_BYTES as u64;
        let known = stored.cores.iter().find(|known| known.id == id)?;
        (bytes > 0).then(|| {
            format!(
                "core {} ({}) is missing, and {bytes} bytes of it stay dirty",
                id.get(),
                known.name
            )
        })
    };
    let left: Vec<String> = cache.missing().into_iter().filter_map(of).collect();
    (!left.is_empty())
        .then(|| format!("the cores that are there have everything; {}", left.join("; ")))
}

/// A short message about the data that only the cache has.
pub(in crate::block) fn still_dirty(cache: &RunningCache) -> String {
    let sector = SECTOR_BYTES as u64;
    let mut text = format!("{} bytes are dirty still", Usage::of(cache).dirty_bytes);
    for core in cache.cores().chain(cache.missing()) {
        let ranges = cache.with(|cache| cache.dirty_ranges(core, RANGES_NAMED + 1));
        if ranges.is_empty() {
            continue;
        }
        let named: Vec<String> = ranges
            .iter()
            .take(RANGES_NAMED)
            .map(|range| format!("{}+{}", range.start * sector, (range.end - range.start) * sector))
            .collect();
        let more = if ranges.len() > RANGES_NAMED { ", …" } else { "" };
        text += &format!(", of core {} at {}{more}", core.get(), named.join(", "));
    }
    text
}
