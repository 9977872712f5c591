//! `set` and its variants.

use super::LINE_BYTES_MAX;
use super::request::{Store, TextRequest, parse};
use super::say::say_unless;
use crate::answers::Answers;
use crate::caller::Caller;
use crate::protocol::memcached::items::{self, Mode, StoreOutcome, server_error};
use crate::protocol::memcached::lifetime::Lifetime;
use crate::protocol::memcached::line;

/// A value that a line has announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnnouncedValue {
    /// Bytes of the line.
    pub(super) taken: usize,
    /// Bytes of the value, without its end.
    pub(super) bytes: usize,
    pub(super) quiet: bool,
}

/// Answers `set`, if its value is in `input` and can be stored without a wait. `None`: nothing has changed.
pub(super) fn at_once(caller: &mut Caller, input: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    if caller.needs_login() {
        return None;
    }
    let (line, taken) = line::first(input.get(..LINE_BYTES_MAX).unwrap_or(input))?;
    let Ok(TextRequest::Store(request)) = parse(line) else { return None };
    let value = input.get(taken..taken + request.bytes + 2)?.strip_suffix(b"\r\n")?;
    let is_plain = request.mode == Mode::Set && request.unique.is_none();
    let is_too_large = value.len() > caller.worker.shared.config.value_bytes_max;
    if !is_plain || is_too_large || !caller.may_begin_at_once(request.key) {
        return None;
    }
    // Most values live for ever, and need no clock.
    let lifetime = match request.exptime {
        0 => Lifetime::Endless,
        exptime => {
            let moment = caller.cache_for(request.key).moment(request.key);
            Lifetime::new(exptime, moment.wall())
        }
    };
    if !items::store_at_once(caller, request.key, value, (request.flags, lifetime)) {
        return None;
    }
    if !request.quiet {
        out.extend_from_slice(b"STORED\r\n");
    }
    Some(taken + request.bytes + 2)
}

pub(super) async fn answer(
    request: &Store<'_>,
    value: &[u8],
    caller: &Caller,
    answers: &mut Answers<'_>,
) {
    let wall = caller.cache_for(request.key).moment(request.key).wall();
    let lifetime = Lifetime::new(request.exptime, wall);
    let how = items::Store {
        compare: request.unique,
        ..items::Store::new(request.mode, request.flags, lifetime)
    };
    let stored = items::store(caller, request.key, value, how).await;
    let told;
    say_unless(
        request.quiet,
        answers,
        match &stored {
            Ok(StoreOutcome::ReservedFlags) => {
                told = items::reserved(request.flags);
                &told
            }
            Ok(StoreOutcome::Stored(_)) => "STORED",
            Ok(StoreOutcome::NotStored) => "NOT_STORED",
            Ok(StoreOutcome::Exists) => "EXISTS",
            Ok(StoreOutcome::NotFound) => "NOT_FOUND",
            Ok(StoreOutcome::TooLarge) => "SERVER_ERROR object too large for cache",
            Err(why) => server_error(why),
        },
    );
}
