//! Deleting an item, or making it less than it was.

use std::num::NonZeroU64;
use std::time::Duration;

use larder::{Change, Error, SetOptions};

use super::ending::let_pass;
use crate::caller::Caller;
use crate::protocol::memcached::lifetime::Lifetime;

/// How an item is deleted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delete {
    /// Only the value that has this version.
    pub(crate) compare: Option<u64>,
    /// It stays, as a stale one.
    pub(crate) invalidate: bool,
    /// It stays, without its value.
    pub(crate) empty: bool,
    /// How long what stays lives on; `None` as long as it would have.
    pub(crate) lifetime: Option<Lifetime>,
    /// The version of what stays.
    pub(crate) version: Option<NonZeroU64>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteOutcome {
    Deleted,
    NotFound,
    /// Another version is there.
    Exists,
}

/// Deletes an item, and counts that.
pub(crate) async fn delete(
    caller: &Caller,
    key: &[u8],
    how: Delete,
) -> Result<DeleteOutcome, Error> {
    let cache = caller.cache_for(key);
    let stays = how.invalidate || how.empty;
    let deleted = if !stays && how.compare.is_none() {
        let was_there = caller.watch("delete", key, cache.delete(key)).await?;
        if was_there { DeleteOutcome::Deleted } else { DeleteOutcome::NotFound }
    } else {
        let now = cache.moment(key).now();
        let mut ended = DeleteOutcome::NotFound;
        let before = cache.update(key, |there| {
            let Some(there) = there else {
                ended = DeleteOutcome::NotFound;
                return Change::Keep;
            };
            if how.compare.is_some_and(|it| it == 0 || it != there.version()) {
                ended = DeleteOutcome::Exists;
                return Change::Keep;
            }
            ended = DeleteOutcome::Deleted;
            how.change(there.meta().remaining(now))
        });
        caller.watch("delete", key, before).await?;
        if ended == DeleteOutcome::Deleted {
            let over = if stays { how.lifetime } else { Some(Lifetime::Over) };
            let_pass(caller, over.unwrap_or(Lifetime::Endless)).await;
        }
        ended
    };
    let counters = &caller.worker.counters;
    match deleted {
        DeleteOutcome::Deleted if stays => {}
        DeleteOutcome::Deleted => counters.delete_hits.add(1),
        DeleteOutcome::NotFound | DeleteOutcome::Exists => counters.delete_misses.add(1),
    }
    Ok(deleted)
}

impl Delete {
    /// What is done to a value that would live for `left`.
    fn change(&self, left: Option<Duration>) -> Change<'static> {
        let ttl = self.lifetime.map_or(left, Lifetime::ttl);
        let version = self.version;
        match (self.empty, self.invalidate) {
            (true, stale) => {
                let options = SetOptions { ttl, version, stale, ..SetOptions::default() };
                Change::Store(Vec::new().into(), options)
            }
            (false, true) => match (self.lifetime, ttl) {
                // It shall live for ever, which is not the same as if nothing was said.
                (Some(Lifetime::Endless), _) => {
                    Change::Invalidate { ttl: Some(Duration::MAX), version }
                }
                (lifetime, ttl) => Change::Invalidate { ttl: lifetime.and(ttl), version },
            },
            // The update has no deletion: its time is over.
            (false, false) => Change::Touch(Some(Duration::ZERO)),
        }
    }
}
