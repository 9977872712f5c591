//! A block cache in a process of its own, under load by NBD: several connections read, write, trim, zero and flush,
//! against a shadow that knows every sector, while an administrator changes modes and policies, a core comes and goes,
//! and the server ends again and again, in order or by `kill -9`.
//!
//! A round starts `larder block start` on what the rounds before have left, reads what the start has found, all of it
//! or a part, and lets clients work until so many requests have ended. Then the server is killed, or told to end; one
//! that was told to leave nothing dirty has its cores read without it. The last round is one of these. A kill takes no
//! power: what this process was answered has to be there.
//!
//! Several files take turns as the core that comes and goes. When one is taken away it has by itself all that was
//! answered, whatever becomes of the server; then it is changed now and then, and comes again, with a number that the
//! other may have had. A kill may come in the middle of both: the label says which cores there are then, those of
//! before or those of afterwards.
//!
//! | module | what it is |
//! |---|---|
//! | `content` | sectors that say whose they are |
//! | `history` | what each may hold, while changes of it overlap |
//! | `owed` | which of them a start may find dirty |
//! | `shadow` | all of them, and the requests under way |
//! | `draw` | which request comes next |
//! | `wire` | a connection |
//! | `client` | who works on one, and who reads what a start has found |
//! | `beside` | what an administrator does meanwhile |
//! | `visit` | the core that comes and goes |
//! | `stand` | where it is, as far as it is known |
//! | `numbers` | which number it may have |
//! | `tally` | what has come of it |
//! | `bare` | files by themselves |
//! | `round` | from a start to its end |
//! | `process` | the server |

mod bare;
mod beside;
mod client;
mod content;
mod draw;
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

use self::client::End;
use self::content::SECTOR_BYTES;
use self::draw::{Request, Verb};
use self::shadow::Shadow;
pub use self::shadow::Wrong;
use self::stand::Stand;
use self::tally::Visits;

/// The purposes of randomness beside those of clients.
const ROUNDS: u32 = 10_000;
const ADMINISTRATION: u32 = 10_001;
const LOOKS: u32 = 10_002;
const CROWDS: u32 = 10_003;
const VISITORS: u32 = 10_004;
/// The first of those that visits have.
const VISITS: u32 = 20_000;

/// What a run shall do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The program `larder`.
    pub larder: PathBuf,
    /// Requests that have ended when it is over.
    pub ops: u64,
    /// Seed of requests, commands and ends.
    pub seed: u64,
    /// Where the files are; it is emptied.
    pub dir: PathBuf,
    /// `log`, `ocf22`, `ocf26`, `wal`, or `dax` for the log on a file that is mapped.
    pub layout: String,
    /// Connections, at least 1; each goes to one core.
    pub connections: u32,
    /// The most requests that a connection has under way, at least 1.
    pub depth: usize,
    /// Cores that stay, 1 to 16.
    pub cores: u64,
    /// Files that take turns as a core that comes and goes; 0: none does.
    pub visitors: u64,
    /// Bytes of each core, whole blocks of 4096.
    pub core_bytes: u64,
    /// Bytes of the cache device.
    pub cache_bytes: u64,
    /// The most requests of a round.
    pub round_ops: u64,
}

impl Options {
    fn core_sectors(&self) -> u64 {
        self.core_bytes / SECTOR_BYTES as u64
    }

    /// All that are cores, or will be.
    fn files(&self) -> u64 {
        self.cores + self.visitors
    }
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By SIGKILL, under load.
    Kill,
    /// By SIGTERM, under load; what is dirty stays so.
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

    /// Whether cores have everything afterwards.
    fn leaves_nothing_dirty(self) -> bool {
        matches!(self, Self::Flush | Self::Detach)
    }
}

/// A server from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// What it said it had found.
    pub found: String,
    /// Requests of all rounds so far.
    pub ops: u64,
    /// Commands of the administrator that succeeded.
    pub commands: u64,
    /// How it ended.
    pub ending: Ending,
    /// Requests whose end nobody knows.
    pub cut_off: usize,
}

/// What a run has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// One after the other.
    pub rounds: Vec<Round>,
    /// Requests that ended: reads, writes, trims, write-zeroes, flushes; and those of the changes that had FUA.
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
    /// Requests that were sent while others were under way that changed what they wanted, or the other way round.
    pub met: u64,
    /// Bytes that were read and compared.
    pub read_bytes: u64,
    /// How often a core came; and how often by a number that it, or another file, had before.
    pub came: u64,
    /// See `came`.
    pub came_again: u64,
    /// How often one was taken away.
    pub went: u64,
    /// Changes of files that were no cores then.
    pub past: u64,
    /// Requests that were refused, or whose end nobody knows, for a core was taken away.
    pub refused: u64,
    /// Commands that the end of the server has cut off: additions that were not made, additions that were, removals
    /// that were not made, removals that were.
    pub halves: [u64; 4],
    /// Sectors that were not what they had to be.
    pub wrong: Vec<Wrong>,
    /// What else was wrong.
    pub failed: Option<String>,
}

impl Report {
    /// Whether nothing was wrong.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.failed.is_none()
    }
}

/// Runs it, and shows each round.
pub fn run(options: &Options, show: &mut dyn FnMut(&Round)) -> Report {
    let run = Run {
        options,
        shadow: Mutex::new(Shadow::new(options.seed, options.files(), options.core_sectors())),
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
    report.met = lock(&run.shadow).met();
    let visits = &run.visits;
    (report.came, report.came_again) = (of(&visits.came), of(&visits.came_again));
    (report.went, report.past) = (of(&visits.went), of(&visits.past));
    (report.refused, report.halves) = (of(&visits.cut_off), visits.halves.each_ref().map(of));
    report
}

/// What the threads of a run share.
struct Run<'a> {
    options: &'a Options,
    shadow: Mutex<Shadow>,
    /// The server is told to end, or something is wrong.
    is_over: AtomicBool,
    /// Something is wrong: nobody goes on.
    has_failed: AtomicBool,
    /// The server is about to end: a core is to come or to go at once.
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

    /// Of a core that stays, or of what comes and goes.
    fn file_path(&self, file: u64) -> PathBuf {
        let cores = self.options.cores;
        let name = match file.checked_sub(cores) {
            None => format!("core{file}"),
            Some(visitor) => format!("visitor{visitor}"),
        };
        self.options.dir.join(name)
    }

    fn cache_path(&self) -> PathBuf {
        self.options.dir.join("cache")
    }

    /// As the command line names it.
    fn cache(&self) -> String {
        let kind = if self.options.layout == "dax" { "dax" } else { "file" };
        format!("{kind}:{}", self.cache_path().display())
    }

    /// What a purpose takes its randomness from.
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
