//! A block cache in a separate process, under load by NBD: several connections read, write, trim, zero and flush,
//! compared with a shadow of every sector, while an administrator changes modes and policies, a core is added and
//! removed, and the server ends again and again, in order or by `kill -9`.
//!
//! A round starts `larder block start` on the state that earlier rounds have left, reads all or a part of the cores,
//! and lets clients work until a given number of requests has ended. Then the server is killed, or told to end. If it
//! was told to leave nothing dirty, its cores are then read without it; the last round is one of these. A kill is not a
//! power loss: all acknowledged data must be present.
//!
//! Several files take turns as a core that is added and removed, the visitor. When it is removed, its file alone has
//! all acknowledged data, whatever happens to the server. Then the file may be changed, and is added again, with a
//! number that another file may have had before. A kill may interrupt both: the label then lists the cores either as
//! before or as after the command.
//!
//! | module | content |
//! |---|---|
//! | `content` | sectors that identify themselves |
//! | `history` | the possible contents of a sector, while changes of it overlap |
//! | `owed` | the sectors that may be dirty at a start |
//! | `shadow` | all sectors, and the requests in flight |
//! | `draw` | draws the next request |
//! | `wire` | a connection |
//! | `client` | clients that work, and the reading of cores after a start |
//! | `beside` | actions of the administrator |
//! | `visit` | the visitor: the core that is added and removed |
//! | `stand` | the known state of the visitor |
//! | `numbers` | the numbers that the visitor may have |
//! | `tally` | counters of the visitor |
//! | `end` | why a thread ends |
//! | `files` | the files, and access to them without the cache |
//! | `round` | a server from start to end |
//! | `process` | the server process |

mod beside;
mod client;
mod content;
mod draw;
mod end;
mod files;
mod history;
mod numbers;
mod owed;
mod process;
mod round;
mod shadow;
mod stand;
mod tally;
mod visit;
mod wire;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fastrand::Rng;

use self::content::SECTOR_BYTES;
use self::draw::{Request, Verb};
use self::end::End;
use self::files::Files;
use self::shadow::Shadow;
pub use self::shadow::Wrong;
use self::stand::Stand;
use self::tally::Visits;

/// Purposes of random numbers, in addition to those of clients.
const ROUNDS: u32 = 10_000;
const ADMINISTRATION: u32 = 10_001;
const LOOKS: u32 = 10_002;
const CROWDS: u32 = 10_003;
const VISITORS: u32 = 10_004;
/// The first purpose of visits.
const VISITS: u32 = 20_000;

/// Options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The program `larder`.
    pub larder: PathBuf,
    /// Number of requests after which it ends.
    pub ops: u64,
    /// Seed of requests, commands and endings.
    pub seed: u64,
    /// Directory of the files; it is emptied.
    pub dir: PathBuf,
    /// `log`, `ocf22`, `ocf26`, `wal`, or `dax` for the log on a mapped file.
    pub layout: String,
    /// Connections, at least 1; each uses one core.
    pub connections: u32,
    /// Maximum queue depth of a connection, at least 1.
    pub depth: usize,
    /// Permanent cores, 1 to 16.
    pub cores: u64,
    /// Files that take turns as the visitor; 0: there is no visitor.
    pub visitors: u64,
    /// Bytes of each core, in whole blocks of 4096.
    pub core_bytes: u64,
    /// Bytes of the cache device.
    pub cache_bytes: u64,
    /// Maximum number of requests of a round.
    pub round_ops: u64,
}

impl Options {
    fn core_sectors(&self) -> u64 {
        self.core_bytes / SECTOR_BYTES as u64
    }

    /// Number of files that are cores at some time.
    fn files(&self) -> u64 {
        self.cores + self.visitors
    }
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By SIGKILL, under load.
    Kill,
    /// By SIGTERM, under load; dirty data stays dirty.
    Terminate,
    /// By `larder block stop --flush`, under load.
    Flush,
    /// By `larder block detach` and then `stop`, under load.
    Detach,
}

impl Ending {
    fn drawn(rng: &mut Rng) -> Self {
        match rng.u32(0..10) {
            0..5 => Self::Kill,
            5..7 => Self::Terminate,
            7 => Self::Flush,
            _ => Self::Detach,
        }
    }

    /// Whether the cores have all data afterwards.
    fn leaves_nothing_dirty(self) -> bool {
        matches!(self, Self::Flush | Self::Detach)
    }
}

/// A server from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// What it reported to have found.
    pub found: String,
    /// Requests of all rounds so far.
    pub ops: u64,
    /// Commands of the administrator that succeeded.
    pub commands: u64,
    /// How it ended.
    pub ending: Ending,
    /// Requests with an unknown result.
    pub cut_off: usize,
}

/// The results of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The rounds, in order.
    pub rounds: Vec<Round>,
    /// Requests that ended: reads, writes, trims, write-zeroes, flushes; and the number of changes with FUA.
    pub reads: u64,
    /// See `reads`.
    pub writes: u64,
    /// See `reads`.
    pub trims: u64,
    /// See `reads`.
    pub zeroes: u64,
    /// See `reads`.
    pub flushes: u64,
    /// See `reads`.
    pub durable: u64,
    /// Requests that overlapped, when they were sent, with others in flight with which they do not commute.
    pub met: u64,
    /// Bytes that were read and compared.
    pub read_bytes: u64,
    /// Number of times that the visitor was added; and of those with a number that it or another file had before.
    pub came: u64,
    /// See `came`.
    pub came_again: u64,
    /// Number of times that it was removed.
    pub went: u64,
    /// Changes to files while they were not cores.
    pub past: u64,
    /// Requests that were refused, or have an unknown result, because the visitor was removed.
    pub refused: u64,
    /// Commands that the end of the server interrupted: additions that did not happen, additions that did, removals
    /// that did not happen, removals that did.
    pub halves: [u64; 4],
    /// Sectors with wrong content.
    pub wrong: Vec<Wrong>,
    /// Any other failure.
    pub failed: Option<String>,
}

impl Report {
    /// Whether nothing was wrong.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.failed.is_none()
    }
}

/// Runs the test, and passes each round to `show`.
pub fn run(options: &Options, show: &mut dyn FnMut(&Round)) -> Report {
    let shadow = Mutex::new(Shadow::new(options.seed, options.files(), options.core_sectors()));
    let run = Run {
        options,
        shadow: &shadow,
        files: Files::new(options, &shadow),
        is_over: AtomicBool::new(false),
        has_failed: AtomicBool::new(false),
        hurries: AtomicBool::new(false),
        stand: Mutex::new(Stand::Out),
        visits: Visits::default(),
        counts: Counts::default(),
    };
    let mut report = Report::default();
    match run.rounds(&mut report.rounds, show) {
        Ok(()) => {}
        Err(End::Wrong(wrong)) => report.wrong.push(wrong),
        Err(End::Failed(why)) => report.failed = Some(why),
        Err(End::Gone) => report.failed = Some("the server is gone".to_owned()),
    }
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Counts { verbs: [reads, writes, trims, zeroes, flushes], durable, read_bytes, .. } =
        &run.counts;
    (report.reads, report.writes, report.trims) = (of(reads), of(writes), of(trims));
    (report.zeroes, report.flushes) = (of(zeroes), of(flushes));
    (report.durable, report.read_bytes) = (of(durable), of(read_bytes));
    report.met = lock(run.shadow).met();
    let visits = &run.visits;
    (report.came, report.came_again) = (of(&visits.came), of(&visits.came_again));
    (report.went, report.past) = (of(&visits.went), of(&visits.past));
    (report.refused, report.halves) = (of(&visits.cut_off), visits.halves.each_ref().map(of));
    report
}

/// State shared by the threads of a run.
struct Run<'a> {
    options: &'a Options,
    shadow: &'a Mutex<Shadow>,
    files: Files<'a>,
    /// The server was told to end, or something is wrong.
    is_over: AtomicBool,
    /// Something is wrong: all threads stop.
    has_failed: AtomicBool,
    /// The server is about to end: the visitor should be added or removed at once.
    hurries: AtomicBool,
    stand: Mutex<Stand>,
    visits: Visits,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    operations: AtomicU64,
    verbs: [AtomicU64; 5],
    durable: AtomicU64,
    read_bytes: AtomicU64,
}

impl Run<'_> {
    fn socket(&self) -> PathBuf {
        self.options.dir.join("s")
    }

    /// The random numbers of a purpose in a round.
    fn rng(&self, round: u32, purpose: u32) -> Rng {
        let mut mix = Rng::with_seed(self.options.seed);
        let (first, second) = (mix.u64(..), mix.u64(..));
        Rng::with_seed(first ^ u64::from(round).wrapping_mul(second | 1) ^ u64::from(purpose) << 40)
    }

    /// Requests that have ended.
    fn operations(&self) -> u64 {
        self.counts.operations.load(Ordering::Relaxed)
    }

    fn count(&self, request: &Request) {
        let at = match request.verb {
            Verb::Read => 0,
            Verb::Write => 1,
            Verb::Trim => 2,
            Verb::WriteZeroes => 3,
            Verb::Flush => 4,
        };
        if request.verb == Verb::Read {
            self.counts.read_bytes.fetch_add(request.bytes() as u64, Ordering::Relaxed);
        }
        self.counts.verbs[at].fetch_add(1, Ordering::Relaxed);
        self.counts.durable.fetch_add(u64::from(request.fua), Ordering::Relaxed);
        self.counts.operations.fetch_add(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
