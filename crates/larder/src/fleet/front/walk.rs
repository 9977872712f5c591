//! Scans of everything behind a route.

use std::fmt;
use std::sync::Arc;

use super::route::Lead;
use crate::base::error::{Error, ErrorKind};
use crate::cache::pages::CURSOR_END;
use crate::cache::{Larder, Scan, ScanPage, Scanned};
use crate::fleet::partition::ShardNumber;
use crate::fleet::shards::ShardMap;
use crate::fleet::shards::calls::View;

/// A scan of one of the caches of a [`Routed`](crate::Routed).
pub struct Walk<'a> {
    scan: Scan<'a>,
    /// Set for the cache of a shard.
    of: Option<(View<'a>, ShardNumber, &'a Arc<Larder>)>,
}

impl fmt::Debug for Walk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scan.fmt(f)
    }
}

impl<'a> Walk<'a> {
    pub(super) fn over(lead: Lead<'a>) -> impl Iterator<Item = Self> + use<'a> {
        let (one, shards) = match lead {
            Lead::One(cache) => (Some(Self { scan: cache.scan(), of: None }), None),
            Lead::Shards(shards) => (None, Some(shards)),
        };
        let of_shard = |shards: &'a ShardMap| {
            let view = shards.view();
            shards.live().map(move |(number, cache)| Self {
                scan: cache.scan(),
                of: Some((view, number, cache)),
            })
        };
        one.into_iter().chain(shards.into_iter().flat_map(of_shard))
    }

    /// See [`Scan::next`]; a batch may be empty before the end. The scan of a shard ends when the shard is taken out.
    pub async fn next(&mut self) -> Option<Vec<Scanned>> {
        let Some((view, shard, cache)) = self.of else { return self.scan.next().await };
        let items = view.while_at(shard, cache, self.scan.next()).await.flatten()?;
        Some(view.shown(shard, items).await)
    }

    /// See [`Scan::is_whole`].
    pub fn is_whole(&self) -> bool {
        self.scan.is_whole()
    }
}

/// A page of a scan over all shards: the cursor contains the number of the shard.
pub(super) async fn page(shards: &ShardMap, cursor: u64, count: usize) -> Result<ScanPage, Error> {
    let (number, cursor) = (cursor / CURSOR_END, cursor % CURSOR_END);
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if number >= shards.shards().count() {
        let message = format!("cursor {cursor}: no page of a scan has given it");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    // A shard that is away now has nothing: go on with the next one.
    let mut left = shards.live().skip_while(|(shard, _)| shard.index() < number);
    let Some((shard, cache)) = left.next() else {
        return Ok(ScanPage { items: Vec::new(), next: 0 });
    };
    let cursor = if shard.index() == number { cursor } else { 0 };
    let page = cache.scan_from(cursor, count).await?;
    let at = |shard: ShardNumber| shard.index() as u64 * CURSOR_END;
    let next = match (page.next, left.next()) {
        (0, None) => 0,
        (0, Some((next, _))) => at(next),
        (next, _) => at(shard) + next,
    };
    Ok(ScanPage { items: shards.view().shown(shard, page.items).await, next })
}
