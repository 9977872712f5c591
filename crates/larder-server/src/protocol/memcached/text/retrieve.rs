//! `get`, `gets`, `gat`, `gats`: one key after the other, however long the line is.
//!
//! A line of up to 64 KiB is checked as a whole first: if one key is too long, the answer is an error and nothing else.
//! The keys of a longer line are answered as they come, and none of it is kept.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use larder::{Change, Value, ValueMeta};

use super::request::{self, Retrieval, TextRequest};
use super::say::say;
use crate::answers::{Answer, Answers, COPIED_MAX, FailureFlag};
use crate::caller::Caller;
use crate::protocol::Step;
use crate::protocol::memcached::fault::Fault;
use crate::protocol::memcached::items::{TOO_LATE, let_pass};
use crate::protocol::memcached::lifetime::Lifetime;
use crate::protocol::memcached::line::{KEY_BYTES_MAX, Words, append_number};

/// Most bytes of a line before its first key.
const HEAD_BYTES_MAX: usize = 64;
/// Keys that are answered in one step, before answers are sent if they are many bytes.
const KEYS_A_STEP: usize = 32;
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
    /// Set if a value was not found in time: the answer then ends with an error instead of `END`. `None` as long as all
    /// keys were answered at once.
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
            let rest = input.get(at..).unwrap_or_default();
            let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
            at += spaces;
            let rest = rest.get(spaces..).unwrap_or_default();
            if let Some(end) = end_of_line(rest) {
                match &self.failed {
                    None => say(answers, "END"),
                    Some(failed) => answers.ends(failed, [b"END\r\n", TOO_LATE]),
                }
                return (Step::Done(at + end), Next::Line);
            }
            let length = memchr::memchr2(b' ', b'\n', rest);
            let key = rest.get(..length.unwrap_or(rest.len())).unwrap_or_default();
            let is_last = length.and_then(|length| rest.get(length)) == Some(&b'\n');
            let key = if is_last { key.strip_suffix(b"\r").unwrap_or(key) } else { key };
            if key.len() > KEY_BYTES_MAX + usize::from(length.is_none()) {
                say(answers, KEY_TOO_LONG);
                return (again_or(at), Next::Rest);
            }
            if length.is_none() {
                let step = if at > 0 { Step::Done(at) } else { Step::Needs(input.len() + 1) };
                return (step, Next::Keys);
            }
            self.answer(key, caller, answers).await;
            at += key.len();
        }
        (Step::Done(at), Next::Keys)
    }

    async fn answer(&mut self, key: &[u8], caller: &Caller, answers: &mut Answers<'_>) {
        match self.how.touch {
            Some(lifetime) => self.how.touch(key, lifetime, caller, answers).await,
            None if self.how.at_once(key, caller, answers) => {}
            None => self.later(key, caller, answers).await,
        }
    }

    /// Answers when flash has been read.
    async fn later(&mut self, key: &[u8], caller: &Caller, answers: &mut Answers<'_>) {
        let (tenant, worker) = (Arc::clone(caller.tenant_of(key)), Rc::clone(&caller.worker));
        let (asked, key, how) = (caller.asks("get", key), key.to_vec(), self.how);
        let failed = Rc::clone(self.failed.get_or_insert_with(|| Rc::new(Cell::new(false))));
        let found = async move {
            // A read error is a miss.
            let found = worker.get(&tenant, &key).await.ok().flatten();
            asked.ends(&key);
            worker.counters.count_get(found.is_some());
            found.map_or_else(|| Answer::Bytes(Vec::new()), |value| how.item(&key, value))
        };
        let too_late = move || {
            failed.set(true);
            Answer::Bytes(Vec::new())
        };
        answers.later(found, too_late).await;
    }
}

impl RetrieveOptions {
    /// Answers if the item is in DRAM and short enough to be copied. Returns whether it did.
    fn at_once(self, key: &[u8], caller: &Caller, answers: &mut Answers<'_>) -> bool {
        let found = caller.cache_for(key).get_at_once_with(key, |value, meta| {
            let is_short = value.len() <= COPIED_MAX;
            if is_short {
                let out = answers.bytes();
                self.head(out, key, value, meta);
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            is_short
        });
        let is_answered = matches!(found, Ok(Some(true)));
        if is_answered {
            caller.worker.counters.count_get(true);
        }
        is_answered
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
        let touched = cache.update(key, |there| match there {
            Some(_) => Change::Touch(lifetime.ttl()),
            None => Change::Keep,
        });
        // A read error is a miss.
        let found = caller.watch("gat", key, touched).await.ok().flatten();
        caller.worker.counters.count_get(found.is_some());
        caller.worker.counters.count_touch(found.is_some());
        if let Some(value) = found {
            answers.push(self.item(key, value));
        }
        let_pass(caller, lifetime).await;
    }

    fn item(self, key: &[u8], value: Value) -> Answer {
        let mut head = Vec::new();
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
