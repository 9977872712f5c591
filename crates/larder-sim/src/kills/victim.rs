//! The process that is killed: opens the cache, works at full load, and closes it if it gets that far.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use larder::{AnyRoute, Larder, RealClock, Routed, Shards, Value, block_on};
use larder_device::{Device, ErrorKind, FileDevice};
use serde::{Deserialize, Serialize};

use super::choose::seeded;
use super::journal::{self, Answer, Moment, Record, Verb, Writer};
use super::options::Options;
use super::value::{self, Reading};
use super::worker::{Worker, judged};
use crate::any_cache::Cache;

/// Name of the environment variable that makes a process a victim.
pub(super) const ORDERS_VARIABLE: &str = "LARDER_KILLS_VICTIM";
/// Prefix of a report to the parent.
pub(super) const MARK: &str = "victim: ";
pub(super) const OPENED: &str = "opened";
pub(super) const CLOSING: &str = "closing";
pub(super) const CLOSED: &str = "closed";
pub(super) const PANICKED: &str = "panicked";

/// The kernel releases the file only when it is done with the ring of the killed process.
const RELEASE: Duration = Duration::from_secs(30);
const RELEASE_POLL: Duration = Duration::from_millis(1);

/// Interval of the observer, and number of keys per observation.
const OBSERVED_EVERY: Duration = Duration::from_millis(50);
const OBSERVED_KEYS: usize = 48;
/// One round in this number calls `rebuild`; in the others the callers of the cache do its work.
const REBUILT_ONE_IN: u32 = 2;
/// Purpose of the observer's random numbers; no thread has it.
const OBSERVER: u32 = 1 << 16;

/// Orders to a victim.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) options: Options,
    pub(super) round: u32,
    /// How long to work; then close and exit. A victim that is to be killed has a limit as well: it must not outlive
    /// its parent for long.
    pub(super) work_ms: u64,
}

/// Runs as a victim if this process was started as one. A program that calls [`run`](super::run) with itself as victim
/// must call this first.
///
/// # Errors
/// Why it could not open, work or close.
pub fn serve() -> Option<Result<(), String>> {
    let orders = std::env::var(ORDERS_VARIABLE).ok()?;
    let orders = serde_json::from_str(&orders).map_err(|why| format!("{ORDERS_VARIABLE}: {why}"));
    Some(orders.and_then(|orders| live(&orders)))
}

fn live(orders: &Orders) -> Result<(), String> {
    let options = &orders.options;
    report_panics();
    let (cache, _) = open(options)?;
    mark(OPENED)?;
    let gate = RwLock::new(());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for thread in 0..options.threads {
            let worker = Worker::new(&cache, &gate, options, (orders.round, thread))?;
            threads.push(scope.spawn(|| worker.work(&stop)));
        }
        if orders.round.is_multiple_of(REBUILT_ONE_IN) {
            scope.spawn(|| block_on(cache.rebuild()));
        }
        let end = Instant::now() + Duration::from_millis(orders.work_ms);
        let observed = observe(&cache, &gate, orders, end);
        stop.store(true, Ordering::Relaxed);
        let panicked = |_| Err("a worker panicked".to_owned());
        let ended = threads.into_iter().map(|it| it.join().unwrap_or_else(panicked));
        ended.fold(observed, Result::and)
    })?;
    mark(CLOSING)?;
    block_on(cache.close()).map_err(|error| format!("cannot close the cache: {error}"))?;
    mark(CLOSED)
}

/// Reports panics: a kill must not hide that a thread panicked before.
fn report_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        // Ignore the error: the parent may be gone.
        mark(PANICKED).unwrap_or(());
    }));
}

/// Durations of an opening.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    /// Time until the file was released.
    pub(super) released_after: Duration,
    /// When the file was released.
    pub(super) free_at: Instant,
    /// Duration of opening the cache itself.
    pub(super) open: Duration,
}

/// Opens the cache on the existing file, or the shards on all files.
pub(super) fn open(options: &Options) -> Result<(Cache, Opened), String> {
    let (device, mut released_after, mut free_at) = device(options, 0)?;
    let mut devices: Vec<Arc<dyn Device>> = vec![Arc::new(device)];
    for number in 1..options.files {
        let (device, after, at) = self::device(options, number)?;
        devices.push(Arc::new(device));
        (released_after, free_at) = (released_after + after, at);
    }
    let begin = Instant::now();
    let cache = block_on(open_on(options, devices))?;
    Ok((Routed::new(cache), Opened { released_after, free_at, open: begin.elapsed() }))
}

async fn open_on(options: &Options, devices: Vec<Arc<dyn Device>>) -> Result<AnyRoute, String> {
    let (config, clock) = (options.config()?, Arc::new(RealClock));
    let failed = |error| format!("cannot open the cache: {error}");
    if options.files > 1 {
        let devices = devices.into_iter().map(Some).collect();
        let shards = Shards::open(config, devices, clock).await.map_err(failed)?;
        return Ok(AnyRoute::Shards(Arc::new(shards)));
    }
    let cache = Larder::open(config, devices.into_iter().next(), clock).await.map_err(failed)?;
    Ok(AnyRoute::One(Arc::new(cache)))
}

fn device(options: &Options, number: u32) -> Result<(FileDevice, Duration, Instant), String> {
    let begin = Instant::now();
    loop {
        let free_at = Instant::now();
        match options.device(number) {
            Ok(device) => return Ok((device, free_at - begin, free_at)),
            Err(error) if error.kind() == ErrorKind::InUse && begin.elapsed() < RELEASE => {
                thread::sleep(RELEASE_POLL);
            }
            Err(error) => return Err(format!("cannot open the file: {error}")),
        }
    }
}

/// Reports progress to the parent.
fn mark(word: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    // A test harness may have begun a line.
    writeln!(out, "\n{MARK}{word}")
        .and_then(|()| out.flush())
        .map_err(|cause| format!("the parent is gone: {cause}"))
}

/// Until `end`, at intervals: stops all work for a moment, and records keys that are certainly on flash, because a get
/// was just answered from there.
fn observe(cache: &Cache, gate: &RwLock<()>, orders: &Orders, end: Instant) -> Result<(), String> {
    let options = &orders.options;
    let mut rng = seeded(options.seed, orders.round, OBSERVER);
    let path = options.samples();
    let failed = |cause| format!("cannot write {}: {cause}", path.display());
    let mut journal = Writer::create(&path).map_err(failed)?;
    while Instant::now() < end {
        thread::sleep(OBSERVED_EVERY.min(end - Instant::now().min(end)));
        let _alone = gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut dram_hits = cache.stats().dram_hits;
        for _ in 0..OBSERVED_KEYS {
            let key = rng.u32(0..options.keys());
            let found = block_on(cache.get(&value::name_of(key)));
            let before = std::mem::replace(&mut dram_hits, cache.stats().dram_hits);
            if before == dram_hits
                && let Some(sample) = sample(options.seed, key, &found)
            {
                journal.write(&sample).map_err(failed)?;
            }
        }
        let stats = cache.stats();
        if stats.loc_unindexed_regions == 0 {
            let large = note(Verb::Stats, 0, stats.loc_objects + stats.array_objects, 0, 0);
            journal.write(&large).map_err(failed)?;
        }
    }
    Ok(())
}

fn sample(run: u64, key: u32, found: &Result<Option<Value>, larder::Error>) -> Option<Record> {
    let (_, reading) = judged(run, key, found);
    let Some(Reading::Whole { version, .. }) = reading else { return None };
    let bytes = found.as_ref().ok()?.as_ref()?.len();
    Some(note(Verb::Sample, key, 0, version, u32::try_from(bytes).unwrap_or(u32::MAX)))
}

fn note(verb: Verb, key: u32, version: u64, seen: u64, number: u32) -> Record {
    let (moment, answer, time_ns) = (Moment::Note, Answer::None, journal::now_ns());
    Record { moment, verb, answer, key, version, seen, time_ns, number }
}
