//! `md`: deletes an item, or marks it as stale.

use super::answer::{code, error};
use super::request::MetaRequest;
use crate::answers::Answers;
use crate::caller::Caller;
use crate::protocol::memcached::items::{Delete, DeleteOutcome, delete, server_error};
use crate::protocol::memcached::lifetime::Lifetime;

pub(super) async fn answer(request: &MetaRequest<'_>, caller: &Caller, answers: &mut Answers<'_>) {
    answers.settle().await;
    let flags = &request.flags;
    let wall = caller.cache_for(&request.key).moment(&request.key).wall();
    let how = Delete {
        compare: flags.compare,
        invalidate: flags.invalidate,
        empty: flags.empty,
        lifetime: flags.touch.map(|exptime| Lifetime::new(exptime, wall)),
        version: flags.explicit,
        command: "md",
    };
    let deleted = delete(caller, &request.key, how).await;
    let out = answers.bytes();
    match deleted {
        Ok(DeleteOutcome::Deleted | DeleteOutcome::NotFound) if flags.quiet => {}
        Ok(DeleteOutcome::Deleted) => code(out, b"HD", request),
        Ok(DeleteOutcome::NotFound) => code(out, b"NF", request),
        Ok(DeleteOutcome::Exists) => code(out, b"EX", request),
        Err(why) => error(out, server_error(&why)),
    }
}
