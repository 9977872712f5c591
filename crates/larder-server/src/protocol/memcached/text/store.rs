//! `set` and its variants.

use super::request::Store;
use super::say::say_unless;
use crate::answers::Answers;
use crate::caller::Caller;
use crate::protocol::memcached::items::{self, StoreOutcome, server_error};
use crate::protocol::memcached::lifetime::Lifetime;

/// A value that a line has announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnnouncedValue {
    /// Bytes of the line.
    pub(super) taken: usize,
    /// Bytes of the value, without its end.
    pub(super) bytes: usize,
    pub(super) quiet: bool,
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
    say_unless(
        request.quiet,
        answers,
        match &stored {
            Ok(StoreOutcome::Stored(_)) => "STORED",
            Ok(StoreOutcome::NotStored) => "NOT_STORED",
            Ok(StoreOutcome::Exists) => "EXISTS",
            Ok(StoreOutcome::NotFound) => "NOT_FOUND",
            Ok(StoreOutcome::TooLarge) => "SERVER_ERROR object too large for cache",
            Err(why) => server_error(why),
        },
    );
}
