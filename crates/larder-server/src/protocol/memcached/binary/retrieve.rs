//! Get, touch, and get-and-touch.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use larder::{Change, Value, ValueMeta};
use zerocopy::IntoBytes;
use zerocopy::big_endian::U32;

use super::answer::{failed, status_of};
use super::header::{AnswerParts, Header, Packet, Status, head};
use super::request::BinaryRetrieval;
use crate::answers::{Answer, Answers, COPIED_MAX};
use crate::caller::Caller;
use crate::protocol::memcached::items::let_pass;
use crate::protocol::memcached::lifetime::Lifetime;
use crate::protocol::memcached::watched;

pub(super) async fn answer(
    packet: &Packet<'_>,
    how: BinaryRetrieval,
    caller: &Caller,
    answers: &mut Answers<'_>,
) {
    match how.touch {
        Some(exptime) => touch(packet, how, exptime, caller, answers).await,
        None if at_once(packet, how, caller, answers) => {}
        None => later(packet, how, caller, answers).await,
    }
}

/// Answers if the item is in DRAM and short enough to be copied. Returns whether it did.
fn at_once(
    packet: &Packet<'_>,
    how: BinaryRetrieval,
    caller: &Caller,
    answers: &mut Answers<'_>,
) -> bool {
    let found = caller.cache_for(packet.key).get_at_once_with(packet.key, |value, meta| {
        let is_short = value.len() <= COPIED_MAX;
        if is_short {
            let out = answers.bytes();
            found_head(out, &packet.header, how, packet.key, value, meta);
            out.extend_from_slice(value);
        }
        is_short.then_some(value.len())
    });
    let size = found.ok().flatten().flatten();
    let is_answered = size.is_some();
    if is_answered {
        watched::fetched(caller, packet.key, size);
        caller.worker.counters.count_get(true);
    }
    is_answered
}

/// Answers when flash has been read.
async fn later(
    packet: &Packet<'_>,
    how: BinaryRetrieval,
    caller: &Caller,
    answers: &mut Answers<'_>,
) {
    let (tenant, worker) = (Arc::clone(caller.tenant_of(packet.key)), Rc::clone(&caller.worker));
    let (key, header, asked) = (packet.key.to_vec(), packet.header, caller.asks("get", packet.key));
    let cfd = caller.id;
    let found = Box::pin(async move {
        let found = worker.get(&tenant, &key).await;
        asked.ends(&key);
        worker.counters.count_get(matches!(found, Ok(Some(_))));
        if let Ok(found) = &found {
            let size = found.as_ref().map(|value| value.len());
            watched::fetched_by(&worker.shared.watchers, cfd, &key, size);
        }
        found_or_not(found, &header, how, &key)
    });
    let header = packet.header;
    let too_late = move || {
        let mut out = Vec::new();
        failed(&mut out, &header, Status::TooLate);
        Answer::Bytes(out)
    };
    answers.later(found, too_late).await;
}

async fn touch(
    packet: &Packet<'_>,
    how: BinaryRetrieval,
    exptime: i64,
    caller: &Caller,
    answers: &mut Answers<'_>,
) {
    answers.settle().await;
    let cache = caller.cache_for(packet.key);
    let lifetime = Lifetime::new(exptime, cache.moment(packet.key).wall());
    let changing = caller.touches(packet.key);
    let found = caller
        .watch(
            "gat",
            packet.key,
            pin!(cache.update(packet.key, |there| match there {
                Some(_) => Change::Touch(lifetime.ttl()),
                None => Change::Keep,
            })),
        )
        .await;
    changing.ends(caller.id, &found);
    if let Ok(found) = &found {
        watched::fetched(caller, packet.key, found.as_ref().map(|value| value.len()));
    }
    let is_hit = matches!(found, Ok(Some(_)));
    if how.value {
        caller.worker.counters.count_get(is_hit);
    }
    caller.worker.counters.count_touch(is_hit);
    answers.push(found_or_not(found, &packet.header, how, packet.key));
    let_pass(caller, lifetime).await;
}

fn found_or_not(
    found: Result<Option<Value>, larder::Error>,
    header: &Header,
    how: BinaryRetrieval,
    key: &[u8],
) -> Answer {
    let mut out = Vec::new();
    match found {
        Ok(Some(value)) => {
            found_head(&mut out, header, how, key, &value, value.meta());
            if how.value && value.len() > COPIED_MAX {
                return Answer::Long { head: out, value, tail: b"" };
            }
            if how.value {
                out.extend_from_slice(&value);
            }
        }
        Ok(None) if how.quiet => {}
        Ok(None) if how.key => {
            head(
                &mut out,
                header,
                Status::KeyNotFound,
                AnswerParts { key, ..AnswerParts::default() },
                0,
            );
        }
        Ok(None) => failed(&mut out, header, Status::KeyNotFound),
        Err(why) => failed(&mut out, header, status_of(&why)),
    }
    Answer::Bytes(out)
}

fn found_head(
    out: &mut Vec<u8>,
    header: &Header,
    how: BinaryRetrieval,
    key: &[u8],
    value: &[u8],
    meta: ValueMeta,
) {
    let flags = U32::new(meta.flags);
    let answered = AnswerParts {
        // A touch answers them too, though it answers no value.
        extras: flags.as_bytes(),
        key: if how.key { key } else { b"" },
        cas: meta.version,
    };
    head(out, header, Status::Success, answered, if how.value { value.len() } else { 0 });
}
