//! A block cache in a process of its own, under load by NBD: several connections read, write, trim, zero and flush,
//! against a shadow that knows every sector, while an administrator changes modes and policies, and the server ends
//! again and again, in order or by `kill -9`.
//!
//! A round starts `larder block start` on what the rounds before have left, reads what the start has found, all of it
//! or a part, and lets clients work until so many requests have ended. Then the server is killed, or told to end; one
//! that was told to leave nothing dirty has its cores read without it. The last round is one of these. A kill takes no
//! power: what this process was answered has to be there.
//!
//! | module | what it is |
//! |---|---|
//! | `content` | sectors that say whose they are |
//! | `history` | what each may hold, while changes of it overlap |
//! | `shadow` | all of them, and the requests under way |
//! | `draw` | which request comes next |
//! | `wire` | a connection |
//! | `client` | who works on one, and who reads what a start has found |
//! | `beside` | what an administrator does meanwhile |
//! | `process` | the server |

mod beside;
mod client;
mod content;
mod draw;
mod history;
mod process;
mod shadow;
mod wire;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use self::client::End;
use self::content::SECTOR_BYTES;
use self::draw::{Request, Verb};
use self::process::Process;
use self::shadow::Shadow;
pub use self::shadow::Wrong;

/// How often is looked whether a round is long enough.
const POLL: Duration = Duration::from_millis(2);
/// The purposes of randomness beside those of clients.
const ROUNDS: u32 = 10_000;
const ADMINISTRATION: u32 = 10_001;
const LOOKS: u32 = 10_002;
const CROWDS: u32 = 10_003;

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
    /// Cores, 1 to 16.
    pub cores: u64,
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
        shadow: Mutex::new(Shadow::new(options.seed, options.cores, options.core_sectors())),
        is_over: AtomicBool::new(false),
        has_failed: AtomicBool::new(false),
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

    fn core_path(&self, core: u64) -> PathBuf {
        self.options.dir.join(format!("core{core}"))
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

    fn rounds(&self, rounds: &mut Vec<Round>, show: &mut dyn FnMut(&Round)) -> Result<(), End> {
        self.make().map_err(End::Failed)?;
        for number in 0.. {
            let round = self.round(number)?;
            show(&round);
            rounds.push(round);
            if self.operations() >= self.options.ops {
                break;
            }
        }
        Ok(())
    }

    /// Files of zeros, and the cache on one of them.
    fn make(&self) -> Result<(), String> {
        let dir = &self.options.dir;
        let told = |error: std::io::Error| format!("{}: {error}", dir.display());
        if dir.exists() {
            fs::remove_dir_all(dir).map_err(told)?;
        }
        fs::create_dir_all(dir).map_err(told)?;
        let sized = |path: PathBuf, bytes| File::create(path)?.set_len(bytes);
        sized(self.cache_path(), self.options.cache_bytes).map_err(told)?;
        let cache = self.cache();
        let mut words = vec!["create".to_owned(), cache, "--mode".to_owned(), "wb".to_owned()];
        match self.options.layout.as_str() {
            "dax" => {}
            layout => words.extend(["--layout".to_owned(), layout.to_owned()]),
        }
        if matches!(self.options.layout.as_str(), "dax" | "log") {
            // Small ones, so that many are written over.
            words.extend(["--segment".to_owned(), "512K".to_owned()]);
        }
        for core in 0..self.options.cores {
            let path = self.core_path(core);
            words.extend(["--core".to_owned(), format!("{core}={}", path.display())]);
            sized(path, self.options.core_bytes).map_err(told)?;
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        process::command(&self.options.larder, &words)
    }

    fn round(&self, number: u32) -> Result<Round, End> {
        let mut rng = self.rng(number, ROUNDS);
        self.is_over.store(false, Ordering::SeqCst);
        let mut command = Command::new(&self.options.larder);
        command.args(["block", "start", &self.cache(), "--unix"]).arg(self.socket());
        command.args(beside::start_words(&mut rng));
        let (process, found) = Process::start(&mut command).map_err(End::Failed)?;
        match self.look(&mut self.rng(number, LOOKS)) {
            End::Gone => {}
            other => return Err(other),
        }
        let until = self.operations() + rng.u64(1..=self.options.round_ops);
        let is_last = until >= self.options.ops;
        let ending = if is_last { Ending::Detach } else { Ending::drawn(&mut rng) };
        let commands = self.load(number, until, ending, process)?;
        let cut_off = lock(&self.shadow).server_gone();
        if ending.leaves_nothing_dirty() {
            for core in 0..self.options.cores {
                self.compare(core)?;
            }
        }
        Ok(Round { found, ops: self.operations(), commands, ending, cut_off })
    }

    /// Lets clients work until so many requests have ended, and ends the server. Returns how many commands were given.
    fn load(&self, number: u32, until: u64, ending: Ending, process: Process) -> Result<u64, End> {
        thread::scope(|scope| {
            let work = |client| scope.spawn(move || self.work(number, client));
            let clients: Vec<_> = (0..self.options.connections).map(work).collect();
            let administration = self.rng(number, ADMINISTRATION);
            let administrator = scope.spawn(move || self.administer(administration));
            while self.operations() < until && !self.is_over.load(Ordering::SeqCst) {
                thread::sleep(POLL);
            }
            let was_over = self.is_over.swap(true, Ordering::SeqCst);
            self.has_failed.fetch_or(was_over, Ordering::SeqCst);
            let ended = if was_over { process.kill() } else { self.end(ending, process) };
            let mut wrong = None;
            for client in clients {
                match client.join() {
                    Ok(End::Gone) => {}
                    Ok(end) => wrong = wrong.or(Some(end)),
                    Err(_) => wrong = Some(End::Failed("a client panicked".to_owned())),
                }
            }
            let administered = administrator.join();
            let administered = administered.map_err(|_| "the administrator panicked".to_owned());
            match wrong {
                Some(end) => Err(end),
                None => ended.and(administered.and_then(|it| it)).map_err(End::Failed),
            }
        })
    }

    fn end(&self, ending: Ending, process: Process) -> Result<(), String> {
        match ending {
            Ending::Kill => return process.kill(),
            Ending::Terminate => process.terminate()?,
            Ending::Flush => self.ask(&["stop".to_owned(), "--flush".to_owned()])?,
            Ending::Detach => {
                self.ask(&["detach".to_owned()])?;
                self.ask(&["stop".to_owned()])?;
            }
        }
        process.ended()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
