//! A client that changes and reads its own keys, and one that reads all of them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::{Shared, lock};
use crate::kills::choose::{Chooser, Request, seeded};
use crate::kills::clients::ends_with_server;
use crate::kills::journal::{Answer, Moment, Record, Verb, now_ns};
use crate::kills::options::Options;
use crate::kills::value::{self, Piece, Reading};

/// In one round of this number the first client flushes everything; in the others flash should fill up.
const FLUSHING_ROUNDS: u32 = 3;
/// Purpose of the random numbers of flushes; clients and kills have others.
const FLUSHES: u32 = 1001;

/// Results of the reads after a start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    /// Keys with exactly one possible value.
    pub(super) known: u64,
    /// Those of them that were found.
    pub(super) found: u64,
}

/// Reads every key of client `thread`.
pub(super) fn ask_for_all(
    shared: &Shared<'_>,
    address: SocketAddr,
    thread: u32,
) -> Result<Asked, String> {
    let gone = |error: io::Error| format!("the server does not answer a client: {error}");
    let mut connection = Connection::to(address).map_err(gone)?;
    let mut asked = Asked::default();
    for key in (thread..shared.options.keys).step_by(shared.options.clients as usize) {
        let begin_ns = now_ns();
        let found = connection.get(&value::name_of(key)).map_err(gone)?;
        let (answer, seen) = judged(shared.options.seed, key, found.as_deref());
        let mut oracle = lock(&shared.oracle);
        let is_known = oracle.certain(key, begin_ns).is_some();
        asked.known += u64::from(is_known);
        asked.found += u64::from(is_known && answer == Answer::Seen);
        if let Some(kind) = oracle.look(key, answer, seen, begin_ns) {
            let allowed = oracle.allowed(key);
            shared.note_wrong(key, kind, format!("after the start: {seen:x}, allowed {allowed}"));
        }
    }
    Ok(asked)
}

/// The result of a get.
fn judged(run: u64, key: u32, found: Option<&[u8]>) -> (Answer, u64) {
    let Some(value) = found else { return (Answer::Miss, 0) };
    match value::read(run, key, value) {
        Reading::Whole { version, .. } => (Answer::Seen, version),
        Reading::Torn => (Answer::Torn, 0),
        Reading::Foreign => (Answer::Foreign, 0),
    }
}

/// Why a client ended.
enum Ends {
    /// The server is gone.
    Gone(io::Error),
    Wrong(String),
}

impl From<io::Error> for Ends {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

impl From<String> for Ends {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

/// A working client.
pub(super) struct Client<'a> {
    shared: &'a Shared<'a>,
    chooser: Chooser,
    round: u32,
    thread: u32,
    /// Version numbers used.
    numbers: u32,
    /// When it flushes everything, if it does.
    flush_after: Option<Duration>,
    /// Version of keys whose value is known to be a single piece.
    known: HashMap<u32, u64>,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, options: &Options, round: u32, thread: u32) -> Self {
        let chooser = Chooser::new(options, round, thread);
        let flushes = thread == 0 && round.is_multiple_of(FLUSHING_ROUNDS);
        let flush_after = flushes.then(|| {
            let mut dice = seeded(shared.options.seed, round, FLUSHES);
            Duration::from_millis(dice.u64(0..=shared.options.load_ms / 2))
        });
        let known = HashMap::new();
        Self { shared, chooser, round, thread, numbers: 0, flush_after, known }
    }

    /// Works until the server is gone.
    pub(super) fn work(mut self, address: SocketAddr) -> Result<(), String> {
        match self.work_on(address) {
            Err(Ends::Wrong(why)) => Err(why),
            Err(Ends::Gone(error)) => ends_with_server(&error, &self.shared.is_over),
            Ok(()) => Ok(()),
        }
    }

    fn work_on(&mut self, address: SocketAddr) -> Result<(), Ends> {
        let mut connection = Connection::to(address)?;
        let begun = Instant::now();
        while !self.shared.is_over.load(Ordering::SeqCst) {
            if self.flush_after.is_some_and(|after| begun.elapsed() > after) {
                self.flush(&mut connection)?;
                self.flush_after = None;
            }
            let _under_way = self.shared.gate.read().unwrap_or_else(PoisonError::into_inner);
            let request = self.chooser.next();
            self.ask(request, &mut connection)?;
            self.shared.requests.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn ask(&mut self, request: Request, connection: &mut Connection) -> Result<(), Ends> {
        let Request { key, bytes, ttl_s, .. } = request;
        let name = value::name_of(key);
        let after = self.known.get(&key).copied();
        let verb = match request.verb {
            // An append must know the current version.
            Verb::Append if after.is_none() => Verb::Get,
            Verb::Cas => Verb::Get,
            other => other,
        };
        let after = after.filter(|_| verb == Verb::Append).unwrap_or(0);
        let stores = matches!(verb, Verb::Set | Verb::Add | Verb::Append);
        let version = if stores { self.next_version() } else { 0 };
        let piece = Piece { run: self.shared.options.seed, key, version, after };
        let value = if stores { value::encode(piece, bytes) } else { Vec::new() };
        let begun = begin(verb, key, version, after, if verb == Verb::Append { 0 } else { ttl_s });
        self.shared.follow(&begun)?;
        self.known.remove(&key);
        let (answer, seen) = match verb {
            Verb::Get => judged(self.shared.options.seed, key, connection.get(&name)?.as_deref()),
            Verb::Set => (said(&connection.store("set", &name, ttl_s, &value)?)?, after),
            Verb::Add => (yes_or_no(&connection.store("add", &name, ttl_s, &value)?)?, after),
            Verb::Append => (yes_or_no(&connection.store("append", &name, 0, &value)?)?, after),
            Verb::Touch => {
                (yes_or_no(&connection.ask("touch", &name, &format!(" {ttl_s}"))?)?, after)
            }
            _ => (said(&connection.ask("delete", &name, "")?)?, after),
        };
        match (verb, answer) {
            (Verb::Set, Answer::Done) | (Verb::Add, Answer::Yes) => {
                self.known.insert(key, version);
            }
            _ => {}
        }
        Ok(self.shared.follow(&Record { answer, seen, ..ended(begun) })?)
    }

    /// Flushes everything, while all other clients wait.
    fn flush(&mut self, connection: &mut Connection) -> Result<(), Ends> {
        let shared = self.shared;
        let _alone = shared.gate.write().unwrap_or_else(PoisonError::into_inner);
        if shared.is_over.load(Ordering::SeqCst) {
            return Ok(());
        }
        // For each key this is a delete.
        let begun: Vec<Record> =
            (0..shared.options.keys).map(|key| begin(Verb::Delete, key, 0, 0, 0)).collect();
        // A flush that a kill interrupts leaves these deletes in flight.
        for record in &begun {
            shared.follow(record)?;
        }
        let answer = said(&connection.ask("flush_all", b"", "")?)?;
        for record in begun {
            shared.follow(&Record { answer, ..ended(record) })?;
        }
        shared.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn next_version(&mut self) -> u64 {
        self.numbers += 1;
        value::version_of(self.round, self.thread, self.numbers)
    }
}

fn begin(verb: Verb, key: u32, version: u64, seen: u64, ttl_s: u32) -> Record {
    let (moment, answer) = (Moment::Begin, Answer::None);
    Record { moment, verb, answer, key, version, seen, time_ns: now_ns(), number: ttl_s }
}

fn ended(begun: Record) -> Record {
    Record { moment: Moment::End, time_ns: now_ns(), ..begun }
}

/// The answer in a line, for a request that does not depend on the previous value.
fn said(line: &str) -> io::Result<Answer> {
    match line {
        "STORED" | "DELETED" | "NOT_FOUND" | "OK" => Ok(Answer::Done),
        _ if line.starts_with("SERVER_ERROR") => Ok(Answer::Refused),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it answers {line:?}"))),
    }
}

/// The answer in a line, for a request that depends on the previous value.
fn yes_or_no(line: &str) -> io::Result<Answer> {
    match line {
        "STORED" | "TOUCHED" => Ok(Answer::Yes),
        "NOT_STORED" | "NOT_FOUND" => Ok(Answer::No),
        other => said(other).map(|_| Answer::Refused),
    }
}
