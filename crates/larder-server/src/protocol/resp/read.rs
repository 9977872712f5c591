//! Requests that read one value and change nothing: answered at once from DRAM, or in parallel from flash.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use larder::{Moment, Value, ValueMeta};

use super::client::Client;
use super::collection::{WRONG_TYPE, is_string};
use super::command::Does;
use super::context::{Context, no_room};
use super::expiry::{self, Unit};
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, Outcome, Refusal, TOO_LATE, Writer};
use crate::answers::{Answer, Answers, COPIED_MAX};
use crate::caller::Caller;
use crate::collections::ItemKind;

/// Most bytes of an answer beside its string: a mark, a number, the ends of two lines.
const HEAD_BYTES: usize = 1 + 20 + 4;

/// What a request asks of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueRead {
    Get,
    /// The same, but a collection counts as no value: `MGET`.
    GetString,
    Strlen,
    Range(i64, i64),
    Expiry(Unit),
    Type,
}

impl ValueRead {
    /// What a command asks of the value of its first argument, if it is such a command.
    pub(super) fn of(does: Does, argv: Arguments<'_>) -> Option<Result<Self, Refusal>> {
        Some(Ok(match does {
            Does::Get => Self::Get,
            Does::Strlen => Self::Strlen,
            Does::Ttl => Self::Expiry(expiry::EX),
            Does::Pttl => Self::Expiry(expiry::PX),
            Does::Expiretime => Self::Expiry(expiry::EXAT),
            Does::Pexpiretime => Self::Expiry(expiry::PXAT),
            Does::Type => Self::Type,
            Does::Getrange => {
                let ends = (number::integer(argv.get(2)), number::integer(argv.get(3)));
                let (Some(first), Some(last)) = ends else { return Some(Err(NO_INTEGER)) };
                Self::Range(first, last)
            }
            _ => return None,
        }))
    }

    /// Writes the answer; `moment` is called only if the time is needed.
    fn show(
        self,
        found: Option<(&[u8], ValueMeta)>,
        moment: impl FnOnce() -> Moment,
        out: &mut Writer<'_>,
    ) {
        let is_collection = found.is_some_and(|(_, meta)| !is_string(meta.flags));
        match (self, found) {
            (Self::GetString, _) if is_collection => out.null(),
            (Self::Get | Self::Strlen | Self::Range(..), _) if is_collection => {
                out.refusal(&WRONG_TYPE);
            }
            (Self::Get | Self::GetString, Some((value, _))) => out.bulk(value),
            (Self::Get | Self::GetString, None) => out.null(),
            (Self::Strlen, found) => out.count(found.map_or(0, |(value, _)| value.len())),
            (Self::Range(first, last), found) => {
                out.bulk(found.map_or(&[][..], |(value, _)| part(value, first, last)));
            }
            (Self::Expiry(_), None) => out.integer(-2),
            (Self::Expiry(unit), Some((_, meta))) => {
                out.integer(expiry::told(unit, meta.expires_at, moment()));
            }
            (Self::Type, found) => {
                let kind = found.map(|(_, meta)| ItemKind::of(meta.flags));
                out.simple(kind.map_or("none", ItemKind::name));
            }
        }
    }

    /// Length of the string in the answer.
    fn string_bytes(self, value: &[u8], flags: u32) -> usize {
        match self {
            _ if !is_string(flags) => 0,
            Self::Get | Self::GetString => value.len(),
            Self::Range(first, last) => part(value, first, last).len(),
            _ => 0,
        }
    }

    /// The name of the command.
    fn command(self) -> &'static str {
        match self {
            Self::Get | Self::GetString => "get",
            Self::Strlen => "strlen",
            Self::Range(..) => "getrange",
            Self::Expiry(_) => "ttl",
            Self::Type => "type",
        }
    }

    fn counts_as_get(self) -> bool {
        matches!(self, Self::Get | Self::GetString | Self::Range(..))
    }
}

/// The bytes from `first` to `last`; negative ones count from the end.
fn part(value: &[u8], first: i64, last: i64) -> &[u8] {
    let length = i64::try_from(value.len()).unwrap_or(i64::MAX);
    let from_start = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    if first < 0 && last < 0 && first > last {
        return &[];
    }
    let (first, last) = (from_start(first), from_start(last).min(length - 1));
    let place = |at: i64| usize::try_from(at).unwrap_or(0);
    value.get(place(first)..place(last.saturating_add(1))).unwrap_or_default()
}

/// Answers in the order of the requests, now or when flash has been read.
pub(super) async fn answer(
    read: ValueRead,
    (caller, client): (&Caller, &Client),
    key: &[u8],
    answers: &mut Answers<'_>,
) {
    // Between two of many keys, sends what is answered.
    answers.room().await;
    let out = Writer::new(answers.bytes(), client.is_resp3);
    let is_answered = at_once(read, caller, key, out);
    caller.work.does(1);
    if !is_answered {
        later(read, (caller, client), key, answers).await;
    }
}

/// Answers if the value is in DRAM and short enough to be copied, or if it is certainly nowhere. Returns whether it
/// did.
pub(super) fn at_once(read: ValueRead, caller: &Caller, key: &[u8], mut out: Writer<'_>) -> bool {
    let cache = caller.cache_for(key);
    let shown = cache.get_at_once_with(key, |value, meta| {
        if read.string_bytes(value, meta.flags) > COPIED_MAX {
            return false;
        }
        caller.work.does_bytes(value.len());
        read.show(Some((value, meta)), || cache.moment(key), &mut out);
        true
    });
    let is_hit = matches!(shown, Ok(Some(true)));
    let is_miss = matches!(shown, Ok(None)) && matches!(cache.misses_at_once(key), Ok(true));
    if is_miss {
        read.show(None, || cache.moment(key), &mut out);
        caller.worker.shared.keyspace.misses(caller.tenant_of(key), key);
    }
    if (is_hit || is_miss) && read.counts_as_get() {
        caller.worker.counters.count_get(is_hit);
    }
    is_hit || is_miss
}

/// Answers when flash has been read.
async fn later(
    read: ValueRead,
    (caller, client): (&Caller, &Client),
    key: &[u8],
    answers: &mut Answers<'_>,
) {
    let (tenant, worker) = (Arc::clone(caller.tenant_of(key)), Rc::clone(&caller.worker));
    let (key, is_resp3) = (key.to_vec(), client.is_resp3);
    let (listed, asked) = (client.listed.clone(), caller.asks(read.command(), &key));
    let of_tenant = caller.tenant.number;
    let later = Box::pin(async move {
        let begun = Instant::now();
        let found = worker.get(&tenant, &key).await;
        asked.ends(&key);
        if matches!(found, Ok(None)) {
            worker.shared.keyspace.misses(&tenant, &key);
        }
        let slow = &worker.shared.resp.slow;
        if slow.wants(begun.elapsed()) {
            let arguments = [&b"GET"[..], &key];
            let name = listed.as_ref().map(|it| it.words().name).unwrap_or_default();
            let peer = listed.map(|it| it.peer.clone()).unwrap_or_default();
            let arguments = (arguments.len(), arguments.into_iter());
            slow.add(of_tenant, begun.elapsed(), arguments, peer, name);
        }
        if read.counts_as_get() {
            worker.counters.count_get(matches!(found, Ok(Some(_))));
        }
        answer_of(read, found, || tenant.calls().moment(&key), is_resp3)
    });
    let too_late = move || {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes, is_resp3).refusal(&TOO_LATE);
        Answer::Bytes(bytes)
    };
    answers.later(later, too_late).await;
}

fn answer_of(
    read: ValueRead,
    found: Result<Option<Value>, larder::Error>,
    moment: impl FnOnce() -> Moment,
    is_resp3: bool,
) -> Answer {
    let told = found.as_ref().ok().and_then(Option::as_ref);
    let copied = told.map(|value| read.string_bytes(value, value.flags()));
    let copied = copied.filter(|bytes| *bytes <= COPIED_MAX).unwrap_or(0);
    // Once, not part by part.
    let mut bytes = Vec::with_capacity(copied + HEAD_BYTES);
    let mut out = Writer::new(&mut bytes, is_resp3);
    match found {
        Ok(Some(value))
            if matches!(read, ValueRead::Get | ValueRead::GetString)
                && read.string_bytes(&value, value.flags()) > COPIED_MAX =>
        {
            out.bulk_head(value.len());
            return Answer::Long { head: bytes, value, tail: b"\r\n" };
        }
        Ok(found) => {
            read.show(found.as_ref().map(|value| (&**value, value.meta())), moment, &mut out);
        }
        Err(error) => out.refusal(&error.into()),
    }
    Answer::Bytes(bytes)
}

/// Answers before anything else is done: within a transaction.
pub(super) async fn run(cx: &mut Context<'_>, read: ValueRead, key: &[u8]) -> Outcome {
    let cache = cx.caller.cache_for(key);
    let out = &mut cx.out;
    let shown = cache.get_with(key, |value, meta| {
        read.show(Some((value, meta)), || cache.moment(key), out);
    });
    let hit = shown.await?.is_some();
    if !hit {
        read.show(None, || cache.moment(key), &mut cx.out);
        cx.misses(key);
    }
    if read.counts_as_get() {
        cx.caller.worker.counters.count_get(hit);
    }
    Ok(())
}

/// `MGET`, within a transaction.
pub(super) async fn mget(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut answers = cx.caller.keep();
    cx.out.array(argv.len() - 1);
    for key in argv.from(1) {
        let before = cx.out.len();
        if let Err(refusal) = run(cx, ValueRead::GetString, key).await {
            cx.out.refusal(&refusal);
        }
        if !answers.grow(cx.out.len() - before) {
            return Err(no_room(cx.caller));
        }
        cx.caller.work.does_bytes(cx.out.len() - before);
        cx.rests_behind(key).await;
    }
    Ok(())
}

/// `EXISTS`.
pub(super) async fn exists(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut found = 0;
    for key in argv.from(1) {
        match cx.cache(key).contains(key).await? {
            true => found += 1,
            false => cx.misses(key),
        }
        cx.rests_behind(key).await;
    }
    cx.out.count(found);
    Ok(())
}

/// `TOUCH`.
pub(super) async fn touch(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let mut found = 0;
    for key in argv.from(1) {
        let hit = cx.cache(key).get_with(key, |_, _| ()).await?.is_some();
        cx.caller.worker.counters.count_touch(hit);
        found += usize::from(hit);
        if !hit {
            cx.misses(key);
        }
        cx.rests_behind(key).await;
    }
    cx.out.count(found);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_value() {
        let of = |first, last| part(b"Hello World", first, last);
        assert_eq!(of(0, 3), b"Hell");
        assert_eq!(of(0, -1), b"Hello World");
        assert_eq!(of(-4, -1), b"orld");
        assert_eq!(of(5, 3), b"");
        assert_eq!(of(5, 5000), b" World");
        assert_eq!(of(-5000, 10000), b"Hello World");
        assert_eq!(of(-1, -5), b"");
        assert_eq!(of(i64::MIN, i64::MAX), b"Hello World");
        assert_eq!(of(i64::MAX, i64::MAX), b"");
        assert_eq!(part(b"", 0, -1), b"");
    }
}
