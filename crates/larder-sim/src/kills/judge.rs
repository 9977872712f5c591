//! Judges the cache after the victim's end: this process opens it and reads every key.

use std::collections::HashSet;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use larder::{Larder, Recovery, Route, block_on};

use super::journal::{self, Answer};
use super::options::Options;
use super::value::{self, Reading};
use super::victim;
use super::worker::judged;
use crate::any_cache::Cache;

/// Number of reading threads: enough to keep a drive busy.
const ASKING: u32 = 8;
/// One key in this number is read while large objects are still being recovered.
const ASKED_BESIDE: u32 = 16;
/// A cache that takes longer than this to open and answer is considered hung.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a read of a key found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) key: u32,
    pub(super) answer: Answer,
    /// Version of the value.
    pub(super) seen: u64,
    pub(super) begin_ns: u64,
    /// Length of the value.
    pub(super) bytes: usize,
}

/// All results of a judge.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) looks: Vec<Look>,
    /// The kind of recovery by its name, and its details.
    pub(super) recovery: String,
    pub(super) recovery_detail: String,
    /// Large objects on flash after all were recovered, and after all reads.
    pub(super) large_objects: u64,
    pub(super) large_objects_left: u64,
    /// Time until the killed process had released the file.
    pub(super) released_after: Duration,
    /// Duration of `Larder::open`.
    pub(super) open: Duration,
    /// From the opening of the file to the first answer.
    pub(super) first_answer: Duration,
    pub(super) all: Duration,
}

/// Opens the cache, reads every key, and closes it, or drops it as in a crash.
pub(super) fn judge(options: &Options, closes: bool) -> Result<Judged, String> {
    let (say, hear) = mpsc::channel();
    let options = options.clone();
    let judge = thread::spawn(move || {
        // The receiver also notices a panic: then this sender is dropped.
        say.send(ask_all(&options, closes)).unwrap_or(());
    });
    match hear.recv_timeout(PATIENCE) {
        Ok(judged) => {
            judge.join().map_err(|_| "the judge panicked".to_owned())?;
            judged
        }
        Err(RecvTimeoutError::Timeout) => {
            Err(format!("the cache hangs: no answers within {} s", PATIENCE.as_secs()))
        }
        Err(RecvTimeoutError::Disconnected) => {
            Err("the cache panicked when it was opened or asked".to_owned())
        }
    }
}

fn ask_all(options: &Options, closes: bool) -> Result<Judged, String> {
    let begin = Instant::now();
    let (cache, opened) = victim::open(options)?;
    let first = look(&cache, options.seed, 0);
    let first_answer = opened.free_at.elapsed();
    let mut looks = look_beside_rebuild(&cache, options, first)?;
    let large = |stats: larder::Stats| stats.loc_objects + stats.array_objects;
    let large_objects = large(cache.stats());
    // That of the first cache, if there are several.
    let found = cache.route().caches().next().and_then(Larder::recovery);
    let recovery_detail = found.as_ref().map_or_else(String::new, |it| format!("{it:?}"));
    let recovery = found.as_ref().map_or_else(String::new, name_of);
    let answered: HashSet<u32> = looks.iter().map(|look| look.key).collect();
    let ask = |thread: u32| {
        let mine = |key: &u32| key % ASKING == thread && !answered.contains(key);
        let keys = (0..options.keys()).filter(mine);
        keys.map(|key| look(&cache, options.seed, key)).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let ask = &ask;
        let threads: Vec<_> = (0..ASKING).map(|it| scope.spawn(move || ask(it))).collect();
        for thread in threads {
            looks.extend(thread.join().map_err(|_| "the cache panicked when it was asked")?);
        }
        Ok::<(), String>(())
    })?;
    let large_objects_left = large(cache.stats());
    if closes {
        block_on(cache.close()).map_err(|error| format!("cannot close the cache: {error}"))?;
    } else {
        drop(cache);
    }
    Ok(Judged {
        looks,
        recovery,
        recovery_detail,
        large_objects,
        large_objects_left,
        released_after: opened.released_after,
        open: opened.open,
        first_answer,
        all: begin.elapsed(),
    })
}

/// Rebuilds what a crash has left, and reads some keys at the same time. Keys that are not found yet may be found
/// later, so misses are dropped, including that of `first`.
fn look_beside_rebuild(cache: &Cache, options: &Options, first: Look) -> Result<Vec<Look>, String> {
    let mut looks = vec![first];
    thread::scope(|scope| {
        let rebuilding = scope.spawn(|| block_on(cache.rebuild()));
        let keys = (1..options.keys()).step_by(ASKED_BESIDE as usize);
        for key in keys.take_while(|_| !rebuilding.is_finished()) {
            looks.push(look(cache, options.seed, key));
        }
        rebuilding.join().map_err(|_| "the cache panicked when it was rebuilt")
    })?;
    looks.retain(|look| look.answer != Answer::Miss);
    Ok(looks)
}

fn look(cache: &Cache, run: u64, key: u32) -> Look {
    let begin_ns = journal::now_ns();
    let found = block_on(cache.get(&value::name_of(key)));
    let (answer, reading) = judged(run, key, &found);
    let seen = match reading {
        Some(Reading::Whole { version, .. }) => version,
        _ => 0,
    };
    let bytes = found.ok().flatten().map_or(0, |value| value.len());
    Look { key, answer, seen, begin_ns, bytes }
}

/// The name of the variant, without its fields.
fn name_of(recovery: &Recovery) -> String {
    let text = format!("{recovery:?}");
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
}
