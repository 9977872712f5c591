//! Reads and writes values part by part.

use super::Flash;
use super::engines::{EngineId, call};
use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::KeyHash;
use crate::base::tier::{Tier, Tiers};
use crate::engine::long::{Lack, LongLookup, NewParts, Parts};

impl Flash {
    /// Looks `key` up. Of a value in parts, reads only the list of its parts. Also returns the engine that had it.
    pub(crate) async fn look_up(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(LongLookup, EngineId, Tier)> {
        let found = self.look_up_known(hash, key, now_s).await;
        if found.is_some() || !self.is_found_meanwhile(hash).await {
            return found;
        }
        self.look_up_known(hash, key, now_s).await
    }

    /// The same, as far as the indexes know now.
    async fn look_up_known(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(LongLookup, EngineId, Tier)> {
        for (engine, any) in self.engines.named() {
            if let Some(found) = call!(any, look_up(hash, key, now_s).await) {
                return Some((found, engine, call!(any, tier())));
            }
        }
        None
    }

    /// The next part of a value that [`Flash::look_up`] has found; `None` after the last one.
    ///
    /// # Errors
    /// If the part is not there.
    pub(crate) async fn next_part(
        &self,
        engine: EngineId,
        parts: &mut Parts,
    ) -> Result<Option<FlashItem>, Lack> {
        call!(self.engines.get(engine), next_part(parts).await)
    }

    /// Starts storing an object with a value of this length, if it would be stored in parts and admission accepts it.
    pub(crate) fn new_parts(
        &self,
        item: &ItemRef<'_>,
        value_bytes: usize,
        now_s: u32,
    ) -> Option<(EngineId, NewParts)> {
        if item.tiers == Tiers::DramOnly || self.is_over(item) || !self.breaker.allows() {
            return None;
        }
        // As for whole objects, the last engine that takes it.
        let begun = self.engines.named().rev().find_map(|(engine, any)| {
            call!(any, new_parts(item, value_bytes)).map(|parts| (engine, parts))
        })?;
        let object_bytes = item.key.len() + value_bytes;
        self.is_worth_a_write(item.hash, object_bytes, now_s).then_some(begun)
    }

    /// Stores the next part. Returns whether it is stored.
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

    /// Stores the head record, which makes the parts an object. No older version of its key may exist anywhere. The
    /// caller holds the key's lock.
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
