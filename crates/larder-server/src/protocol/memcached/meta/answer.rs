//! Answers to meta requests: a code, and the flags that were asked for, in the order of the request.

use std::time::Duration;

use larder::{Moment, ValueMeta};

use super::base64;
use super::request::MetaRequest;
use crate::protocol::memcached::lifetime::{Lifetime, left_s};
use crate::protocol::memcached::line::append_number;

/// What is known of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemFacts {
    pub(super) bytes: usize,
    pub(super) flags: u32,
    pub(super) version: u64,
    /// Remaining lifetime.
    pub(super) left: Option<Duration>,
    /// Whether it was fetched before.
    pub(super) fetched: bool,
    /// Time since it was last fetched or set, if known.
    pub(super) idle: Option<Duration>,
    pub(super) stale: bool,
    pub(super) won: bool,
    /// Whether its key came in base64 when it was set.
    pub(super) binary_key: bool,
    /// Whether this request has just created it, for the client to fill.
    pub(super) is_new: bool,
    /// The wall clock, which answers about lifetimes refer to.
    pub(super) wall: Duration,
}

impl ItemFacts {
    pub(super) fn new(value: &[u8], meta: ValueMeta, moment: Moment) -> Self {
        let now = moment.now();
        Self {
            bytes: value.len(),
            flags: meta.flags,
            version: meta.version,
            left: meta.remaining(now),
            fetched: meta.fetched,
            idle: meta.since_access(now),
            stale: meta.stale,
            won: meta.won,
            binary_key: meta.binary_key,
            is_new: false,
            wall: moment.wall(),
        }
    }
}

/// The client that has to bring the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Winner {
    /// None: the value is current.
    Nobody,
    /// The client that asks.
    Asker,
    Other,
}

/// Appends a code with the flags that are answered whether or not the item was found: key and opaque.
pub(super) fn code(out: &mut Vec<u8>, code: &[u8], request: &MetaRequest<'_>) {
    out.extend_from_slice(code);
    for word in request.flags.all {
        echo(out, word, request);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a flag that is answered whether or not the item was found. Returns whether `word` was one.
pub(super) fn echo(out: &mut Vec<u8>, word: &[u8], request: &MetaRequest<'_>) -> bool {
    match word.first() {
        Some(b'O') => {
            out.push(b' ');
            out.extend_from_slice(word);
        }
        Some(b'k') => key_flag(out, &request.key, request.flags.base64),
        _ => return false,
    }
    true
}

fn key_flag(out: &mut Vec<u8>, key: &[u8], in_base64: bool) {
    out.extend_from_slice(b" k");
    append_key(out, key, in_base64);
    if in_base64 {
        out.extend_from_slice(b" b");
    }
}

fn append_key(out: &mut Vec<u8>, key: &[u8], in_base64: bool) {
    if in_base64 {
        base64::append(out, key);
    } else {
        out.extend_from_slice(key);
    }
}

/// Appends the key as it was asked for.
pub(super) fn key(out: &mut Vec<u8>, request: &MetaRequest<'_>) {
    append_key(out, &request.key, request.flags.base64);
}

/// Appends the line of an item; it begins with `VA` and the length if the value follows.
///
/// The position of `T` and `R` matters: flags behind `T` show the state after it. `win` tries to win the right to bring
/// the next value, if there is one to win.
pub(super) fn item(
    out: &mut Vec<u8>,
    request: &MetaRequest<'_>,
    known: &ItemFacts,
    win: impl FnOnce() -> Winner,
) {
    if request.flags.value {
        out.extend_from_slice(b"VA ");
        append_number(out, known.bytes as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    let mut left = known.left;
    let mut is_short = false;
    let lifetime = |exptime: Option<i64>| exptime.map(|exptime| Lifetime::new(exptime, known.wall));
    for word in request.flags.all {
        if word.first() == Some(&b'k') {
            // In the form in which it was set, whatever form this request uses. A key with bytes that are not text
            // could end the line, so it goes in base64.
            let is_text = request.key.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
            key_flag(out, &request.key, known.binary_key || !is_text);
            continue;
        }
        if echo(out, word, request) {
            continue;
        }
        let Some(letter) = word.first() else { continue };
        match letter {
            b'T' => left = lifetime(request.flags.touch).and_then(Lifetime::ttl),
            b'R' => {
                let wanted = lifetime(request.flags.recache).and_then(Lifetime::ttl);
                is_short = left.is_some_and(|left| wanted.is_some_and(|wanted| left < wanted));
            }
            b's' => numbered(out, *letter, known.bytes as u64),
            b'c' => numbered(out, *letter, known.version),
            b'f' => numbered(out, *letter, known.flags.into()),
            b'h' => numbered(out, *letter, known.fetched.into()),
            b'l' => numbered(out, *letter, known.idle.map_or(0, |idle| idle.as_secs())),
            b't' => ttl(out, left),
            _ => {}
        }
    }
    let winner = match known.won {
        true => Winner::Other,
        false if known.stale || known.is_new || is_short => win(),
        false => Winner::Nobody,
    };
    if winner == Winner::Other {
        out.extend_from_slice(b" Z");
    }
    if known.stale {
        out.extend_from_slice(b" X");
    }
    if winner == Winner::Asker {
        out.extend_from_slice(b" W");
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a flag with a number.
pub(super) fn numbered(out: &mut Vec<u8>, letter: u8, number: u64) {
    out.extend_from_slice(&[b' ', letter]);
    append_number(out, number);
}

/// Appends the remaining lifetime.
pub(super) fn ttl(out: &mut Vec<u8>, left: Option<Duration>) {
    match u64::try_from(left_s(left)) {
        Ok(seconds) => numbered(out, b't', seconds),
        Err(_) => out.extend_from_slice(b" t-1"),
    }
}

/// Appends an error line.
pub(super) fn error(out: &mut Vec<u8>, answer: &str) {
    out.extend_from_slice(answer.as_bytes());
    out.extend_from_slice(b"\r\n");
}
