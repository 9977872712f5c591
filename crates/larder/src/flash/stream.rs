//! Values that are read or written part by part.

use super::Flash;
use super::engines::{EngineId, call};
use crate::cache::Tiers;
use crate::item::{Fetched, ItemRef};
use crate::key::KeyHash;
use crate::long::{Found, Lack, NewParts, Parts};
use crate::tier::Tier;

impl Flash {
    /// Looks `key` up, but reads of a value in parts only which they are. Says which engine had it.
    pub(crate) async fn look_up(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(Found, EngineId, Tier)> {
        let found = self.look_up_known(hash, key, now_s).await;
        if found.is_some() || !self.is_found_meanwhile(hash).await {
            return found;
        }
        self.look_up_known(hash, key, now_s).await
    }

    /// The same, of what the indexes know.
    async fn look_up_known(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(Found, EngineId, Tier)> {
        for (engine, any) in self.engines.named() {
            if let Some(found) = call!(any, look_up(hash, key, now_s).await) {
                return Some((found, engine, call!(any, tier())));
            }
        }
        None
    }

    /// The next part of a value that [`Flash::look_up`] has found; `None` behind the last one.
    ///
    /// # Errors
    /// If it is not there.
    pub(crate) async fn next_part(
        &self,
        engine: EngineId,
        parts: &mut Parts,
    ) -> Result<Option<Fetched>, Lack> {
        call!(self.engines.get(engine), next_part(parts).await)
    }

    /// Begins to store an object with a value of this length, if it would lie in parts and is worth it.
    pub(crate) fn new_parts(
        &self,
        item: &ItemRef<'_>,
        value_bytes: usize,
        now_s: u32,
    ) -> Option<(EngineId, NewParts)> {
        if item.tiers == Tiers::DramOnly || self.is_over(item) || !self.breaker.allows() {
            return None;
        }
        // As an object goes to the last engine that takes it.
        let begun = self.engines.named().rev().find_map(|(engine, any)| {
            call!(any, new_parts(item, value_bytes)).map(|parts| (engine, parts))
        })?;
        let object_bytes = item.key.len() + value_bytes;
        self.is_worth_a_write(item.hash, object_bytes, now_s).then_some(begun)
    }

    /// Stores the next part. Says whether it is stored.
    pub(crate) async fn add_part(
        &self,
        engine: EngineId,
        parts: &mut NewParts,
        bytes: &[u8],
        now_s: u32,
    ) -> bool {
        self.breaker.allows()
            && call!(self.engines.get(engine), add_part(parts, bytes, now_s).await)
    }

    /// Stores what makes parts an object, whose key has no older version anywhere. The caller holds the key's lock.
    pub(crate) async fn add_head(
        &self,
        engine: EngineId,
        parts: &NewParts,
        item: &ItemRef<'_>,
        now_s: u32,
    ) -> bool {
        call!(self.engines.get(engine), add_head(parts, item, now_s).await)
    }
}
