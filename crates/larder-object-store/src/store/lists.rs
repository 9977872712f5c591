//! Listings, which are cached only if `list_ttl` says so.

use std::time::Duration;

use larder::Route;

use super::Store;
use crate::head::{Head, StoredList};
use crate::key::ListKind;
use crate::source::Failure;

/// A longer listing is not cached.
const LIST_BYTES_MAX: usize = 1 << 20;
/// Nor is one of more objects: they are not even kept while it is read.
const LIST_OBJECTS_MAX: usize = 10_000;

/// A listing that the store is being asked for.
#[derive(Debug)]
pub(crate) struct Listing {
    key: Vec<u8>,
    epoch: u64,
    asked_at: Duration,
    /// `None` if it is too long.
    objects: Option<Vec<(String, Head)>>,
}

impl Listing {
    pub(crate) fn note(&mut self, path: &str, head: Head) {
        if let Some(objects) = &mut self.objects {
            if objects.len() < LIST_OBJECTS_MAX {
                objects.push((path.to_owned(), head));
            } else {
                self.objects = None;
            }
        }
    }
}

impl<R: Route + 'static, F: Failure> Store<R, F> {
    pub(crate) fn caches_lists(&self) -> bool {
        !self.options.list_ttl.is_zero()
    }

    /// A listing that is trusted, or else the note of one that is to be asked for.
    pub(crate) async fn list(&self, kind: ListKind, prefix: &str) -> Result<StoredList, Listing> {
        let key = self.keys.list(kind, prefix);
        let (epoch, now) = (self.epochs.of(&key), self.now());
        if let Some(stored) = self.look(&key).await
            && let Some((list, checked_at)) = StoredList::decode(&stored)
            && !self.epochs.is_doubtful(&key)
            && now.checked_sub(checked_at).is_some_and(|age| age < self.options.list_ttl)
        {
            self.counters.list_hits.add(1);
            return Ok(list);
        }
        Err(Listing { key, epoch, asked_at: now, objects: Some(Vec::new()) })
    }

    /// Stores a listing that the store has given to its end.
    pub(crate) async fn keep_list(&self, listing: Listing, prefixes: Vec<String>) {
        let Some(objects) = listing.objects else { return };
        let Some(bytes) = StoredList::new(prefixes, objects, listing.asked_at).encode() else {
            return;
        };
        if bytes.len() <= LIST_BYTES_MAX {
            self.counters.list_misses.add(1);
            let ttl = Some(self.options.list_ttl);
            self.keep_unless_written(&listing.key, &bytes, ttl, listing.epoch).await;
        }
    }
}
