//! The [`Engine`] implementation of the small-object engine.
//!
//! Its part of a snapshot has, for each bucket, the filter (16 bytes) and the generation (2); then the log in front of
//! the buckets, if there is one (`soc/log/snapshot.rs`). It has nothing to persist: buckets are written at once, and
//! the content of the log may be lost in a crash.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{BUCKET_SNAPSHOT_BYTES, Soc};
use crate::base::error::Error;
use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::KeyHash;
use crate::base::layout;
use crate::base::tier::Tier;
use crate::engine::tombstones::{Inheritance, KeysIn};
use crate::engine::{
    Cursor, DeadRecords, Engine, InvalidateOutcome, Judge, Memory, ShutdownMark, Stop,
};
use crate::observe::stats::Stats;

impl Engine for Soc {
    fn tier(&self) -> Tier {
        Tier::SmallObjects
    }

    fn section(&self) -> [u8; 4] {
        layout::BUCKETS
    }

    fn takes(&self, item: &ItemRef<'_>) -> bool {
        item.object_bytes() <= self.buckets.object_bytes_max()
    }

    fn object_bytes_max(&self) -> usize {
        self.buckets.object_bytes_max()
    }

    fn group_of(&self, hash: KeyHash) -> Option<u64> {
        Some(self.buckets.number_of(hash))
    }

    fn may_hold(&self, hash: KeyHash) -> bool {
        self.may_hold(hash)
    }

    async fn holds(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool {
        self.get(hash, key, now_s).await.is_some()
    }

    async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem> {
        self.get(hash, key, now_s).await
    }

    async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        self.set(item, now_s).await
    }

    async fn set_together<'i, 'a>(
        &self,
        items: &'i [ItemRef<'a>],
        now_s: u32,
    ) -> Vec<&'i ItemRef<'a>> {
        self.set_together(items, now_s).await
    }

    async fn remove(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool {
        self.remove(hash, key, now_s).await
    }

    async fn void(&self, hash: KeyHash) {
        self.void(hash).await;
    }

    async fn invalidate(&self, hash: KeyHash) -> Result<InvalidateOutcome, Error> {
        let Some(tombstones) = &self.tombstones else { return Ok(InvalidateOutcome::default()) };
        if let Some(log) = &self.log {
            log.invalidate(hash).await;
        }
        // Even if it is dead already: its tombstone may not be durable yet.
        let listed = self.buckets.is_listed(hash);
        let receipt = listed.then(|| tombstones.invalidate_key(KeysIn::Buckets, hash.0));
        Ok(InvalidateOutcome { was_there: receipt.is_some(), receipt })
    }

    fn has_to_void(&self, hash: KeyHash) -> bool {
        let is_logged = self.log.as_ref().is_some_and(|log| log.may_hold(hash));
        is_logged || self.buckets.is_listed(hash)
    }

    async fn relieve_tombstones(&self, hash: KeyHash) {
        let Some(tombstones) = &self.tombstones else { return };
        if let Some(dead) = tombstones.key_to_work_off(KeysIn::Buckets, hash.0) {
            self.write_without_dead(dead).await;
        }
    }

    async fn learn_place_of(&self, hash: u64) {
        self.buckets.learn_bucket(self.buckets.number_of(KeyHash(hash))).await;
    }

    async fn write_without_dead(&self, hash: u64) {
        self.buckets.work_off(self.buckets.number_of(KeyHash(hash))).await;
    }

    fn keys_in(&self) -> Option<KeysIn> {
        Some(KeysIn::Buckets)
    }

    fn inherit(&mut self, _log: &Arc<Inheritance>) {
        debug_assert!(self.log_objects() == 0, "a crash empties the log");
        self.buckets.states().forget_all();
    }

    async fn import(&mut self, part: &[u8], _kept: &ShutdownMark) -> Result<(), Error> {
        let buckets = usize::try_from(self.buckets.count()).unwrap_or(usize::MAX);
        let bucket_bytes = buckets.saturating_mul(BUCKET_SNAPSHOT_BYTES);
        let (buckets, rest) = part.split_at_checked(bucket_bytes).unwrap_or_default();
        // The same program wrote it for the same layout, under a checksum.
        if let Some(log) = &self.log {
            log.import(rest);
        }
        self.buckets.states().import(buckets);
        Ok(())
    }

    async fn learn_until(&self, stop: Stop<'_>) -> u64 {
        self.buckets.learn_until(stop).await
    }

    async fn finish(&self) {
        self.buckets.finish_all().await;
        if let Some(log) = &self.log {
            log.write_out().await;
        }
    }

    async fn export(&self, _dead: DeadRecords) -> Vec<u8> {
        // First: objects for which the log's part has no room cause their buckets to be emptied.
        let log = match &self.log {
            Some(log) => log.export().await,
            None => Vec::new(),
        };
        let mut part = Vec::new();
        self.buckets.export(&mut part);
        part.extend_from_slice(&log);
        part
    }

    async fn finish_writes(&self) {
        if let Some(log) = &self.log {
            log.finish_writes().await;
        }
        self.buckets.finish_all().await;
    }

    fn clear(&self, epoch: u64) {
        self.buckets.clear(epoch);
        if let Some(log) = &self.log {
            log.clear(epoch << 32);
        }
    }

    fn memory(&self) -> Memory {
        let buffer_bytes = self.pool.memory_bytes() as u64;
        Memory {
            index_bytes: self.buckets.memory_bytes() + self.log_index_bytes(),
            buffer_bytes,
            buffer_bytes_max: buffer_bytes,
        }
    }

    fn add_to(&self, stats: &mut Stats) {
        stats.soc_filter_bytes = self.buckets.memory_bytes();
        stats.soc_log_held_objects = self.log_objects();
        stats.soc_log_index_bytes = self.log_index_bytes();
    }

    fn estimated_len(&self) -> u64 {
        self.buckets.states().estimated_len() + self.log_objects()
    }

    fn scan(&self, hashes: &RangeInclusive<u64>) -> Cursor {
        // The first and the last bucket may hold keys with other hashes too.
        let last = self.buckets.number_of(KeyHash(*hashes.end()));
        let parts = self.buckets.number_of(KeyHash(*hashes.start()))..last + 1;
        Cursor { parts, names: Vec::new() }
    }

    async fn scan_on<T>(&self, cursor: &mut Cursor, judge: Judge<'_, T>) -> Option<Vec<T>> {
        if cursor.parts.is_empty() {
            return None;
        }
        debug_assert!(cursor.parts.end <= self.buckets.count(), "parts are buckets: {cursor:?}");
        let judged = self.peek(cursor.parts.start, judge).await;
        // Not earlier: if this future is dropped, the next call visits the bucket again.
        cursor.parts.start += 1;
        Some(judged)
    }
}
