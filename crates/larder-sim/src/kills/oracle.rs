//! The allowed answers: for each key, the values that it may hold after all operations that were begun and
//! acknowledged.
//!
//! A key belongs to one thread, so its operations are sequential, and its possible values are a short list: one value
//! after an acknowledged change, none after a delete, and one more for an operation that a kill interrupted. A miss is
//! always allowed, because a cache may evict, and excludes nothing. Finding a value excludes all others.

use serde::Serialize;

use super::journal::{Answer, Moment, Record, Verb};

const NEVER: u64 = u64::MAX;
const SECOND_NS: u64 = 1_000_000_000;

/// The kind of a wrong answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A version older than the newest.
    Stale,
    /// The key was deleted.
    Deleted,
    /// Bytes that were never stored together.
    Torn,
    /// The value of another key.
    Foreign,
    /// Its time to live was over.
    Expired,
    /// A version that was never stored.
    Unknown,
}

/// A possible value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    version: u64,
    /// From this nanosecond on it must not be found.
    expiry_ns: u64,
}

/// State of a key.
#[derive(Debug, Clone, Default)]
struct KeyState {
    /// Possible values, in addition to none, which is always possible.
    candidates: Vec<Candidate>,
    /// The newest version that was begun.
    newest: u64,
    /// A read missed although there are possible values.
    missed: bool,
    open: Option<Record>,
}

/// State of all keys.
pub(super) struct Oracle {
    keys: Vec<KeyState>,
    /// Values found after a miss, without a change in between.
    pub(super) reappeared: u64,
}

impl Oracle {
    pub(super) fn new(keys: u32) -> Self {
        Self { keys: vec![KeyState::default(); keys as usize], reappeared: 0 }
    }

    /// Applies a record of a worker's journal, in order. Returns the kind of error if its answer is wrong.
    ///
    /// # Errors
    /// If the record cannot follow those before it.
    pub(super) fn follow(&mut self, record: &Record) -> Result<Option<Kind>, String> {
        let Some(state) = self.keys.get_mut(record.key as usize) else {
            return Err(format!("the journal names a key beyond the key space: {record:?}"));
        };
        match record.moment {
            Moment::Begin => {
                if state.open.is_some() {
                    return Err(format!("an operation begins within another: {record:?}"));
                }
                state.newest = state.newest.max(record.version);
                state.open = Some(*record);
                Ok(None)
            }
            Moment::End => match state.open.take() {
                Some(begun) if begun.verb == record.verb && begun.version == record.version => {
                    Ok(state.end(&begun, record, &mut self.reappeared))
                }
                _ => Err(format!("an operation ends that has not begun: {record:?}")),
            },
            Moment::Note => Err(format!("a note among operations: {record:?}")),
        }
    }

    /// Ends all operations in flight: each may be done or not.
    pub(super) fn cut_off(&mut self, now_ns: u64) -> u64 {
        let mut count = 0;
        for state in &mut self.keys {
            if let Some(begun) = state.open.take() {
                count += 1;
                let more = state.changed(&begun, now_ns);
                state.candidates.extend(more);
            }
        }
        count
    }

    /// Judges a read of a key that began at `begin_ns`.
    pub(super) fn look(
        &mut self,
        key: u32,
        answer: Answer,
        seen: u64,
        begin_ns: u64,
    ) -> Option<Kind> {
        let state = &mut self.keys[key as usize];
        state.look(answer, seen, begin_ns, &mut self.reappeared)
    }

    /// The version of the key, if it is the only possible one, not counting none, at `now_ns`.
    pub(super) fn certain(&self, key: u32, now_ns: u64) -> Option<u64> {
        match self.keys[key as usize].candidates.as_slice() {
            [only] if now_ns < only.expiry_ns => Some(only.version),
            _ => None,
        }
    }

    /// All versions that the key may hold, as text.
    pub(super) fn allowed(&self, key: u32) -> String {
        let state = &self.keys[key as usize];
        let versions = state.candidates.iter().map(|it| match it.expiry_ns {
            NEVER => format!("{:x}", it.version),
            expiry_ns => format!("{:x} before second {}", it.version, expiry_ns / SECOND_NS),
        });
        let versions: Vec<_> = versions.collect();
        if versions.is_empty() { "nothing".to_owned() } else { versions.join(" or ") }
    }
}

impl KeyState {
    /// Applies an acknowledged operation. Returns the kind of error if its answer is wrong.
    fn end(&mut self, begun: &Record, ended: &Record, reappeared: &mut u64) -> Option<Kind> {
        let begin_ns = begun.time_ns;
        match (begun.verb, ended.answer) {
            (Verb::Get, answer) => {
                return self.look(answer, ended.seen, begin_ns, reappeared);
            }
            (Verb::Set | Verb::Delete, Answer::Done | Answer::Refused)
            | (Verb::Add, Answer::Yes) => {
                // A refused set leaves nothing.
                let stored = ended.answer != Answer::Refused;
                let changed = self.changed(begun, ended.time_ns);
                self.become_one_of(if stored { changed } else { Vec::new() });
            }
            (Verb::Cas | Verb::Append, Answer::Yes) => {
                let wrong = self.needs(Some(begun.seen), begin_ns);
                let changed = self.changed(begun, ended.time_ns);
                self.become_one_of(changed);
                return wrong;
            }
            (Verb::Touch, Answer::Yes) => {
                let wrong = self.needs(None, begin_ns);
                let changed = self.changed(begun, ended.time_ns);
                self.become_one_of(changed);
                return wrong;
            }
            // This answer means that there is a value.
            (Verb::Add, Answer::No) => return self.needs(None, begin_ns),
            _ => {}
        }
        None
    }

    fn become_one_of(&mut self, candidates: Vec<Candidate>) {
        self.candidates = candidates;
        self.missed = false;
    }

    /// The possible values after the operation, if it ends by `end_ns`.
    fn changed(&self, begun: &Record, end_ns: u64) -> Vec<Candidate> {
        let Record { verb, version, seen, time_ns, number: ttl_s, .. } = *begun;
        let expiry_ns = expiry_ns(end_ns, ttl_s);
        let alive = self.candidates.iter().filter(|it| time_ns < it.expiry_ns);
        match verb {
            Verb::Set | Verb::Add | Verb::Cas => vec![Candidate { version, expiry_ns }],
            Verb::Touch => alive.map(|it| Candidate { expiry_ns, ..*it }).collect(),
            Verb::Append => {
                let continued = alive.filter(|it| it.version == seen);
                continued.map(|it| Candidate { version, ..*it }).collect()
            }
            Verb::Get | Verb::Delete | Verb::Sample | Verb::Stats => Vec::new(),
        }
    }

    fn look(
        &mut self,
        answer: Answer,
        seen: u64,
        begin_ns: u64,
        reappeared: &mut u64,
    ) -> Option<Kind> {
        match answer {
            Answer::Torn => Some(Kind::Torn),
            Answer::Foreign => Some(Kind::Foreign),
            Answer::Seen => {
                let wrong = self.needs(Some(seen), begin_ns);
                self.candidates.retain(|it| it.version == seen && begin_ns < it.expiry_ns);
                if wrong.is_some() {
                    // The value is present in spite of the error; report it only once.
                    self.candidates.push(Candidate { version: seen, expiry_ns: NEVER });
                } else if self.missed {
                    *reappeared += 1;
                }
                self.missed = false;
                wrong
            }
            _ => {
                self.missed = !self.candidates.is_empty();
                None
            }
        }
    }

    /// The error, if any, when a value is present at `begin_ns`: this version, or any.
    fn needs(&self, version: Option<u64>, begin_ns: u64) -> Option<Kind> {
        let meant = |it: &&Candidate| version.is_none_or(|version| it.version == version);
        let mut fitting = self.candidates.iter().filter(meant).peekable();
        if fitting.peek().is_some() {
            let alive = fitting.any(|it| begin_ns < it.expiry_ns);
            return (!alive).then_some(Kind::Expired);
        }
        Some(match version {
            Some(version) if version > self.newest => Kind::Unknown,
            _ if self.candidates.is_empty() => Kind::Deleted,
            _ => Kind::Stale,
        })
    }
}

/// Times to live are rounded up to seconds of the clock.
fn expiry_ns(end_ns: u64, ttl_s: u32) -> u64 {
    if ttl_s == 0 {
        return NEVER;
    }
    (end_ns / SECOND_NS + u64::from(ttl_s) + 1).saturating_mul(SECOND_NS)
}
