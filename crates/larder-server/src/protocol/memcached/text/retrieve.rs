//! `get`, `gets`, `gat`, `gats`: one key after the other, however long the line is.
//!
//! A line of up to 64 KiB is checked as a whole first: if one key is too long, the answer is an error and nothing else.
//! The keys of a longer line are answered as they come, and none of it is kept.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use larder::{Change, Value, ValueMeta};

use super::request::{self, Retrieval, TextRequest};
use super::say::say;
use crate::answers::{Answer, Answers, COPIED_MAX, FailureFlag, SENT_AT};
use crate::caller::Caller;
use crate::protocol::Step;
use crate::protocol::memcached::fault::Fault;
use crate::protocol::memcached::items::{TOO_LATE, let_pass};
use crate::protocol::memcached::lifetime::Lifetime;
use crate::protocol::memcached::line::{KEY_BYTES_MAX, Words, append_number};
use crate::protocol::memcached::watched;

/// Most bytes of a line before its first key.
const HEAD_BYTES_MAX: usize = 64;
/// Keys that are answered in one step, before answers are sent if they are many bytes.
const KEYS_A_STEP: usize = 32;
/// Most bytes of an answer beside its key and its value: `VALUE`, three numbers, spaces, the ends of two lines.
const LINE_BYTES: usize = 5 + 10 + 20 + 20 + 4 + 4;
const KEY_TOO_LONG: &str = "CLIENT_ERROR bad command line format";

/// What follows the keys that were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// More keys.
    Keys,
    /// Another line.
    Line,
    /// The rest of the line, to be discarded.
    Rest,
}

/// A line of keys that is being answered.
#[derive(Clone, Debug)]
pub(super) struct Retrieving {
    how: RetrieveOptions,
    /// Set if a value was not found in time: the answer then ends with an error instead of `END`. `None` without a
    /// deadline, and as long as all keys were answered at once.
    failed: Option<FailureFlag>,
}

#[derive(Clone, Copy, Debug)]
struct RetrieveOptions {
    unique: bool,
    touch: Option<Lifetime>,
}

/// Marks a line that begins like a line of keys, which may be long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys;

/// How a line retrieves that begins with `get` or `gets`, and the bytes before its keys.
pub(super) fn plain(input: &[u8]) -> Option<(Retrieval, usize)> {
    let (unique, head) = match input {
        [b'g', b'e', b't', b' ', ..] => (false, 4),
        [b'g', b'e', b't', b's', b' ', ..] => (true, 5),
        _ => return None,
    };
    Some((Retrieval { unique, touch: None }, head))
}

/// Whether a line of keys begins here.
pub(super) fn begins(input: &[u8]) -> Option<Keys> {
    let verb = Words(input.get(..HEAD_BYTES_MAX).unwrap_or(input)).next()?;
    matches!(verb, b"get" | b"gets" | b"gat" | b"gats").then_some(Keys)
}

/// The first key of such a line, or the word in its place.
pub(super) fn first_key(input: &[u8]) -> &[u8] {
    let mut words = Words(input.get(..HEAD_BYTES_MAX + KEY_BYTES_MAX).unwrap_or(input));
    let touches = words.next().is_some_and(|verb| verb.starts_with(b"gat"));
    words.nth(usize::from(touches)).unwrap_or_default()
}

impl Keys {
    /// Parses the head of a line that is too long to be checked as a whole. Returns the request, and the bytes before
    /// its keys.
    pub(super) fn long(
        self,
        input: &[u8],
        caller: &Caller,
    ) -> Result<(Retrieving, usize), &'static str> {
        let head = input.get(..HEAD_BYTES_MAX).unwrap_or(input);
        match request::parse(head) {
            Ok(TextRequest::Retrieve(how, keys)) => {
                Ok((Retrieving::new(how, caller), head.len() - keys.len()))
            }
            Err(Fault::Answer(answer)) => Err(answer),
            _ => Err("ERROR"),
        }
    }
}

impl Retrieving {
    pub(super) fn new(how: Retrieval, caller: &Caller) -> Self {
        let wall = || caller.cache_for(b"").moment(b"").wall();
        let touch = how.touch.map(|exptime| Lifetime::new(exptime, wall()));
        Self { how: RetrieveOptions { unique: how.unique, touch }, failed: None }
    }

    /// Refuses a line with a key that is too long.
    pub(super) fn check(self, keys: &[u8]) -> Result<Self, &'static str> {
        let is_long = |key: &[u8]| key.len() > KEY_BYTES_MAX;
        if keys.len() > KEY_BYTES_MAX && Words(keys).any(is_long) {
            Err(KEY_TOO_LONG)
        } else {
            Ok(self)
        }
    }

    /// Answers some of the keys that have come. Returns what follows them.
    pub(super) async fn step(
        &mut self,
        caller: &Caller,
        input: &[u8],
        answers: &mut Answers<'_>,
    ) -> (Step, Next) {
        let mut at = 0;
        for _ in 0..KEYS_A_STEP {
            match KeyWord::first(input.get(at..).unwrap_or_default()) {
                KeyWord::Key(key, taken) => {
                    self.answer(key, caller, answers).await;
                    at += taken;
                }
                KeyWord::End(taken) => {
                    answers.ends(self.failed.as_ref(), [b"END\r\n", TOO_LATE]);
                    return (Step::Done(at + taken), Next::Line);
                }
                KeyWord::TooLong(spaces) => {
                    say(answers, KEY_TOO_LONG);
                    return (again_or(at + spaces), Next::Rest);
                }
                KeyWord::Part(spaces) => {
                    let done = at + spaces;
                    let step =
                        if done > 0 { Step::Done(done) } else { Step::Needs(input.len() + 1) };
                    return (step, Next::Keys);
                }
            }
        }
        (Step::Done(at), Next::Keys)
    }

    /// Answers the keys that need no wait, up to the first that does, or up to the end of the line. Returns the bytes
    /// that are answered, and what follows them.
    pub(super) fn at_once(
        &self,
        caller: &Caller,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> (usize, Next) {
        let mut at = 0;
        if self.how.touch.is_some() || self.failed.is_some() {
            return (0, Next::Keys);
        }
        for _ in 0..KEYS_A_STEP {
            match KeyWord::first(input.get(at..).unwrap_or_default()) {
                KeyWord::Key(key, taken) if self.how.at_once(key, caller, || &mut *out) => {
                    at += taken
                }
                KeyWord::End(taken) => {
                    out.extend_from_slice(b"END\r\n");
                    return (at + taken, Next::Line);
                }
                KeyWord::Key(..) | KeyWord::TooLong(_) | KeyWord::Part(_) => break,
            }
            if out.len() >= SENT_AT {
                break;
            }
        }
        (at, Next::Keys)
    }

    async fn answer(&mut self, key: &[u8], caller: &Caller, answers: &mut Answers<'_>) {
        match self.how.touch {
            Some(lifetime) => self.how.touch(key, lifetime, caller, answers).await,
            None if self.how.at_once(key, caller, || answers.bytes()) => {}
            None => self.later(key, caller, answers).await,
        }
    }

    /// Answers when flash has been read.
    async fn later(&mut self, key: &[u8], caller: &Caller, answers: &mut Answers<'_>) {
        let (tenant, worker) = (Arc::clone(caller.tenant_of(key)), Rc::clone(&caller.worker));
        let (asked, key, how) = (caller.asks("get", key), key.to_vec(), self.how);
        let cfd = caller.id;
        let has_deadline = worker.shared.config.request_deadline.is_some();
        let failed = has_deadline.then(|| Rc::clone(self.failed.get_or_insert_with(Rc::default)));
        let found = Box::pin(async move {
            // A read error is a miss.
            let found = worker.get(&tenant, &key).await.ok().flatten();
            asked.ends(&key);
            worker.counters.count_get(found.is_some());
            let size = found.as_ref().map(|value| value.len());
            watched::fetched_by(&worker.shared.watchers, cfd, &key, size);
            found.map_or_else(|| Answer::Bytes(Vec::new()), |value| how.item(&key, value))
        });
        let too_late = move || {
            if let Some(failed) = failed {
                failed.set(true);
            }
            Answer::Bytes(Vec::new())
        };
        answers.later(found, too_late).await;
    }
}

impl RetrieveOptions {
    /// Answers if the item is in DRAM and short enough to be copied, or if it is certainly nowhere. Returns whether it
    /// did. `out` makes the buffer for the answer.
    fn at_once<'o>(
        self,
        key: &[u8],
        caller: &Caller,
        out: impl FnOnce() -> &'o mut Vec<u8>,
    ) -> bool {
        let cache = caller.cache_for(key);
        let found = cache.get_at_once_with(key, |value, meta| {
            let is_short = value.len() <= COPIED_MAX;
            if is_short {
                let out = out();
                // Once, not part by part.
                out.reserve(key.len() + value.len() + LINE_BYTES);
                self.head(out, key, value, meta);
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            is_short.then_some(value.len())
        });
        let size = found.as_ref().ok().copied().flatten().flatten();
        let is_hit = size.is_some();
        // A miss has no line of its own.
        let is_miss = matches!(found, Ok(None)) && matches!(cache.misses_at_once(key), Ok(true));
        if is_hit || is_miss {
            caller.worker.counters.count_get(is_hit);
            watched::fetched(caller, key, size);
        }
        is_hit || is_miss
    }

    async fn touch(
        self,
        key: &[u8],
        lifetime: Lifetime,
        caller: &Caller,
        answers: &mut Answers<'_>,
    ) {
        answers.settle().await;
        let cache = caller.cache_for(key);
        let changing = caller.touches(key);
        // A read error is a miss.
        let found = caller
            .watch(
                "gat",
                key,
                pin!(cache.update(key, |there| match there {
                    Some(_) => Change::Touch(lifetime.ttl()),
                    None => Change::Keep,
                })),
            )
            .await;
        changing.ends(caller.id, &found);
        let found = found.ok().flatten();
        watched::fetched(caller, key, found.as_ref().map(|value| value.len()));
        caller.worker.counters.count_get(found.is_some());
        caller.worker.counters.count_touch(found.is_some());
        if let Some(value) = found {
            answers.push(self.item(key, value));
        }
        let_pass(caller, lifetime).await;
    }

    fn item(self, key: &[u8], value: Value) -> Answer {
        let copied = if value.len() > COPIED_MAX { 0 } else { value.len() };
        let mut head = Vec::with_capacity(key.len() + copied + LINE_BYTES);
        self.head(&mut head, key, &value, value.meta());
        if value.len() > COPIED_MAX {
            return Answer::Long { head, value, tail: b"\r\n" };
        }
        head.extend_from_slice(&value);
        head.extend_from_slice(b"\r\n");
        Answer::Bytes(head)
    }

    /// The line before a value.
    fn head(self, out: &mut Vec<u8>, key: &[u8], value: &[u8], meta: ValueMeta) {
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(key);
        out.push(b' ');
        append_number(out, meta.flags.into());
        out.push(b' ');
        append_number(out, value.len() as u64);
        if self.unique {
            out.push(b' ');
            append_number(out, meta.version);
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// What the next bytes of a line of keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyWord<'a> {
    /// A key, and the bytes up to its end.
    Key(&'a [u8], usize),
    /// The end of the line, after this number of bytes.
    End(usize),
    /// A key that is too long, behind this number of spaces.
    TooLong(usize),
    /// A part of a key, behind this number of spaces.
    Part(usize),
}

impl<'a> KeyWord<'a> {
    fn first(input: &'a [u8]) -> Self {
        let spaces = input.iter().take_while(|byte| **byte == b' ').count();
        let rest = input.get(spaces..).unwrap_or_default();
        if let Some(end) = end_of_line(rest) {
            return Self::End(spaces + end);
        }
        let length = memchr::memchr2(b' ', b'\n', rest);
        let key = rest.get(..length.unwrap_or(rest.len())).unwrap_or_default();
        let is_last = length.and_then(|length| rest.get(length)) == Some(&b'\n');
        let key = if is_last { key.strip_suffix(b"\r").unwrap_or(key) } else { key };
        if key.len() > KEY_BYTES_MAX + usize::from(length.is_none()) {
            return Self::TooLong(spaces);
        }
        if length.is_none() { Self::Part(spaces) } else { Self::Key(key, spaces + key.len()) }
    }
}

/// Length of the line end, if one is here.
fn end_of_line(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}

fn again_or(bytes: usize) -> Step {
    if bytes > 0 { Step::Done(bytes) } else { Step::Again }
}
