//! Tenants: their load and what they see.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use larder_ssd::timed::Nanoseconds;
use larder_vssd::timed::{Completed, TimedVssds};
use larder_vssd::{MemoryImages, VssdId};

use super::failed;
use super::harvest::HarvestLog;
use super::log::Log;
use super::mixed::{Mixed, WRITTEN};
use super::search::Search;
use super::store::ObjectStore;
use super::window::Window;
use crate::Error;

/// The load of a tenant.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// Random reads: bytes of each, and the number in flight.
    Read(u64, usize),
    /// Appends: bytes of each, and the number in flight.
    Write(u64, usize),
    /// Reads everything sequentially and writes the same amount, as a job does with its input and output.
    Job(u64, usize),
    /// No requests.
    Idle,
    /// Random reads and overwrites of objects in a log that the tenant cleans: bytes of an object, and the number in
    /// flight.
    Objects(u64, usize),
    /// Like `Job`, also on blocks that are lent to it.
    Harvest(u64, usize),
    /// Requests in bursts, and nothing between them.
    Bursts(Bursts),
    /// Reads of a search engine. They arrive whether or not earlier ones are done.
    Search(Search),
    /// Random reads and appends that arrive at random. The log rewrites its blocks.
    Mixed(Mixed),
}

/// The load of a tenant that sleeps between bursts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bursts {
    /// Bytes of a request.
    pub(super) bytes: u64,
    /// Requests in flight.
    pub(super) depth: usize,
    /// Random reads and appends in turns; else appends alone.
    pub(super) reads: bool,
    /// Length of a burst, and time from one to the next.
    pub(super) on_ns: Nanoseconds,
    pub(super) period_ns: Nanoseconds,
    /// When the first burst begins.
    pub(super) first_ns: Nanoseconds,
    /// Percent of its blocks that are written at first, and at most.
    pub(super) filled: (u32, u32),
}

impl Bursts {
    /// When a request can be made that is due at `at`.
    fn next(&self, at: Nanoseconds) -> Nanoseconds {
        let Some(since) = at.checked_sub(self.first_ns) else { return self.first_ns };
        let into = since % self.period_ns;
        if into < self.on_ns { at } else { at - into + self.period_ns }
    }
}

/// What a tenant saw of the requests that it made in the measured window.
#[derive(Debug, Clone, Default)]
pub(super) struct TenantResult {
    /// Latency of each request in nanoseconds, without those in `wrote`.
    pub(super) took: Vec<u64>,
    /// Latency of each append of [`Pattern::Mixed`].
    pub(super) wrote: Vec<u64>,
    pub(super) bytes: u64,
}

impl TenantResult {
    /// Adds a completed request.
    pub(super) fn push(&mut self, done: Completed) {
        let class = if done.token & WRITTEN == 0 { &mut self.took } else { &mut self.wrote };
        class.push(done.at - done.submitted);
        self.bytes += done.token & !WRITTEN;
    }

    /// Adds the results of `other`.
    pub(super) fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.wrote.extend(other.wrote);
        self.bytes += other.bytes;
    }

    /// Millions of bytes a second.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn mb_s(&self, window: Window) -> f64 {
        self.bytes as f64 / 1e6 / window.seconds()
    }

    /// The `share` quantile of the latencies in microseconds: 0.99 is p99. NaN if there were no requests.
    pub(super) fn quantile_us(&mut self, share: f64) -> f64 {
        quantile_us(&mut self.took, share)
    }

    /// The same for the appends of [`Pattern::Mixed`].
    pub(super) fn wrote_quantile_us(&mut self, share: f64) -> f64 {
        quantile_us(&mut self.wrote, share)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn quantile_us(took: &mut [u64], share: f64) -> f64 {
    if took.is_empty() {
        return f64::NAN;
    }
    let at = ((took.len() as f64 * share) as usize).min(took.len() - 1);
    *took.select_nth_unstable(at).1 as f64 / 1000.0
}

/// A tenant on a vSSD.
#[derive(Debug)]
pub(super) struct Tenant {
    pattern: Pattern,
    vssd: VssdId,
    kept: Kept,
    rng: fastrand::Rng,
    /// The next requests, one for each request in flight.
    due: BinaryHeap<Reverse<Due>>,
    asked: u64,
}

/// When a request is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Nanoseconds,
    /// Whether it follows a completed one. Others arrive by themselves.
    follows: bool,
}

/// The data of a tenant.
#[derive(Debug)]
enum Kept {
    Log(Log),
    Harvest(Box<HarvestLog>),
    Objects(Box<ObjectStore>),
}

const PAGE: u64 = 4096;

impl Tenant {
    /// Makes a tenant on a fresh vSSD.
    pub(super) fn new(
        timed: &mut TimedVssds<MemoryImages>,
        vssd: VssdId,
        pattern: Pattern,
        seed: u64,
    ) -> Result<Self, Error> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let kept = match pattern {
            Pattern::Objects(bytes, _) => {
                let pages = u32::try_from(bytes / PAGE).unwrap_or(u32::MAX);
                Kept::Objects(Box::new(ObjectStore::new(timed, vssd, pages, &mut rng)?))
            }
            Pattern::Harvest(..) => Kept::Harvest(Box::new(HarvestLog::new(timed, vssd)?)),
            Pattern::Bursts(bursts) => Kept::Log(Log::partly_filled(timed, vssd, bursts.filled)?),
            _ => Kept::Log(Log::new(timed, vssd)?),
        };
        let depth = match &pattern {
            Pattern::Read(_, depth)
            | Pattern::Write(_, depth)
            | Pattern::Job(_, depth)
            | Pattern::Harvest(_, depth)
            | Pattern::Objects(_, depth) => *depth,
            Pattern::Bursts(bursts) => bursts.depth,
            Pattern::Search(_) => 1,
            Pattern::Mixed(mixed) => mixed.in_flight(),
            Pattern::Idle => 0,
        };
        let at = if let Pattern::Bursts(bursts) = &pattern { bursts.first_ns } else { 0 };
        let mut due: BinaryHeap<_> =
            (0..depth).map(|_| Reverse(Due { at, follows: true })).collect();
        if let Pattern::Mixed(_) = &pattern {
            due.push(Reverse(Due { at, follows: false }));
        }
        Ok(Self { pattern, vssd, kept, rng, due, asked: 0 })
    }

    /// The vSSD whose completions belong to this tenant.
    pub(super) fn vssd(&self) -> VssdId {
        self.vssd
    }

    /// Reads of lent blocks that were gone.
    pub(super) fn misses(&self) -> u64 {
        if let Kept::Harvest(log) = &self.kept { log.misses() } else { 0 }
    }

    pub(super) fn next_at(&self) -> Option<Nanoseconds> {
        self.due.peek().map(|Reverse(due)| due.at)
    }

    /// Makes the requests that are due at `now`.
    pub(super) fn ask(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
    ) -> Result<(), Error> {
        while self.next_at().is_some_and(|at| at <= now)
            && let Some(Reverse(due)) = self.due.pop()
        {
            self.ask_one(timed, now, due)?;
            self.asked += 1;
        }
        Ok(())
    }

    /// The token of a request is its number of bytes, and [`WRITTEN`] where appends are measured apart.
    fn ask_one(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
        this: Due,
    ) -> Result<(), Error> {
        let Self { pattern, kept, rng, due, asked, .. } = self;
        let log = match kept {
            Kept::Log(log) => log,
            Kept::Harvest(log) => {
                let Pattern::Harvest(bytes, _) = *pattern else { unreachable!("made for them") };
                let pages = bytes / PAGE;
                if asked.is_multiple_of(2) {
                    return log.read(timed, now, (*asked / 2, pages), bytes);
                }
                return log.append(timed, now, u32::try_from(pages).unwrap_or(u32::MAX), bytes);
            }
            Kept::Objects(objects) => {
                let Pattern::Objects(bytes, _) = pattern else { unreachable!("made for them") };
                return objects.ask(timed, now, rng, *bytes);
            }
        };
        let (bytes, read) = match pattern {
            Pattern::Read(bytes, _) => (*bytes, Some(log.somewhere(rng, *bytes / PAGE))),
            Pattern::Idle | Pattern::Objects(..) | Pattern::Harvest(..) => return Ok(()),
            Pattern::Bursts(bursts) => {
                let reads = bursts.reads && asked.is_multiple_of(2);
                (bursts.bytes, reads.then(|| log.somewhere(rng, bursts.bytes / PAGE)))
            }
            Pattern::Write(bytes, _) => (*bytes, None),
            Pattern::Job(bytes, _) => {
                let reads = asked.is_multiple_of(2);
                (*bytes, reads.then(|| log.nth(*asked / 2, *bytes / PAGE)))
            }
            Pattern::Search(search) => {
                let (wait_ns, bytes) = search.next(rng);
                due.push(Reverse(Due { at: now + wait_ns, ..this }));
                (bytes, Some(log.somewhere(rng, bytes / PAGE)))
            }
            Pattern::Mixed(mixed) => {
                let reads = !this.follows && mixed.reads(rng);
                if !this.follows {
                    due.push(Reverse(Due { at: this.at + mixed.wait_ns(rng), ..this }));
                }
                (mixed.bytes, reads.then(|| log.somewhere(rng, mixed.bytes / PAGE)))
            }
        };
        let written = if let Pattern::Mixed(_) = pattern { WRITTEN } else { 0 };
        match read {
            Some((block, at)) => {
                timed.read(now, log.vssd, block, at, bytes / PAGE, bytes).map_err(failed)
            }
            None => {
                let pages = u32::try_from(bytes / PAGE).unwrap_or(u32::MAX);
                log.append(timed, now, pages, bytes | written)
            }
        }
    }

    /// A request is done. A closed-loop tenant then makes its next request.
    pub(super) fn done(&mut self, completed: Completed) {
        let at = match &self.pattern {
            Pattern::Search(_) => return,
            Pattern::Mixed(mixed) if !mixed.follows(completed.token) => return,
            Pattern::Bursts(bursts) => bursts.next(completed.at),
            _ => completed.at,
        };
        self.due.push(Reverse(Due { at, follows: true }));
    }
}
