//! Scans of all shards: returns each key once, with the user's key.

use std::sync::Arc;

use super::calls::View;
use super::name::key_of;
use crate::cache::{Larder, Scanned};
use crate::fleet::partition::ShardNumber;

impl View<'_> {
    /// Runs a step of a scan, while its shard is there.
    pub(crate) async fn while_at<T>(
        self,
        shard: ShardNumber,
        cache: &Arc<Larder>,
        walk: impl Future<Output = T>,
    ) -> Option<T> {
        self.set.while_there((shard, self.tenant), cache, walk).await
    }

    /// Filters the items of a scan of one shard: keeps keys that are valid there now, and not at an earlier place.
    pub(crate) async fn shown(self, shard: ShardNumber, items: Vec<Scanned>) -> Vec<Scanned> {
        let mut shown = Vec::with_capacity(items.len());
        for item in items {
            let (key, since) = key_of(item.name());
            if self.counts(shard, key, since).await {
                let prefix_bytes = item.name().len() - key.len();
                shown.push(item.behind(prefix_bytes));
            }
        }
        shown
    }

    /// Whether a look-up would find a shard's value under this name.
    async fn counts(self, shard: ShardNumber, key: &[u8], since: u32) -> bool {
        let (state, chain) = self.chain_of(key);
        for place in chain.first.iter().chain(&chain.later) {
            if (place.shard, place.since) == (shard, since) {
                return true;
            }
            let Some(there) = self.there(state, *place, key) else { continue };
            if there.cache.contains(&there.name).await.unwrap_or(false) {
                return false;
            }
        }
        false
    }
}
