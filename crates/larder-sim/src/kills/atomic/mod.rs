//! Scripts and transactions of many clients on the same keys, while a server demotes to flash and is killed.
//!
//! Clients write pairs of keys by scripts and in transactions, and read them in the same ways: both values must be of
//! one write. Some scripts never end; the server stops them, and nothing of them may stay. Counters are raised by
//! requests, transactions, and scripts in two calls, and no number may be told twice. Other sets fill the cache, so
//! that all of this goes to flash and comes back. Then the server is killed, and after the next start a pair must be
//! whole or have lost values: never one value of a write and one of another.
//!
//! | module | content |
//! |---|---|
//! | `connection` | a connection to the server |
//! | `pairs` | the keys and values, and what is wrong with them |
//! | `client` | a client that works, and one that reads everything |

mod client;
mod connection;
mod pairs;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use self::client::Client;
use self::pairs::Pair;
use super::choose::seeded;
use super::clients;
use super::served::{Process, lock};

/// Purpose of the random numbers of kills; clients have others.
const KILLS: u32 = 1000;
/// A server that takes longer than this to answer is considered hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtomicOptions {
    /// Number of kills.
    pub times: u32,
    /// Seed of everything except timing.
    pub seed: u64,
    /// Clients.
    pub clients: u32,
    /// Number of pairs of keys.
    pub groups: u32,
    /// Maximum time that a server is under load, in milliseconds.
    pub load_ms: u64,
}

/// A server from its start to its kill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AtomicRound {
    /// Values that were found after the start.
    pub found: u64,
    /// Answered requests.
    pub requests: u64,
    /// Pairs that were read in one step.
    pub judged: u64,
    /// Scripts that the server has stopped.
    pub stopped: u64,
}

/// The results of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtomicReport {
    /// The rounds, in order.
    pub rounds: Vec<AtomicRound>,
    /// What was wrong in the last round.
    pub wrong: Vec<String>,
}

/// A number that a client was told.
struct Counted {
    group: u32,
    number: i64,
}

/// State shared by all clients.
struct Shared<'o> {
    options: &'o AtomicOptions,
    wrong: Mutex<Vec<String>>,
    /// The numbers of this round, by group.
    counted: Mutex<HashSet<(u32, i64)>>,
    requests: AtomicU64,
    judged: AtomicU64,
    stopped: AtomicU64,
    is_over: AtomicBool,
}

/// Kills servers. `server` makes the command for a server that serves RESP on a free port of this machine, on the same
/// data each time, and reports that on standard output as `larder serve` does. The run ends with the first round that
/// has an error.
pub fn run_atomic(
    options: &AtomicOptions,
    server: &dyn Fn() -> Command,
    told: &mut dyn FnMut(u32, &AtomicRound),
) -> AtomicReport {
    let shared = Shared {
        options,
        wrong: Mutex::default(),
        counted: Mutex::default(),
        requests: AtomicU64::new(0),
        judged: AtomicU64::new(0),
        stopped: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    let mut report = AtomicReport::default();
    // One round more than kills, to judge what the last kill has left.
    for number in 1..=options.times + 1 {
        let mut round = AtomicRound::default();
        let ended = shared.round(number, server, &mut round);
        report.rounds.push(round);
        told(number, &round);
        report.wrong = std::mem::take(&mut *lock(&shared.wrong));
        report.wrong.extend(ended.err());
        if !report.wrong.is_empty() {
            break;
        }
    }
    let found: u64 = report.rounds.iter().map(|round| round.found).sum();
    if report.wrong.is_empty() && found == 0 && options.times > 0 {
        report.wrong.push("no value was found after any kill".into());
    }
    report
}

impl Shared<'_> {
    fn round(
        &self,
        number: u32,
        server: &dyn Fn() -> Command,
        round: &mut AtomicRound,
    ) -> Result<(), String> {
        let mut dice = seeded(self.options.seed, number, KILLS);
        let mut process = Process::start(&mut server(), "resp")?;
        let address = process.address(PATIENCE)?;
        lock(&self.counted).clear();
        self.is_over.store(false, Ordering::SeqCst);
        let read = |thread| client::read_all(self, address, thread);
        round.found = clients::all(self.options.clients, read)?.iter().sum();
        if number <= self.options.times {
            let load = Duration::from_millis(dice.u64(1..=self.options.load_ms));
            self.load(number, address, load, &mut process)?;
        } else {
            process.kill()?;
        }
        round.requests = self.requests.swap(0, Ordering::SeqCst);
        round.judged = self.judged.swap(0, Ordering::SeqCst);
        round.stopped = self.stopped.swap(0, Ordering::SeqCst);
        Ok(())
    }

    /// Lets clients work until the server is killed.
    fn load(
        &self,
        number: u32,
        address: SocketAddr,
        load: Duration,
        process: &mut Process,
    ) -> Result<(), String> {
        std::thread::scope(|scope| {
            let work = |thread| Client::new(self, number, thread).work(address);
            let working = scope.spawn(move || clients::all(self.options.clients, work));
            std::thread::sleep(load);
            let killed = process.kill();
            self.is_over.store(true, Ordering::SeqCst);
            working.join().map_err(|_| "a client panicked".to_owned())??;
            killed
        })
    }

    /// Judges a pair that was read in one step.
    fn judge(&self, group: u32, how: &str, pair: &Pair) {
        self.judged.fetch_add(1, Ordering::Relaxed);
        if let Some(wrong) = pairs::wrong_in(pair) {
            lock(&self.wrong).push(format!("pair {group}, read {how}: {wrong}"));
        }
    }

    /// A counter was raised to this number.
    fn counted(&self, counted: Counted) {
        let Counted { group, number } = counted;
        if !lock(&self.counted).insert((group, number)) {
            lock(&self.wrong).push(format!("counter {group}: two clients were told {number}"));
        }
    }
}
