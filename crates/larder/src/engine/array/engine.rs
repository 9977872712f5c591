//! The [`Engine`] implementation of the array. `snapshot.rs` describes its part of a snapshot.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::Array;
use super::host::Why;
use crate::base::error::Error;
use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::KeyHash;
use crate::base::layout;
use crate::base::tier::Tier;
use crate::engine::flash_region::FlashRegion;
use crate::engine::long::{Lack, LongLookup, NewParts, Parts, add_head, add_part, next_part};
use crate::engine::tombstones::{Inheritance, KeysIn};
use crate::engine::{Cursor, DeadRecords, Engine, InvalidateOutcome, Judge, Memory, ShutdownMark};
use crate::observe::stats::Stats;

impl Engine for Array {
    fn tier(&self) -> Tier {
        Tier::ArrayObjects
    }

    fn section(&self) -> [u8; 4] {
        layout::ARRAY
    }

    fn takes(&self, item: &ItemRef<'_>) -> bool {
        let (bytes, in_record) = (item.object_bytes(), self.log.place().record_object_bytes_max());
        bytes >= self.log.place().object_bytes_min as usize
            && (bytes <= in_record || self.takes_in_parts(item.key.len(), item.value.len()))
    }

    /// Includes values in parts. It is shorter for a key that leaves less than 24 bytes of room in a record.
    fn object_bytes_max(&self) -> usize {
        self.log.place().object_bytes_max()
    }

    fn may_hold(&self, hash: KeyHash) -> bool {
        self.may_hold(hash)
    }

    async fn holds(&self, hash: KeyHash, _key: &[u8], _now_s: u32) -> bool {
        self.tables.find(hash).await.is_some()
    }

    async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem> {
        self.find_whole(hash, key, now_s).await
    }

    async fn look_up(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<LongLookup> {
        let (fetched, ..) = self.head_or_whole(hash, key, now_s).await?;
        LongLookup::of(fetched)
    }

    async fn next_part(&self, parts: &mut Parts) -> Result<Option<FlashItem>, Lack> {
        next_part(self, parts).await
    }

    fn new_parts(&self, item: &ItemRef<'_>, value_bytes: usize) -> Option<NewParts> {
        self.takes_in_parts(item.key.len(), value_bytes)
            .then(|| NewParts::begin(self, item, value_bytes))
    }

    async fn add_part(&self, parts: &mut NewParts, bytes: &[u8], now_s: u32) -> bool {
        add_part(self, parts, bytes, now_s).await
    }

    async fn add_head(&self, parts: &NewParts, item: &ItemRef<'_>, now_s: u32) -> bool {
        add_head(self, parts, item, now_s).await
    }

    async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        self.set(item, now_s).await
    }

    async fn remove(&self, hash: KeyHash, _key: &[u8], _now_s: u32) -> bool {
        let was_there = self.may_hold(hash) && self.tables.find(hash).await.is_some();
        self.die(hash);
        self.tables.relieve(hash).await;
        was_there
    }

    async fn void(&self, hash: KeyHash) {
        self.die(hash);
        self.tables.relieve(hash).await;
    }

    async fn invalidate(&self, hash: KeyHash) -> Result<InvalidateOutcome, Error> {
        if self.log.tombstones().is_none() {
            return Ok(InvalidateOutcome::default());
        }
        let (was_there, receipt) = self.die(hash);
        Ok(InvalidateOutcome { was_there, receipt })
    }

    async fn relieve_tombstones(&self, hash: KeyHash) {
        self.tables.relieve(hash).await;
    }

    fn keys_in(&self) -> Option<KeysIn> {
        Some(KeysIn::Tables)
    }

    async fn write_without_dead(&self, hash: u64) {
        let table = self.log.lock().entries.slot(hash).table;
        self.tables.write_table(table, Why::Upkeep).await;
    }

    fn inherit(&mut self, log: &Arc<Inheritance>) {
        self.inherit_from(Arc::clone(log));
    }

    async fn recover(&self) -> Result<(), Error> {
        self.recover_all().await
    }

    async fn import(&mut self, part: &[u8], kept: &ShutdownMark) -> Result<(), Error> {
        if !self.import_all(part) {
            return match kept {
                ShutdownMark::Log(log) => {
                    self.inherit_from(Arc::clone(log));
                    self.recover_all().await
                }
                ShutdownMark::Snapshot => self.log.void_what_is_free().await,
            };
        }
        self.tables.restart_sweep();
        self.log.divide_groups();
        self.log.void_what_is_free().await
    }

    async fn persist(&self) {
        self.log.regions().write_out().await;
    }

    async fn finish(&self) {
        self.reinsertion.forget();
        self.tables.write_all_tables().await;
        let mut writer = self.log.regions().writer().await;
        self.log.regions().seal_all(&mut writer).await;
    }

    async fn export(&self, _dead: DeadRecords) -> Vec<u8> {
        self.export_all()
    }

    async fn finish_writes(&self) {
        self.log.regions().finish_writes().await;
    }

    fn clear(&self, epoch: u64) {
        self.clear_all(epoch);
    }

    fn memory(&self) -> Memory {
        let buffer_bytes = self.log.regions().buffer_bytes();
        Memory {
            index_bytes: self.index_bytes(),
            buffer_bytes,
            buffer_bytes_max: buffer_bytes.max(self.log.regions().buffer_bytes_expected()),
        }
    }

    fn add_to(&self, stats: &mut Stats) {
        stats.array_objects = self.log.lock().entries.estimated_len();
        stats.array_index_bytes = self.index_bytes();
    }

    fn regions(&self) -> Vec<FlashRegion> {
        let state = self.log.lock();
        let numbered = (0..).zip(state.regions.all());
        numbered.map(|(number, region)| self.log.place().describe(number, region)).collect()
    }

    fn estimated_len(&self) -> u64 {
        self.log.lock().entries.estimated_len()
    }

    fn scan_parts_max(&self) -> usize {
        // A power of two such that each part has a table.
        1 << self.log.place().tables.ilog2()
    }

    fn scan(&self, hashes: &RangeInclusive<u64>) -> Cursor {
        let state = self.log.lock();
        let table_of = |hash: u64| u64::from(state.entries.slot(hash).table);
        Cursor { parts: table_of(*hashes.start())..table_of(*hashes.end()) + 1, names: Vec::new() }
    }

    async fn scan_on<T>(&self, cursor: &mut Cursor, judge: Judge<'_, T>) -> Option<Vec<T>> {
        self.scan_a_table(cursor, judge).await
    }
}
