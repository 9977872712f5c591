//! `me`: what is known of an item, for people.

use super::answer::{error, key};
use super::request::MetaRequest;
use crate::answers::{Answer, Answers};
use crate::caller::Caller;
use crate::protocol::memcached::items::server_error;
use crate::protocol::memcached::lifetime::left_s;
use crate::protocol::memcached::watched;

pub(super) async fn answer(request: &MetaRequest<'_>, caller: &Caller, answers: &mut Answers<'_>) {
    answers.settle().await;
    let cache = caller.cache_for(&request.key);
    let now = cache.moment(&request.key).now();
    let known = cache.peek_with(&request.key, |value, meta| {
        let idle = meta.since_access(now).map_or(0, |idle| idle.as_secs());
        let text = format!(
            " exp={} la={idle} cas={} fetch={} cls=1 size={} flags={} stale={} won={}\r\n",
            left_s(meta.remaining(now)),
            meta.version,
            yes_or_no(meta.fetched),
            request.key.len() + value.len(),
            meta.flags,
            yes_or_no(meta.stale),
            yes_or_no(meta.won),
        );
        (value.len(), text)
    });
    let known = known.await;
    if let Ok(known) = &known {
        watched::fetched(caller, &request.key, known.as_ref().map(|(size, _)| *size));
    }
    let mut out = Vec::new();
    match known {
        Ok(Some((_, known))) => {
            out.extend_from_slice(b"ME ");
            key(&mut out, request);
            out.extend_from_slice(known.as_bytes());
        }
        Ok(None) => out.extend_from_slice(b"EN\r\n"),
        Err(why) => error(&mut out, server_error(&why)),
    }
    answers.push(Answer::Bytes(out));
}

fn yes_or_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}
