//! Actions of the administrator while clients work: modes, policies, flushes, queries.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::{Run, lock, process};

/// Poll interval while waiting for operations of clients.
const POLL: Duration = Duration::from_millis(2);
/// Maximum number of requests that end between two commands.
const PAUSE_OPS_MAX: u64 = 4_000;

const MODES: [&str; 8] = ["wb", "wb", "wt", "wa", "wi", "wo", "pt", "wb"];
const CLEANING: [&[&str]; 4] = [
    &["nop"],
    &["acp"],
    &["acp", "wake-up=1ms", "limit=20M", "high=40", "low=20"],
    &["alru", "wake-up=1", "staleness=1", "activity=0"],
];
const CUT_OFF: [&[&str]; 3] = [&["never"], &["always", "threshold=64K"], &["full", "threshold=1M"]];
const READ_AHEAD: [&[&str]; 3] =
    [&["off"], &["on", "threshold=4K", "window=64K"], &["on", "window=1M"]];
const PROMOTION: [&[&str]; 2] = [&["always"], &["nhit", "threshold=2", "trigger=50"]];
const ROUTING: [&[&str]; 2] = [&["off"], &["split", "core=40"]];
const BYPASS: [&str; 3] = ["never", "cost", "full"];

impl Run<'_> {
    /// Runs commands until the server is told to end. Returns the number of commands that succeeded.
    pub(super) fn administer(&self, mut rng: Rng) -> Result<u64, String> {
        let mut done = 0;
        loop {
            let until = self.operations() + rng.u64(1..=PAUSE_OPS_MAX);
            while self.operations() < until {
                if self.is_over.load(Ordering::SeqCst) {
                    return Ok(done);
                }
                thread::sleep(POLL);
            }
            let words = drawn(&mut rng, self.options.cores);
            match self.asked(&words) {
                Ok(()) => done += 1,
                // The server may have ended during the command.
                Err(_) if self.is_over.load(Ordering::SeqCst) => return Ok(done),
                Err(why) => return Err(why),
            }
        }
    }

    /// Runs a command, and records which data may be dirty from then on.
    fn asked(&self, words: &[String]) -> Result<(), String> {
        let mode = words.first().filter(|word| *word == "mode").and(words.get(1));
        let is_flush = words.first().is_some_and(|word| word == "flush");
        let may_be_dirty = mode.map(|mode| may_be_dirty(mode));
        if may_be_dirty == Some(true) {
            lock(self.shadow).owed().set_may_be_dirty(true);
        }
        let asked = lock(self.shadow).now();
        self.ask(words)?;
        let mut shadow = lock(self.shadow);
        if may_be_dirty == Some(false) {
            shadow.owed().set_may_be_dirty(false);
        }
        if is_flush {
            shadow.flushed(words.get(1).and_then(|core| core.parse().ok()), asked);
        }
        Ok(())
    }

    /// Sends a command to the running server.
    pub(super) fn ask(&self, words: &[String]) -> Result<(), String> {
        let socket = self.socket().display().to_string();
        let mut all: Vec<&str> = words.iter().map(String::as_str).collect();
        all.extend(["--unix", &socket]);
        process::said(&self.options.larder, &all).map(drop)
    }
}

/// Whether data written in this mode may be only on the cache device.
pub(super) fn may_be_dirty(mode: &str) -> bool {
    matches!(mode, "wb" | "wo" | "write-back" | "write-only")
}

/// Draws a command.
fn drawn(rng: &mut Rng, cores: u64) -> Vec<String> {
    let of = |name: &str, words: &[&str]| {
        std::iter::once(name).chain(words.iter().copied()).map(str::to_owned).collect()
    };
    match rng.u32(0..14) {
        0..5 => {
            let no_flush: &[&str] = if rng.u32(0..3) == 0 { &["--no-flush"] } else { &[] };
            let mode = MODES[rng.usize(0..MODES.len())];
            of("mode", &[&[mode], no_flush].concat())
        }
        5 => of("flush", &[]),
        6 => of("flush", &[&rng.u64(0..cores).to_string()]),
        7 => of("cleaning", CLEANING[rng.usize(0..CLEANING.len())]),
        8 => of("cut-off", CUT_OFF[rng.usize(0..CUT_OFF.len())]),
        9 => of("promotion", PROMOTION[rng.usize(0..PROMOTION.len())]),
        10 => of("routing", ROUTING[rng.usize(0..ROUTING.len())]),
        11 => of("read-ahead", READ_AHEAD[rng.usize(0..READ_AHEAD.len())]),
        12 => of("bypass", &[BYPASS[rng.usize(0..BYPASS.len())]]),
        _ => of(["dirty", "stats", "status"][rng.usize(0..3)], &[]),
    }
}

/// Draws the options with which a server is started, without its addresses.
pub(super) fn start_words(rng: &mut Rng) -> Vec<String> {
    let joined = |words: &[&str]| words.join(",");
    let mut words = vec!["--threads".to_owned(), rng.u32(1..=3).to_string()];
    words.extend(["--sockets".to_owned(), ["io_uring", "epoll"][rng.usize(0..2)].to_owned()]);
    words.extend(["--cleaning".to_owned(), joined(CLEANING[rng.usize(0..CLEANING.len())])]);
    words.extend(["--bypass".to_owned(), BYPASS[rng.usize(0..BYPASS.len())].to_owned()]);
    words.extend(["--cut-off".to_owned(), joined(CUT_OFF[rng.usize(0..CUT_OFF.len())])]);
    let ahead = joined(READ_AHEAD[rng.usize(0..READ_AHEAD.len())]);
    words.extend(["--read-ahead".to_owned(), ahead]);
    words
}
