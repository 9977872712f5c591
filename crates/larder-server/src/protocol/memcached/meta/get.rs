//! `mg`: an item, and what is known of it.

use std::num::NonZeroU64;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder::{Change, Error, Moment, SetOptions, Value};

use super::answer::{ItemFacts, Winner, code, error, item};
use super::request::{MetaRequest, parse};
use crate::answers::{Answer, Answers, COPIED_MAX};
use crate::caller::Caller;
use crate::counters::Counters;
use crate::keyspace::{EXPIRE, SET};
use crate::protocol::memcached::items::{TOO_LATE, let_pass, server_error};
use crate::protocol::memcached::lifetime::Lifetime;
use crate::protocol::memcached::line::Words;
use crate::protocol::memcached::watched;
use crate::tenant::Calls;

pub(super) async fn answer(
    request: &MetaRequest<'_>,
    line: &[u8],
    caller: &Caller,
    answers: &mut Answers<'_>,
) {
    let flags = &request.flags;
    if flags.vivify.is_some() || flags.touch.is_some() {
        change(request, caller, answers).await;
    } else if flags.unseen {
        answers.settle().await;
        peek(request, caller, answers).await;
    } else if !at_once(request, caller, || answers.bytes()) {
        later(&request.key, line, caller, answers).await;
    }
}

/// Whether it changes nothing, and counts as a use.
pub(super) fn reads_only(request: &MetaRequest<'_>) -> bool {
    let flags = &request.flags;
    flags.vivify.is_none() && flags.touch.is_none() && !flags.unseen
}

/// Answers if the item is in DRAM and short enough to be copied. Returns whether it did. `out` makes the buffer for the
/// answer.
pub(super) fn at_once<'o>(
    request: &MetaRequest<'_>,
    caller: &Caller,
    out: impl FnOnce() -> &'o mut Vec<u8>,
) -> bool {
    let cache = caller.cache_for(&request.key);
    let moment = cache.moment(&request.key);
    let found = cache.get_at_once_with(&request.key, |value, meta| {
        if request.flags.value && value.len() > COPIED_MAX {
            return None;
        }
        let out = out();
        let known = ItemFacts::new(value, meta, moment);
        item(out, request, &known, || win(cache.calls(), &request.key, known.version));
        if request.flags.value {
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        Some(value.len())
    });
    let size = found.ok().flatten().flatten();
    let is_answered = size.is_some();
    if is_answered {
        watched::fetched(caller, &request.key, size);
        count(&caller.worker.counters, false, true);
    }
    is_answered
}

/// Answers when flash has been read.
async fn later(key: &[u8], line: &[u8], caller: &Caller, answers: &mut Answers<'_>) {
    let line = line.to_vec();
    let (tenant, worker) = (Arc::clone(caller.tenant_of(key)), Rc::clone(&caller.worker));
    let (asked, cfd) = (caller.asks("mg", key), caller.id);
    let found = Box::pin(async move {
        let mut words = Words(&line);
        words.next();
        let Ok(request) = parse(b"mg", words) else { return Answer::Bytes(Vec::new()) };
        let cache = tenant.calls();
        let found = worker.get(&tenant, &request.key).await;
        asked.ends(&request.key);
        count(&worker.counters, false, matches!(found, Ok(Some(_))));
        if let Ok(found) = &found {
            let size = found.as_ref().map(|value| value.len());
            watched::fetched_by(&worker.shared.watchers, cfd, &request.key, size);
        }
        let found =
            found.map(|value| value.map(|value| FoundItem::new(value, cache.moment(&request.key))));
        of_found(&request, found, cache)
    });
    answers.later(found, || Answer::Bytes(TOO_LATE.to_vec())).await;
}

/// Shows an item without counting a fetch, and without taking it into DRAM.
async fn peek(request: &MetaRequest<'_>, caller: &Caller, answers: &mut Answers<'_>) {
    let cache = caller.cache_for(&request.key);
    let moment = cache.moment(&request.key);
    let shown = caller
        .watch(
            "mg",
            &request.key,
            pin!(cache.peek_with(&request.key, |value, meta| {
                let known = ItemFacts::new(value, meta, moment);
                let mut out = Vec::new();
                item(&mut out, request, &known, || win(cache.calls(), &request.key, known.version));
                if request.flags.value {
                    out.extend_from_slice(value);
                    out.extend_from_slice(b"\r\n");
                }
                (value.len(), out)
            })),
        )
        .await;
    if let Ok(shown) = &shown {
        watched::fetched(caller, &request.key, shown.as_ref().map(|(size, _)| *size));
    }
    count(&caller.worker.counters, false, matches!(shown, Ok(Some(_))));
    answers.push(match shown {
        Ok(Some((_, shown))) => Answer::Bytes(shown),
        Ok(None) => miss(request),
        Err(why) => failed(&why),
    });
}

/// Gives an item a new lifetime, or creates one if there is none.
async fn change(request: &MetaRequest<'_>, caller: &Caller, answers: &mut Answers<'_>) {
    answers.settle().await;
    let cache = caller.cache_for(&request.key);
    let moment = cache.moment(&request.key);
    let wall = moment.wall();
    let lifetime = |exptime: Option<i64>| exptime.map(|exptime| Lifetime::new(exptime, wall));
    let (touch, vivify) = (lifetime(request.flags.touch), lifetime(request.flags.vivify));
    let version = vivify.map(|_| cache.draw_version(&request.key));
    let changing = caller.touches(&request.key);
    let found = caller
        .watch(
            "mg",
            &request.key,
            pin!(cache.update(&request.key, |there| match (there, touch, vivify) {
                (Some(_), Some(touch), _) => Change::Touch(touch.ttl()),
                (None, _, Some(vivify)) => {
                    let ttl = vivify.ttl();
                    let stub = SetOptions { ttl, version, won: true, ..SetOptions::default() };
                    Change::Store(Vec::new().into(), stub)
                }
                _ => Change::Keep,
            })),
        )
        .await;
    match &found {
        Ok(Some(_)) if touch.is_some() => changing.changed(caller.id, &[EXPIRE]),
        Ok(None) if vivify.is_some() => changing.changed(caller.id, &[SET]),
        Ok(_) => changing.settles(),
        // When it is dropped, copies of the value are invalid.
        Err(_) => drop(changing),
    }
    let is_hit = matches!(found, Ok(Some(_)));
    if let Ok(found) = &found {
        watched::fetched(caller, &request.key, found.as_ref().map(|value| value.len()));
    }
    count(&caller.worker.counters, touch.is_some(), is_hit);
    let found = match (found, vivify) {
        (Ok(None), Some(vivify)) => Ok(Some(FoundItem::stub(version, vivify, wall))),
        (found, _) => found.map(|value| value.map(|value| FoundItem::new(value, moment))),
    };
    answers.push(of_found(request, found, cache.calls()));
    let used = if is_hit { touch } else { vivify };
    let_pass(caller, used.unwrap_or(Lifetime::Endless)).await;
}

/// An item that was found, or a stub that was just created for the client.
struct FoundItem {
    value: Option<Value>,
    known: ItemFacts,
}

impl FoundItem {
    fn new(value: Value, moment: Moment) -> Self {
        let known = ItemFacts::new(&value, value.meta(), moment);
        Self { value: Some(value), known }
    }

    fn stub(version: Option<NonZeroU64>, lifetime: Lifetime, wall: Duration) -> Self {
        let known = ItemFacts {
            bytes: 0,
            flags: 0,
            version: version.map_or(0, NonZeroU64::get),
            left: lifetime.ttl(),
            fetched: false,
            idle: None,
            stale: false,
            won: false,
            binary_key: false,
            is_new: true,
            wall,
        };
        Self { value: None, known }
    }
}

fn of_found(
    request: &MetaRequest<'_>,
    found: Result<Option<FoundItem>, Error>,
    cache: Calls<'_>,
) -> Answer {
    let FoundItem { value, known } = match found {
        Ok(Some(found)) => found,
        Ok(None) => return miss(request),
        Err(why) => return failed(&why),
    };
    let mut head = Vec::new();
    let Some(value) = value else {
        item(&mut head, request, &known, || Winner::Asker);
        if request.flags.value {
            head.extend_from_slice(b"\r\n");
        }
        return Answer::Bytes(head);
    };
    item(&mut head, request, &known, || win(cache, &request.key, known.version));
    if !request.flags.value {
        return Answer::Bytes(head);
    }
    if value.len() > COPIED_MAX {
        return Answer::Long { head, value, tail: b"\r\n" };
    }
    head.extend_from_slice(&value);
    head.extend_from_slice(b"\r\n");
    Answer::Bytes(head)
}

/// Tries to win the right to bring the next value. An item without a version is not in DRAM, and any client may bring
/// it.
fn win(cache: Calls<'_>, key: &[u8], version: u64) -> Winner {
    match version == 0 || cache.win(key, version).unwrap_or(false) {
        true => Winner::Asker,
        false => Winner::Other,
    }
}

fn miss(request: &MetaRequest<'_>) -> Answer {
    let mut out = Vec::new();
    if !request.flags.quiet {
        code(&mut out, b"EN", request);
    }
    Answer::Bytes(out)
}

fn failed(why: &Error) -> Answer {
    let mut out = Vec::new();
    error(&mut out, server_error(why));
    Answer::Bytes(out)
}

fn count(counters: &Counters, touches: bool, is_hit: bool) {
    let (asked, hits, misses) = match touches {
        true => (&counters.cmd_touch, &counters.touch_hits, &counters.touch_misses),
        false => (&counters.cmd_get, &counters.get_hits, &counters.get_misses),
    };
    asked.add(1);
    if is_hit { hits.add(1) } else { misses.add(1) }
}
