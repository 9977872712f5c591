//! What clients that watch are told of memcached requests. As long as none watches, each call costs one load.

use super::lifetime::Lifetime;
use crate::caller::Caller;
use crate::watchers::{Deletion, Fetch, Mutation, Streams, Watchers};

/// A look-up of `key` has found a value of `size` bytes, or none.
#[inline]
pub(super) fn fetched(caller: &Caller, key: &[u8], size: Option<usize>) {
    fetched_by(&caller.worker.shared.watchers, caller.id, key, size);
}

/// As [`fetched`], for the connection with this number.
#[inline]
pub(super) fn fetched_by(watchers: &Watchers, cfd: u64, key: &[u8], size: Option<usize>) {
    if watchers.want(Streams::FETCHERS) {
        let status = watchers.status_of(key, size);
        let size = size.unwrap_or(0);
        watchers.tell(Streams::FETCHERS, &Fetch { key, status, cfd, size });
    }
}

/// A store as `command` has ended. `size` is that of the value, or `None` if it was refused before it came.
#[inline]
pub(super) fn stored(
    caller: &Caller,
    key: &[u8],
    (status, command): (&'static str, &'static str),
    lifetime: Lifetime,
    size: Option<usize>,
) {
    let watchers = &caller.worker.shared.watchers;
    if watchers.want(Streams::MUTATIONS) {
        let cfd = caller.id;
        let event = Mutation { key, status, command, ttl: ttl(lifetime), size, cfd };
        watchers.tell(Streams::MUTATIONS, &event);
    }
}

/// A value of `size` bytes was deleted.
#[inline]
pub(super) fn deleted(caller: &Caller, key: &[u8], command: &'static str, size: usize) {
    let watchers = &caller.worker.shared.watchers;
    if watchers.want(Streams::DELETIONS) {
        watchers.tell(Streams::DELETIONS, &Deletion { key, command, size });
    }
}

/// The size of a value, for a request that does not look at the value; `None` if there is none, or if nothing is told
/// of look-ups and deletions.
pub(super) async fn size(caller: &Caller, key: &[u8]) -> Option<usize> {
    if !caller.worker.shared.watchers.want(Streams::FETCHERS.and(Streams::DELETIONS)) {
        return None;
    }
    // It is boxed, so that requests that are not watched stay small.
    let size = Box::pin(caller.cache_for(key).peek_with(key, |value, _| value.len())).await;
    size.ok().flatten()
}

/// Seconds, as memcached writes them: 0 is for ever, and a lifetime that is over wraps around.
fn ttl(lifetime: Lifetime) -> u32 {
    match lifetime {
        Lifetime::Endless => 0,
        Lifetime::For(time) => u32::try_from(time.as_secs()).unwrap_or(u32::MAX),
        Lifetime::Over => u32::MAX,
    }
}
