//! A thread of a victim: changes and reads its own keys, and records the results.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use larder::{Cas, Error, SetOptions, block_on};

use super::choose::{Chooser, Request};
use super::journal::{self, Answer, Moment, Record, Verb, Writer};
use super::options::{InjectedBug, Options};
use super::value::{self, Piece, Reading};
use crate::any_cache::Cache;

/// The injected bug occurs in one of this number of sets.
const STRIKES_EVERY: u32 = 16;
/// Values with this number of pieces are not appended to.
const PIECES_MAX: u32 = 4;

/// The state of a key, as its thread knows it.
#[derive(Debug, Clone, Copy, Default)]
struct Belief {
    /// The version of the key, if it has a value; 0 if unknown.
    version: u64,
    pieces: u32,
}

pub(super) struct Worker<'a> {
    cache: &'a Cache,
    /// Held while an operation is in flight.
    gate: &'a RwLock<()>,
    journal: Writer,
    chooser: Chooser,
    options: &'a Options,
    round: u32,
    thread: u32,
    /// Version numbers used.
    numbers: u32,
    beliefs: Vec<Belief>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        cache: &'a Cache,
        gate: &'a RwLock<()>,
        options: &'a Options,
        (round, thread): (u32, u32),
    ) -> Result<Self, String> {
        let path = options.journal(thread);
        let journal = Writer::create(&path)
            .map_err(|cause| format!("cannot make {}: {cause}", path.display()))?;
        let owned = options.keys() / options.threads + 1;
        Ok(Self {
            cache,
            gate,
            journal,
            chooser: Chooser::new(options, round, thread),
            options,
            round,
            thread,
            numbers: 0,
            beliefs: vec![Belief::default(); owned as usize],
        })
    }

    /// Works until told to stop.
    pub(super) fn work(mut self, stop: &AtomicBool) -> Result<(), String> {
        while !stop.load(Ordering::Relaxed) {
            let request = self.chooser.next();
            let gate = self.gate;
            let _under_way = gate.read().unwrap_or_else(PoisonError::into_inner);
            self.step(request).map_err(|cause| format!("cannot write a journal: {cause}"))?;
        }
        Ok(())
    }

    fn step(&mut self, request: Request) -> std::io::Result<()> {
        let belief = self.belief(request.key);
        let verb = match request.verb {
            // An append needs a known version, and the number of pieces is limited.
            Verb::Append if belief.version == 0 || belief.pieces >= PIECES_MAX => Verb::Get,
            other => other,
        };
        match verb {
            Verb::Get => self.get(request.key).map(drop),
            Verb::Cas => self.look_and_swap(request),
            _ => self.change(Request { verb, ..request }, belief),
        }
    }

    fn get(&mut self, key: u32) -> std::io::Result<Option<larder::Value>> {
        let begun = self.begin(Verb::Get, key, 0, 0, 0)?;
        let found = block_on(self.cache.get(&value::name_of(key)));
        let (answer, reading) = judged(self.options.seed, key, &found);
        let (version, pieces) = match reading {
            Some(Reading::Whole { version, pieces }) => (version, pieces),
            _ => (0, 0),
        };
        *self.belief_mut(key) = Belief { version, pieces };
        self.end(Record { seen: version, ..begun }, answer)?;
        Ok(found.ok().flatten())
    }

    fn look_and_swap(&mut self, request: Request) -> std::io::Result<()> {
        let Some(there) = self.get(request.key)? else { return Ok(()) };
        let belief = self.belief(request.key);
        if belief.version == 0 {
            return Ok(());
        }
        let piece = self.next_piece(request.key, 0);
        let bytes = value::encode(piece, request.bytes);
        let token = there.version();
        drop(there);
        let begun =
            self.begin(Verb::Cas, request.key, piece.version, belief.version, request.ttl_s)?;
        let name = value::name_of(request.key);
        let ended = block_on(self.cache.cas(&name, &bytes, token, alive_for(request.ttl_s)));
        let answer = ended.map_or(Answer::Refused, |cas| said(cas == Cas::Stored));
        self.learn(&begun, answer);
        self.end(begun, answer)
    }

    /// Changes a key without reading it first.
    fn change(&mut self, request: Request, belief: Belief) -> std::io::Result<()> {
        let Request { verb, key, bytes, ttl_s } = request;
        let after = if verb == Verb::Append { belief.version } else { 0 };
        let stores = matches!(verb, Verb::Set | Verb::Add | Verb::Append);
        let piece = stores.then(|| self.next_piece(key, after));
        let strikes = verb == Verb::Set && self.numbers.is_multiple_of(STRIKES_EVERY);
        let bug = if strikes { self.options.bug } else { InjectedBug::None };
        let value = piece.map_or_else(Vec::new, |piece| stored(piece, bytes, bug));
        let version = piece.map_or(0, |piece| piece.version);
        let told = if bug == InjectedBug::ForgedDelete { Verb::Delete } else { verb };
        let begun = match bug {
            InjectedBug::OmittedSet => None,
            InjectedBug::ForgedDelete => Some(self.begin(told, key, 0, 0, 0)?),
            _ => Some(self.begin(told, key, version, after, ttl_s)?),
        };
        let immortal = self.options.bug == InjectedBug::Immortal;
        let answer = match bug {
            InjectedBug::ForgedSet | InjectedBug::ForgedDelete => Answer::Done,
            _ => self.perform(verb, key, &value, if immortal { 0 } else { ttl_s }),
        };
        let Some(begun) = begun else { return Ok(()) };
        self.learn(&begun, answer);
        self.end(begun, answer)
    }

    fn perform(&self, verb: Verb, key: u32, value: &[u8], ttl_s: u32) -> Answer {
        let (cache, name, options) = (self.cache, value::name_of(key), alive_for(ttl_s));
        let answer = match verb {
            Verb::Set => block_on(cache.set_with(&name, value, options)).map(|()| Answer::Done),
            Verb::Delete => block_on(cache.delete(&name)).map(|_| Answer::Done),
            Verb::Add => block_on(cache.add(&name, value, options)).map(said),
            Verb::Touch => block_on(cache.touch(&name, options.ttl)).map(said),
            Verb::Append => block_on(cache.append(&name, value)).map(said),
            Verb::Get | Verb::Cas | Verb::Sample | Verb::Stats => Ok(Answer::None),
        };
        answer.unwrap_or(Answer::Refused)
    }

    /// Updates the known state of the key from an answer.
    fn learn(&mut self, begun: &Record, answer: Answer) {
        let before = self.belief(begun.key);
        let pieces = before.pieces;
        let belief = match (begun.verb, answer) {
            (Verb::Set, Answer::Done) | (Verb::Add | Verb::Cas, Answer::Yes) => {
                Belief { version: begun.version, pieces: 1 }
            }
            (Verb::Append, Answer::Yes) => Belief { version: begun.version, pieces: pieces + 1 },
            (Verb::Touch, Answer::Yes) => before,
            _ => Belief::default(),
        };
        *self.belief_mut(begun.key) = belief;
    }

    fn next_piece(&mut self, key: u32, after: u64) -> Piece {
        self.numbers += 1;
        let version = value::version_of(self.round, self.thread, self.numbers);
        Piece { run: self.options.seed, key, version, after }
    }

    fn begin(
        &mut self,
        verb: Verb,
        key: u32,
        version: u64,
        seen: u64,
        ttl_s: u32,
    ) -> std::io::Result<Record> {
        let record = Record {
            moment: Moment::Begin,
            verb,
            answer: Answer::None,
            key,
            version,
            seen,
            time_ns: journal::now_ns(),
            number: ttl_s,
        };
        self.journal.write(&record)?;
        Ok(record)
    }

    fn end(&mut self, begun: Record, answer: Answer) -> std::io::Result<()> {
        let time_ns = journal::now_ns();
        self.journal.write(&Record { moment: Moment::End, answer, time_ns, ..begun })
    }

    fn belief(&self, key: u32) -> Belief {
        self.beliefs[(key / self.options.threads) as usize]
    }

    fn belief_mut(&mut self, key: u32) -> &mut Belief {
        &mut self.beliefs[(key / self.options.threads) as usize]
    }
}

/// The bytes to store for `piece`, with the injected bug.
fn stored(piece: Piece, bytes: usize, bug: InjectedBug) -> Vec<u8> {
    let key = if bug == InjectedBug::Foreign { piece.key + 1 } else { piece.key };
    let mut value = value::encode(Piece { key, ..piece }, bytes);
    if bug == InjectedBug::Torn {
        let middle = value.len() / 2;
        value[middle] ^= 1;
    }
    value
}

/// The result of a get as a journal answer.
pub(super) fn judged(
    run: u64,
    key: u32,
    found: &Result<Option<larder::Value>, Error>,
) -> (Answer, Option<Reading>) {
    let value = match found {
        Ok(Some(value)) => value,
        Ok(None) => return (Answer::Miss, None),
        Err(_) => return (Answer::Refused, None),
    };
    let reading = value::read(run, key, value);
    let answer = match reading {
        Reading::Whole { .. } => Answer::Seen,
        Reading::Torn => Answer::Torn,
        Reading::Foreign => Answer::Foreign,
    };
    (answer, Some(reading))
}

fn said(yes: bool) -> Answer {
    if yes { Answer::Yes } else { Answer::No }
}

fn alive_for(ttl_s: u32) -> SetOptions {
    let ttl = (ttl_s > 0).then(|| Duration::from_secs(u64::from(ttl_s)));
    SetOptions { ttl, ..SetOptions::default() }
}
