//! Parses a line into a request of the classic text protocol.

use crate::protocol::memcached::fault::{Fault, announced};
use crate::protocol::memcached::items::Mode;
use crate::protocol::memcached::lifetime;
use crate::protocol::memcached::line::{KEY_BYTES_MAX, Words, number, signed};
use crate::protocol::memcached::meta;

const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";

/// A parsed line. `quiet` requests get no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TextRequest<'a> {
    /// `get`, `gets`, `gat`, `gats`: the keys are the rest of the line.
    Retrieve(Retrieval, &'a [u8]),
    Store(Store<'a>),
    Delete {
        key: &'a [u8],
        quiet: bool,
    },
    /// `incr`, `decr`.
    Count {
        key: &'a [u8],
        up: bool,
        delta: u64,
        quiet: bool,
    },
    Touch {
        key: &'a [u8],
        exptime: i64,
        quiet: bool,
    },
    FlushAll {
        delay: i64,
        quiet: bool,
    },
    Stats(Words<'a>),
    /// `watch`, with the streams to watch.
    Watch(Words<'a>),
    /// `lru_crawler metadump` (keys with their metadata) and `mgdump` (keys only).
    Dump {
        keys_only: bool,
    },
    /// `cache_memlimit`, in MiB.
    MemoryLimit {
        mebibytes: u64,
        quiet: bool,
    },
    /// `config get cluster`.
    Cluster,
    /// `debugtime`.
    DebugTime(DebugTime),
    /// A request with a fixed answer and no effect.
    Answer {
        answer: &'static str,
        quiet: bool,
    },
    Version,
    Quit,
    Meta(meta::MetaRequest<'a>),
}

/// What `debugtime` does to the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DebugTime {
    Hold,
    GoOn,
    /// By this number of seconds.
    Move(i64),
}

/// How items are retrieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retrieval {
    /// With the version that `cas` compares.
    pub(crate) unique: bool,
    /// Gives them a new lifetime.
    pub(crate) touch: Option<i64>,
}

/// A request with a value behind its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store<'a> {
    pub(crate) mode: Mode,
    pub(crate) key: &'a [u8],
    pub(crate) flags: u32,
    pub(crate) exptime: i64,
    /// Length of the value, without the end of its line.
    pub(crate) bytes: usize,
    /// `cas`: the version to compare.
    pub(crate) unique: Option<u64>,
    pub(crate) quiet: bool,
}

impl TextRequest<'_> {
    /// The key that it names, or the first of several, or an empty one; and whether it is quiet.
    pub(crate) fn key_and_quiet(&self) -> (&[u8], bool) {
        match self {
            Self::Retrieve(_, keys) => (Words(keys).next().unwrap_or_default(), false),
            Self::Store(Store { key, quiet, .. })
            | Self::Delete { key, quiet }
            | Self::Count { key, quiet, .. }
            | Self::Touch { key, quiet, .. } => (key, *quiet),
            Self::Meta(request) => (&request.key, false),
            Self::FlushAll { quiet, .. }
            | Self::MemoryLimit { quiet, .. }
            | Self::Answer { quiet, .. } => (b"", *quiet),
            Self::Stats(_)
            | Self::Watch(_)
            | Self::Dump { .. }
            | Self::Cluster
            | Self::DebugTime(_)
            | Self::Version
            | Self::Quit => (b"", false),
        }
    }

    /// Whether it replaces a value unconditionally. When such a request is refused, the old value has to go: the client
    /// knows that it is out of date. A conditional request leaves the old value.
    pub(crate) fn replaces(&self) -> bool {
        match self {
            Self::Store(Store { mode, unique, .. }) => *mode == Mode::Set && unique.is_none(),
            Self::Meta(request) => request.replaces(),
            _ => false,
        }
    }

    /// The command that a store is told as.
    pub(crate) fn stores_as(&self) -> &'static str {
        match self {
            Self::Store(Store { mode, unique, .. }) => mode.command(unique.is_some()),
            Self::Meta(request) => request.stores_as(),
            _ => "na",
        }
    }

    /// Length of the value behind the line, if one follows.
    pub(crate) fn value_bytes(&self) -> Option<usize> {
        match self {
            Self::Store(store) => Some(store.bytes),
            Self::Meta(meta::MetaRequest { verb: meta::Verb::Set { bytes }, .. }) => Some(*bytes),
            _ => None,
        }
    }
}

const ERROR: Fault = Fault::Answer("ERROR");

/// Parses a line.
pub(crate) fn parse(line: &[u8]) -> Result<TextRequest<'_>, Fault> {
    let mut words = Words(line);
    let Some(verb) = words.next() else { return Err(ERROR) };
    match verb {
        b"get" => retrieve(words, false),
        b"gets" => retrieve(words, true),
        b"gat" => get_and_touch(words, false),
        b"gats" => get_and_touch(words, true),
        b"set" => store(Mode::Set, words, false),
        b"add" => store(Mode::Add, words, false),
        b"replace" => store(Mode::Replace, words, false),
        b"append" => store(Mode::Append, words, false),
        b"prepend" => store(Mode::Prepend, words, false),
        b"cas" => store(Mode::Set, words, true),
        b"incr" => count(words, true),
        b"decr" => count(words, false),
        b"delete" => delete(words),
        b"touch" => touch(words),
        b"mn" => Ok(TextRequest::Answer { answer: "MN", quiet: false }),
        b"mg" | b"ms" | b"md" | b"ma" | b"me" => meta::parse(verb, words).map(TextRequest::Meta),
        b"flush_all" => flush_all(words),
        b"stats" => Ok(TextRequest::Stats(words)),
        b"watch" => Ok(TextRequest::Watch(words)),
        b"version" => Ok(TextRequest::Version),
        b"quit" => Ok(TextRequest::Quit),
        _ => administer(verb, words),
    }
}

fn retrieve(words: Words<'_>, unique: bool) -> Result<TextRequest<'_>, Fault> {
    if words.rest().is_empty() {
        return Err(ERROR);
    }
    Ok(TextRequest::Retrieve(Retrieval { unique, touch: None }, words.0))
}

fn get_and_touch(mut words: Words<'_>, unique: bool) -> Result<TextRequest<'_>, Fault> {
    let exptime = words.next().ok_or(ERROR)?;
    if words.rest().is_empty() {
        return Err(ERROR);
    }
    let touch = lifetime::exptime(exptime).ok_or(Fault::Answer(BAD_EXPTIME))?;
    Ok(TextRequest::Retrieve(Retrieval { unique, touch: Some(touch) }, words.0))
}

/// Whether the line asks for no answer.
fn is_quiet(words: Words<'_>) -> bool {
    words.last() == b"noreply"
}

/// A fault that is reported unless the line asks for no answer.
fn fault(quiet: bool, answer: &'static str) -> Fault {
    if quiet { Fault::Quiet } else { Fault::Answer(answer) }
}

fn check_key(key: &[u8], quiet: bool) -> Result<&[u8], Fault> {
    if key.len() > KEY_BYTES_MAX { Err(fault(quiet, BAD_FORMAT)) } else { Ok(key) }
}

fn store(mode: Mode, mut words: Words<'_>, compares: bool) -> Result<TextRequest<'_>, Fault> {
    let quiet = is_quiet(words);
    let mut next = || words.next().ok_or(ERROR);
    let (key, flags, exptime, bytes) = (next()?, next()?, next()?, next()?);
    let unique = if compares { Some(next()?) } else { None };
    if words.nth(1).is_some() {
        return Err(ERROR);
    }
    let bad = || fault(quiet, BAD_FORMAT);
    let key = check_key(key, quiet)?;
    let flags = number(flags).and_then(|flags| u32::try_from(flags).ok()).ok_or_else(bad)?;
    let exptime = lifetime::exptime(exptime).ok_or_else(bad)?;
    let bytes = announced(bytes).ok_or_else(bad)?;
    let unique = unique.map(|unique| number(unique).ok_or_else(bad)).transpose()?;
    Ok(TextRequest::Store(Store { mode, key, flags, exptime, bytes, unique, quiet }))
}

fn count(mut words: Words<'_>, up: bool) -> Result<TextRequest<'_>, Fault> {
    let quiet = is_quiet(words);
    let mut next = || words.next().ok_or(ERROR);
    let (key, delta) = (check_key(next()?, quiet)?, next()?);
    if words.nth(1).is_some() {
        return Err(ERROR);
    }
    let invalid = || fault(quiet, "CLIENT_ERROR invalid numeric delta argument");
    Ok(TextRequest::Count { key, up, delta: number(delta).ok_or_else(invalid)?, quiet })
}

fn delete(mut words: Words<'_>) -> Result<TextRequest<'_>, Fault> {
    let quiet = is_quiet(words);
    let key = words.next().ok_or(ERROR)?;
    let (second, third) = (words.next(), words.next());
    if words.next().is_some() {
        return Err(ERROR);
    }
    let key = check_key(key, quiet)?;
    // Old clients send a time, which may still be 0.
    match (second, third) {
        (None | Some(b"0" | b"noreply"), None) | (Some(b"0"), Some(b"noreply")) => {
            Ok(TextRequest::Delete { key, quiet })
        }
        _ => Err(fault(
            quiet,
            "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
        )),
    }
}

fn touch(mut words: Words<'_>) -> Result<TextRequest<'_>, Fault> {
    let quiet = is_quiet(words);
    let mut next = || words.next().ok_or(ERROR);
    let (key, exptime) = (next()?, next()?);
    if words.nth(1).is_some() {
        return Err(ERROR);
    }
    let key = check_key(key, quiet)?;
    let exptime = lifetime::exptime(exptime).ok_or_else(|| fault(quiet, BAD_EXPTIME))?;
    Ok(TextRequest::Touch { key, exptime, quiet })
}

fn flush_all(mut words: Words<'_>) -> Result<TextRequest<'_>, Fault> {
    let quiet = is_quiet(words);
    let delay = match words.next() {
        None | Some(b"noreply") => 0,
        Some(delay) => lifetime::exptime(delay).ok_or_else(|| fault(quiet, BAD_EXPTIME))?,
    };
    if words.nth(1).is_some() {
        return Err(ERROR);
    }
    Ok(TextRequest::FlushAll { delay, quiet })
}

/// Parses commands for operators.
fn administer<'a>(verb: &[u8], mut words: Words<'a>) -> Result<TextRequest<'a>, Fault> {
    let quiet = is_quiet(words);
    let last = words.last();
    let (first, second) = (words.next(), words.next());
    let answer = |answer| Ok(TextRequest::Answer { answer, quiet });
    match (verb, first) {
        (b"verbosity", Some(level)) if number(level).is_some() => answer("OK"),
        (b"verbosity", Some(_)) => Err(fault(quiet, BAD_FORMAT)),
        (b"cache_memlimit", Some(limit)) => {
            let mebibytes = number(limit).ok_or(ERROR)?;
            Ok(TextRequest::MemoryLimit { mebibytes, quiet })
        }
        (b"lru_crawler", Some(b"metadump")) => Ok(TextRequest::Dump { keys_only: false }),
        (b"lru_crawler", Some(b"mgdump")) => Ok(TextRequest::Dump { keys_only: true }),
        // There are no slabs, no LRU lists and no crawler, so there is nothing to adjust.
        (b"lru_crawler", Some(b"enable" | b"disable" | b"crawl" | b"sleep" | b"tocrawl")) => {
            answer("OK")
        }
        (b"lru", Some(b"mode" | b"tune" | b"temp_ttl")) => answer("OK"),
        (b"slabs", Some(b"automove")) => match second.and_then(number) {
            Some(_) => answer("OK"),
            None => Err(fault(quiet, BAD_FORMAT)),
        },
        (b"slabs", Some(b"reassign")) => answer("NOTFULL there are no slabs"),
        (b"config", Some(b"get")) if second == Some(b"cluster") => Ok(TextRequest::Cluster),
        (b"debugtime", Some(b"p")) => Ok(TextRequest::DebugTime(DebugTime::Hold)),
        (b"debugtime", Some(b"r")) => Ok(TextRequest::DebugTime(DebugTime::GoOn)),
        (b"debugtime", Some(seconds)) => {
            signed(seconds).map(|by| TextRequest::DebugTime(DebugTime::Move(by))).ok_or(ERROR)
        }
        (b"shutdown", _) => answer("ERROR: shutdown not enabled"),
        _ if last.starts_with(b"HTTP/") => Err(Fault::Close),
        _ => Err(ERROR),
    }
}

/// Parses a line, and checks that the result lies within it.
pub(crate) fn check(line: &[u8]) {
    match parse(line) {
        Ok(TextRequest::Retrieve(_, keys)) => assert!(line.ends_with(keys) && !keys.is_empty()),
        Ok(TextRequest::Store(Store { key, .. }) | TextRequest::Delete { key, .. }) => {
            assert!((1..=KEY_BYTES_MAX).contains(&key.len()));
        }
        Ok(TextRequest::Meta(request)) => {
            assert!((1..=KEY_BYTES_MAX).contains(&request.key.len()));
        }
        Ok(_) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(line: &str) -> Fault {
        parse(line.as_bytes()).unwrap_err()
    }

    #[test]
    fn words_that_are_missing_or_too_many_are_errors() {
        let lines = [
            "",
            "foo",
            "get",
            "gets  ",
            "gat 10",
            "touch a",
            "incr a",
            "verbosity",
            "set a 0 0",
            "set a 0 0 1 2 3",
            "cas a 0 0 1",
            "incr a 1 2 3",
            "touch a 1 2 3",
            "delete",
            "delete a 0 noreply x",
            "config set x",
            "mg",
        ];
        for line in lines {
            assert_eq!(fault_of(line), ERROR, "{line}");
        }
    }

    #[test]
    fn words_that_cannot_be_meant_are_named() {
        let long = format!("set {} 0 0 1", "k".repeat(251));
        let bad = [
            long.as_str(),
            "set a 0 0 abc",
            "set a 0 0 -1",
            "set a 0 0 4294967295",
            "set a 0 0 2147483647",
            "set a -1 0 1",
            "set a 4294967296 0 1",
            "set a 0 x 1",
            "cas a 0 0 1 x",
            "verbosity x",
            "slabs automove x",
        ];
        for line in bad {
            assert_eq!(fault_of(line), Fault::Answer(BAD_FORMAT), "{line}");
        }
        for line in ["flush_all x", "gat x a", "touch a x"] {
            assert_eq!(fault_of(line), Fault::Answer(BAD_EXPTIME), "{line}");
        }
        assert_eq!(fault_of("set a 0 0 x noreply"), Fault::Quiet);
        assert_eq!(fault_of("GET / HTTP/1.1"), Fault::Close);
    }

    #[test]
    fn a_delete_may_have_a_zero() {
        let deletes = |line: &str| match parse(line.as_bytes()) {
            Ok(TextRequest::Delete { key: b"a", quiet }) => Some(quiet),
            _ => None,
        };
        assert_eq!(deletes("delete a"), Some(false));
        assert_eq!(deletes("delete a 0"), Some(false));
        assert_eq!(deletes("delete a 0 noreply"), Some(true));
        assert_eq!(deletes("delete a noreply"), Some(true));
        assert_eq!(deletes("delete a 5"), None);
        assert_eq!(fault_of("delete a 5 noreply"), Fault::Quiet);
    }

    #[test]
    fn the_longest_key_is_taken() {
        let line = format!("delete {}", "k".repeat(250));
        assert!(matches!(parse(line.as_bytes()), Ok(TextRequest::Delete { .. })));
    }
}
