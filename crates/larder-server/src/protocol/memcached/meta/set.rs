//! `ms`: stores a value.

use super::answer::{echo, error, numbered};
use super::request::MetaRequest;
use crate::answers::Answers;
use crate::caller::Caller;
use crate::protocol::memcached::items::{Store, StoreOutcome, reserved, server_error, store};
use crate::protocol::memcached::lifetime::Lifetime;

pub(super) async fn answer(
    request: &MetaRequest<'_>,
    value: &[u8],
    caller: &Caller,
    answers: &mut Answers<'_>,
) {
    answers.settle().await;
    let flags = &request.flags;
    let mode = match flags.store_mode() {
        Ok(mode) => mode,
        Err(why) => return error(answers.bytes(), why),
    };
    let wall = caller.cache_for(&request.key).moment(&request.key).wall();
    let lifetime = |exptime: i64| Lifetime::new(exptime, wall);
    let how = Store {
        compare: flags.compare,
        invalidate: flags.invalidate,
        version: flags.explicit,
        vivify: flags.vivify.map(lifetime),
        wants_version: flags.version,
        binary_key: flags.base64,
        ..Store::new(mode, flags.client_flags, lifetime(flags.touch.unwrap_or(0)))
    };
    let stored = store(caller, &request.key, value, how).await;
    let out = answers.bytes();
    let (code, version): (&[u8], u64) = match stored {
        Ok(StoreOutcome::Stored(_)) if flags.quiet => return,
        Ok(StoreOutcome::Stored(version)) => (b"HD", version),
        Ok(StoreOutcome::NotStored) => (b"NS", 0),
        Ok(StoreOutcome::Exists) => (b"EX", 0),
        Ok(StoreOutcome::NotFound) => (b"NF", 0),
        Ok(StoreOutcome::ReservedFlags) => return error(out, &reserved(flags.client_flags)),
        Ok(StoreOutcome::TooLarge) => return error(out, "SERVER_ERROR object too large for cache"),
        Err(why) => return error(out, server_error(&why)),
    };
    out.extend_from_slice(code);
    for word in flags.all {
        match word.first() {
            Some(b'c') => numbered(out, b'c', version),
            Some(b's') => numbered(out, b's', value.len() as u64),
            _ => {
                echo(out, word, request);
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}
