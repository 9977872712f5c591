//! A whole server under `kill -9`: `larder serve` at full load is killed in the middle of it, again and again, and its
//! clients, which survive it, judge every answer.
//!
//! A round starts the server on the directory that earlier rounds have left, measures the time until it answers, reads
//! every key, and goes on changing and reading. Clients use classic memcached requests, each on a key that only one
//! client changes; in every third round there is a `flush_all`, for which all others wait. This process knows what was
//! acknowledged, so nothing has to be written down. Then the server is killed at a seeded time, sometimes before it
//! answers at all.
//!
//! Allowed is what the oracle of [`kills`](super) allows: a miss, the newest acknowledged version, or the version of a
//! request in flight. Everything else is wrong: an older version, a deleted or flushed one, or a corrupt value.
//!
//! | module | content |
//! |---|---|
//! | `process` | a server from start to end |
//! | `connection` | a connection to it |
//! | `client` | a client that works, and one that reads everything |

mod client;
mod connection;
mod process;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use self::client::{Asked, Client};
pub(super) use self::process::Process;
use super::choose::seeded;
use super::clients;
use super::journal::{self, Record};
use super::options::Options;
use super::oracle::{Kind, Oracle};

/// Percentage of kills before the server answers.
const EARLY_KILLS: u32 = 10;
/// Purpose of the random numbers of kills; clients have others.
const KILLS: u32 = 1000;
/// With more than this number of known values, some must be on flash.
const KNOWN_MIN: u64 = 20_000;
/// A server that takes longer than this to answer is considered hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedOptions {
    /// Number of kills.
    pub times: u32,
    /// Seed of everything except timing.
    pub seed: u64,
    /// Directory of the server's data.
    pub dir: PathBuf,
    /// Clients, 1 to 255.
    pub clients: u32,
    /// Number of keys, at least 256.
    pub keys: u32,
    /// Maximum time that a server is under load, in milliseconds.
    pub load_ms: u64,
    /// Maximum time from the start of a server until it answers, in milliseconds.
    pub start_ms: u64,
}

impl Default for ServedOptions {
    fn default() -> Self {
        Self {
            times: 20,
            seed: 0,
            dir: PathBuf::from("."),
            clients: 8,
            keys: 10_000,
            load_ms: 1500,
            start_ms: 1000,
        }
    }
}

/// A server from its start to its kill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServedRound {
    /// Time from its start until it answered; `None` if it was killed before.
    pub start: Option<Duration>,
    /// Keys with exactly one possible value.
    pub known: u64,
    /// Those of them that were found after the start.
    pub found: u64,
    /// Acknowledged requests.
    pub requests: u64,
    /// Acknowledged flushes of everything.
    pub flushes: u64,
    /// Requests in flight when it was killed.
    pub cut_off: u64,
}

/// The results of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedReport {
    /// The rounds, in order.
    pub rounds: Vec<ServedRound>,
    /// Wrong answers of the last round: the key, the kind of error, and the details.
    pub wrong: Vec<(u32, Kind, String)>,
    /// Any other failure of the last round.
    pub failed: Option<String>,
}

impl ServedReport {
    /// Whether nothing was wrong.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.failed.is_none()
    }
}

/// State shared by all clients.
struct Shared<'o> {
    options: &'o ServedOptions,
    oracle: Mutex<Oracle>,
    wrong: Mutex<Vec<(u32, Kind, String)>>,
    /// Held shared to change or read a key, and exclusively to flush.
    gate: RwLock<()>,
    requests: AtomicU64,
    flushes: AtomicU64,
    is_over: AtomicBool,
}

/// Kills servers. `server` makes the command for a server that serves memcached's clients on a free port of this
/// machine, with the data in `options.dir`, and reports that on standard output as `larder serve` does. The run ends
/// with the first round that has an error.
pub fn run_served(
    options: &ServedOptions,
    server: &dyn Fn() -> Command,
    told: &mut dyn FnMut(u32, &ServedRound),
) -> ServedReport {
    let shared = Shared::new(options);
    let mut report = ServedReport::default();
    // One round more than kills, to judge what the last kill has left.
    for number in 1..=options.times + 1 {
        let mut round = ServedRound::default();
        let ended = shared.round(number, server, &mut round);
        report.rounds.push(round);
        told(number, &round);
        report.failed = ended.err().or_else(|| shared.too_bad(&report.rounds));
        report.wrong = std::mem::take(&mut *lock(&shared.wrong));
        if !report.is_good() {
            break;
        }
    }
    report
}

impl<'o> Shared<'o> {
    fn new(options: &'o ServedOptions) -> Self {
        Self {
            options,
            oracle: Mutex::new(Oracle::new(options.keys)),
            wrong: Mutex::default(),
            gate: RwLock::default(),
            requests: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn round(
        &self,
        number: u32,
        server: &dyn Fn() -> Command,
        round: &mut ServedRound,
    ) -> Result<(), String> {
        let mut dice = seeded(self.options.seed, number, KILLS);
        let is_last = number > self.options.times;
        let mut process = Process::start(&mut server(), "memcached")?;
        if !is_last && number > 1 && dice.u32(0..100) < EARLY_KILLS {
            std::thread::sleep(Duration::from_millis(dice.u64(0..100)));
            return process.kill();
        }
        let address = process.address(PATIENCE)?;
        round.start = Some(process.started().elapsed());
        self.ask_for_all(address, round)?;
        if !is_last {
            let load = Duration::from_millis(dice.u64(1..=self.options.load_ms));
            self.load(number, address, load, &mut process)?;
        } else {
            process.kill()?;
        }
        round.requests = self.requests.swap(0, Ordering::SeqCst);
        round.flushes = self.flushes.swap(0, Ordering::SeqCst);
        round.cut_off = lock(&self.oracle).cut_off(journal::now_ns());
        Ok(())
    }

    fn ask_for_all(
        &self,
        address: std::net::SocketAddr,
        round: &mut ServedRound,
    ) -> Result<(), String> {
        let ask = |thread| client::ask_for_all(self, address, thread);
        for Asked { known, found } in clients::all(self.options.clients, ask)? {
            (round.known, round.found) = (round.known + known, round.found + found);
        }
        Ok(())
    }

    /// Lets clients work until the server is killed.
    fn load(
        &self,
        number: u32,
        address: std::net::SocketAddr,
        load: Duration,
        process: &mut Process,
    ) -> Result<(), String> {
        self.is_over.store(false, Ordering::SeqCst);
        let options = Options {
            seed: self.options.seed,
            threads: self.options.clients,
            keys: Some(self.options.keys),
            ..Options::default()
        };
        std::thread::scope(|scope| {
            let work = |thread| {
                let client = Client::new(self, &options, number, thread);
                scope.spawn(move || client.work(address))
            };
            let threads: Vec<_> = (0..self.options.clients).map(work).collect();
            std::thread::sleep(load);
            // Answers before this count as acknowledged; the clients notice that the server is gone.
            let killed = process.kill();
            self.is_over.store(true, Ordering::SeqCst);
            for thread in threads {
                thread.join().map_err(|_| "a client panicked".to_owned())??;
            }
            killed
        })
    }

    /// Records the begin or end of a request.
    fn follow(&self, record: &Record) -> Result<(), String> {
        let mut oracle = lock(&self.oracle);
        if let Some(kind) = oracle.follow(record)? {
            self.note_wrong(
                record.key,
                kind,
                format!("{record:?}; {}", oracle.allowed(record.key)),
            );
        }
        Ok(())
    }

    fn note_wrong(&self, key: u32, kind: Kind, text: String) {
        lock(&self.wrong).push((key, kind, text));
    }

    /// The error, if the last round took too long, or too little was found.
    fn too_bad(&self, rounds: &[ServedRound]) -> Option<String> {
        let last = rounds.last()?;
        let start_max = Duration::from_millis(self.options.start_ms);
        if let Some(start) = last.start.filter(|start| *start > start_max) {
            return Some(format!("it answered after {start:?}, and {start_max:?} is the most"));
        }
        let sum = |of: fn(&ServedRound) -> u64| rounds.iter().map(of).sum::<u64>();
        let known = sum(|round| round.known);
        // DRAM, which a kill clears, holds no more than some thousands.
        (known > KNOWN_MIN && sum(|round| round.found) == 0)
            .then(|| format!("none of {known} values was found after the kills"))
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
