//! Deletes an item, or invalidates or empties it.

use std::num::NonZeroU64;
use std::pin::pin;
use std::time::Duration;

use larder::{Change, Error, SetOptions};

use super::ending::let_pass;
use crate::caller::Caller;
use crate::keyspace::{DEL, SET};
use crate::protocol::memcached::lifetime::Lifetime;
use crate::protocol::memcached::watched;

/// How an item is deleted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delete {
    /// Only if the value has this version.
    pub(crate) compare: Option<u64>,
    /// Keep the item, marked as stale.
    pub(crate) invalidate: bool,
    /// Keep the item, without its value.
    pub(crate) empty: bool,
    /// Lifetime of an item that is kept; `None`: unchanged.
    pub(crate) lifetime: Option<Lifetime>,
    /// Version of an item that is kept.
    pub(crate) version: Option<NonZeroU64>,
    /// The name of the command.
    pub(crate) command: &'static str,
}

impl Default for Delete {
    fn default() -> Self {
        Self {
            compare: None,
            invalidate: false,
            empty: false,
            lifetime: None,
            version: None,
            command: "delete",
        }
    }
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteOutcome {
    Deleted,
    NotFound,
    /// The value has another version.
    Exists,
}

/// Deletes an item, and counts the request.
pub(crate) async fn delete(
    caller: &Caller,
    key: &[u8],
    how: Delete,
) -> Result<DeleteOutcome, Error> {
    let cache = caller.cache_for(key);
    let stays = how.invalidate || how.empty;
    let mut size = watched::size(caller, key).await;
    let touch = caller.touches(key);
    let deleted = if !stays && how.compare.is_none() {
        let was_there = caller.watch("delete", key, pin!(cache.delete(key))).await?;
        size = was_there.then_some(size.unwrap_or(0));
        if was_there { DeleteOutcome::Deleted } else { DeleteOutcome::NotFound }
    } else {
        let now = cache.moment(key).now();
        let mut ended = DeleteOutcome::NotFound;
        let before = caller
            .watch(
                "delete",
                key,
                pin!(cache.update(key, |there| {
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
                })),
            )
            .await?;
        size = before.map(|value| value.len());
        if ended == DeleteOutcome::Deleted {
            let over = if stays { how.lifetime } else { Some(Lifetime::Over) };
            let_pass(caller, over.unwrap_or(Lifetime::Endless)).await;
        }
        ended
    };
    match deleted {
        DeleteOutcome::Deleted => touch.changed(caller.id, if stays { &[SET] } else { &[DEL] }),
        _ => touch.settles(),
    }
    watched::fetched(caller, key, size);
    if deleted == DeleteOutcome::Deleted && !how.invalidate {
        watched::deleted(caller, key, how.command, size.unwrap_or(0));
    }
    let counters = &caller.worker.counters;
    match deleted {
        DeleteOutcome::Deleted if stays => {}
        DeleteOutcome::Deleted => counters.delete_hits.add(1),
        DeleteOutcome::NotFound | DeleteOutcome::Exists => counters.delete_misses.add(1),
    }
    Ok(deleted)
}

impl Delete {
    /// The change for a value whose remaining lifetime is `left`.
    fn change(&self, left: Option<Duration>) -> Change<'static> {
        let ttl = self.lifetime.map_or(left, Lifetime::ttl);
        let version = self.version;
        match (self.empty, self.invalidate) {
            (true, stale) => {
                let options = SetOptions { ttl, version, stale, ..SetOptions::default() };
                Change::Store(Vec::new().into(), options)
            }
            (false, true) => match (self.lifetime, ttl) {
                // An explicit endless lifetime differs from `None`, which keeps the lifetime.
                (Some(Lifetime::Endless), _) => {
                    Change::Invalidate { ttl: Some(Duration::MAX), version }
                }
                (lifetime, ttl) => Change::Invalidate { ttl: lifetime.and(ttl), version },
            },
            // An update has no deletion, so we end the item's lifetime.
            (false, false) => Change::Touch(Some(Duration::ZERO)),
        }
    }
}
