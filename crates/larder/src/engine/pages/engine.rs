//! The [`Engine`] implementation. `snapshot.rs` describes its part of a snapshot.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::Pages;
use super::page::BODY_BYTES;
use super::recovery::Left;
use super::snapshot::listed;
use crate::base::error::Error;
use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::KeyHash;
use crate::base::layout;
use crate::base::tier::Tier;
use crate::engine::flash_region::FlashRegion;
use crate::engine::tombstones::Inheritance;
use crate::engine::{Cursor, DeadRecords, Engine, InvalidateOutcome, Judge, Memory, ShutdownMark};
use crate::observe::stats::Stats;

impl Engine for Pages {
    fn tier(&self) -> Tier {
        Tier::SmallObjects
    }

    fn section(&self) -> [u8; 4] {
        layout::PAGES
    }

    fn takes(&self, item: &ItemRef<'_>) -> bool {
        item.object_bytes() <= self.place.object_bytes_max
    }

    fn object_bytes_max(&self) -> usize {
        self.place.object_bytes_max
    }

    fn group_of(&self, hash: KeyHash) -> Option<u64> {
        Some(self.set_number(hash).into())
    }

    fn may_hold(&self, hash: KeyHash) -> bool {
        self.holds_hash(hash)
    }

    async fn holds(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool {
        self.find(hash, key, now_s, false).await.is_some()
    }

    async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem> {
        self.find(hash, key, now_s, true).await
    }

    async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        self.put(item, now_s).await
    }

    async fn remove(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool {
        let was_there = self.find(hash, key, now_s, false).await.is_some();
        self.forget_hash(hash);
        was_there
    }

    async fn void(&self, hash: KeyHash) {
        self.forget_hash(hash);
    }

    async fn invalidate(&self, hash: KeyHash) -> Result<InvalidateOutcome, Error> {
        let was_there = self.invalidate_hash(hash).await?;
        Ok(InvalidateOutcome { was_there, receipt: None })
    }

    fn has_to_void(&self, hash: KeyHash) -> bool {
        self.may_have(self.set_number(hash), hash)
    }

    async fn relieve_tombstones(&self, _hash: KeyHash) {
        let region = self.tombstones().and_then(|tombstones| tombstones.region_to_give_up());
        if let Some(region) = region.and_then(|number| self.log.host().regions.own(number))
            && region.number() < self.place.log.regions
            && self.log.give_up_region(region).await
        {
            self.counters().soc_given_up_regions.add(1);
        }
    }

    fn inherit(&mut self, log: &Arc<Inheritance>) {
        self.log.lock().regions.forget_all();
        self.inheritance = Some(Arc::clone(log));
    }

    async fn recover(&self) -> Result<(), Error> {
        match &self.inheritance {
            Some(log) => self.recover_all(&Left::Log(log)).await,
            None => Ok(()),
        }
    }

    async fn import(&mut self, part: &[u8], kept: &ShutdownMark) -> Result<(), Error> {
        self.log.lock().regions.forget_all();
        match kept {
            ShutdownMark::Log(log) => self.recover_all(&Left::Log(log)).await,
            ShutdownMark::Snapshot => {
                let gone = listed(&self.place, part);
                self.recover_all(&Left::Listed(&gone)).await
            }
        }
    }

    fn has_records(&self) -> bool {
        true
    }

    async fn persist(&self) {
        self.place_all(self.log.host().regions.breaker.now_s()).await;
        self.log.write_out().await;
    }

    async fn finish(&self) {
        self.place_all(self.log.host().regions.breaker.now_s()).await;
        self.end_region();
        let mut writer = self.log.writer().await;
        self.log.seal_all(&mut writer).await;
    }

    async fn export(&self, dead: DeadRecords) -> Vec<u8> {
        match dead {
            DeadRecords::Listed => {
                self.finish().await;
                self.export_listed().await
            }
            DeadRecords::InLog => Vec::new(),
        }
    }

    async fn finish_writes(&self) {
        self.log.finish_writes().await;
    }

    fn clear(&self, epoch: u64) {
        self.clear_all(epoch);
    }

    fn memory(&self) -> Memory {
        let sets = self.sets.memory_bytes();
        let log = self.log.buffer_bytes();
        let open = u64::from(self.sets.count()) * BODY_BYTES as u64 * 5 / 8;
        Memory {
            index_bytes: sets.index + self.absent.memory_bytes(),
            buffer_bytes: sets.open + log,
            buffer_bytes_max: sets.open.max(open) + log.max(self.log.buffer_bytes_expected()),
        }
    }

    fn add_to(&self, stats: &mut Stats) {
        let sets = self.sets.memory_bytes();
        stats.soc_page_objects = self.sets.estimated_len();
        stats.soc_page_index_bytes = sets.index;
        stats.soc_page_open_bytes = sets.open;
    }

    fn regions(&self) -> Vec<FlashRegion> {
        Vec::new()
    }

    fn estimated_len(&self) -> u64 {
        self.sets.estimated_len()
    }

    fn scan(&self, hashes: &RangeInclusive<u64>) -> Cursor {
        // The first and the last set may hold keys with other hashes too.
        let set_of = |hash: u64| u64::from(self.set_number(KeyHash(hash)));
        Cursor { parts: set_of(*hashes.start())..set_of(*hashes.end()) + 1, names: Vec::new() }
    }

    async fn scan_on<T>(&self, cursor: &mut Cursor, judge: Judge<'_, T>) -> Option<Vec<T>> {
        if cursor.parts.is_empty() {
            return None;
        }
        let set = u32::try_from(cursor.parts.start).expect("a set's number");
        let judged = self.peek(set, judge).await;
        // Not earlier: if this future is dropped, the next call visits the set again.
        cursor.parts.start += 1;
        Some(judged)
    }
}
