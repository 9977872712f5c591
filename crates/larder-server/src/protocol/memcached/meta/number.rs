//! `ma`: increments or decrements a number.

use super::answer::{code, echo, error, numbered, ttl};
use super::request::MetaRequest;
use crate::answers::Answers;
use crate::caller::Caller;
use crate::protocol::memcached::items::{Count, CountOutcome, count, server_error};
use crate::protocol::memcached::lifetime::Lifetime;
use crate::protocol::memcached::line::append_number;

pub(super) async fn answer(request: &MetaRequest<'_>, caller: &Caller, answers: &mut Answers<'_>) {
    answers.settle().await;
    let flags = &request.flags;
    let up = match flags.counts_up() {
        Ok(up) => up,
        Err(why) => return error(answers.bytes(), why),
    };
    let wall = caller.cache_for(&request.key).moment(&request.key).wall();
    let lifetime = |exptime: i64| Lifetime::new(exptime, wall);
    let how = Count {
        compare: flags.compare,
        version: flags.explicit,
        touch: flags.touch.map(lifetime),
        vivify: flags.vivify.map(|exptime| (flags.initial, lifetime(exptime))),
        ..Count::new(up, flags.delta)
    };
    let counted = count(caller, &request.key, how).await;
    let out = answers.bytes();
    let (number, version, left) = match counted {
        Ok(CountOutcome::Number { .. } | CountOutcome::NotFound) if flags.quiet => return,
        Ok(CountOutcome::Number { number, version, left }) => (number, version, left),
        Ok(CountOutcome::NotFound) => return code(out, b"NF", request),
        Ok(CountOutcome::Exists) => return code(out, b"EX", request),
        Ok(CountOutcome::NotNumeric) => {
            return error(out, "CLIENT_ERROR cannot increment or decrement non-numeric value");
        }
        Err(why) => return error(out, server_error(&why)),
    };
    let mut digits = Vec::new();
    append_number(&mut digits, number);
    if flags.value {
        out.extend_from_slice(b"VA ");
        append_number(out, digits.len() as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
    for word in flags.all {
        match word.first() {
            Some(b'c') => numbered(out, b'c', version),
            Some(b't') => ttl(out, left),
            _ => {
                echo(out, word, request);
            }
        }
    }
    out.extend_from_slice(b"\r\n");
    if flags.value {
        out.extend_from_slice(&digits);
        out.extend_from_slice(b"\r\n");
    }
}
