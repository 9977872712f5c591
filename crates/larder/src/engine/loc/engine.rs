//! The [`Engine`] implementation of the large-object engine.
//!
//! Its part of a snapshot is the list of regions (`loc/snapshot.rs`). Where the tombstone log names the dead records,
//! it is only the number of objects (8 bytes), all bits set if not all objects are known.

use std::ops::RangeInclusive;
use std::sync::Arc;

use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

use super::appending::Appending;
use super::long::long_object_bytes_max;
use super::{Loc, object_bytes_max};
use crate::base::error::Error;
use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::KeyHash;
use crate::base::layout;
use crate::base::side_by_side::together;
use crate::base::tier::Tier;
use crate::engine::flash_region::FlashRegion;
use crate::engine::long::{Lack, LongLookup, NewParts, Parts, add_head, add_part, next_part};
use crate::engine::tombstones::Inheritance;
use crate::engine::{
    Append, Cursor, DeadRecords, Engine, FoundAgain, InvalidateOutcome, Judge, Memory,
    ShutdownMark, Stop,
};
use crate::observe::stats::Stats;

/// An opening may index one region at once for each this number of objects that it may index at once.
const OBJECTS_PER_EAGER_REGION: u64 = 64;
/// Minimum bytes of an object, including its entry in the region's footer.
const RECORD_BYTES_MIN: u64 = 49;
/// In a snapshot: the number of objects is not known.
const UNKNOWN_OBJECTS: u64 = u64::MAX;
/// Objects that a scan reads concurrently.
const READS_AT_ONCE: usize = 8;

impl Engine for Loc {
    fn tier(&self) -> Tier {
        Tier::LargeObjects
    }

    fn section(&self) -> [u8; 4] {
        layout::REGIONS
    }

    fn takes(&self, item: &ItemRef<'_>) -> bool {
        let (object_bytes, region_bytes) = (item.object_bytes(), self.region_bytes());
        object_bytes <= object_bytes_max(region_bytes)
            || self.takes_in_parts(item.key.len(), item.value.len())
    }

    /// Includes values in parts. It is shorter for a key that leaves less than 24 bytes of room in a region.
    fn object_bytes_max(&self) -> usize {
        long_object_bytes_max(self.place.log.regions, self.region_bytes())
    }

    fn may_hold(&self, hash: KeyHash) -> bool {
        self.has(hash)
    }

    async fn holds(&self, hash: KeyHash, _key: &[u8], _now_s: u32) -> bool {
        self.has(hash)
    }

    async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem> {
        self.get(hash, key, now_s).await
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

    fn append_bytes_max(&self) -> Option<u64> {
        Some(self.region_bytes_of_all())
    }

    fn can_append(&self, item: &ItemRef<'_>) -> bool {
        item.object_bytes() <= object_bytes_max(self.region_bytes())
    }

    fn appending(&self, now_s: u32) -> Option<Box<dyn Append + '_>> {
        Some(Box::new(Appending::to(self, now_s)))
    }

    async fn write_appended(&self) {
        self.log.write_what_is_due().await;
    }

    fn expect(&self, objects: u64) {
        self.expect(objects);
    }

    async fn remove(&self, hash: KeyHash, _key: &[u8], _now_s: u32) -> bool {
        self.remove_entry(hash)
    }

    async fn void(&self, hash: KeyHash) {
        self.remove_entry(hash);
    }

    async fn invalidate(&self, hash: KeyHash) -> Result<InvalidateOutcome, Error> {
        // First: from here on, no object of this hash from an earlier opening enters the index. If one is there
        // already, it is invalidated next.
        let receipt = self.invalidate_unindexed(hash);
        let was_there = Loc::invalidate(self, hash).await?;
        Ok(InvalidateOutcome { was_there, receipt })
    }

    fn has_to_void(&self, hash: KeyHash) -> bool {
        self.tombstones().is_some_and(|tombstones| tombstones.takes_hashes()) || self.has(hash)
    }

    async fn relieve_tombstones(&self, _hash: KeyHash) {
        let region = self.tombstones().and_then(|tombstones| tombstones.region_to_give_up());
        // It may be a region of pages by set.
        if let Some(region) = region.filter(|&region| region < self.place.log.regions) {
            self.give_up_region(region).await;
        }
    }

    fn inherit(&mut self, log: &Arc<Inheritance>) {
        self.left.inherit(&self.log, Arc::clone(log));
    }

    async fn import(&mut self, part: &[u8], kept: &ShutdownMark) -> Result<(), Error> {
        self.listed_objects = match kept {
            ShutdownMark::Log(log) => {
                let objects = objects_in(part);
                self.left.inherit(&self.log, Arc::clone(log));
                // A damaged count must not reserve more than the regions can hold.
                let most = self.region_bytes_of_all() / RECORD_BYTES_MIN;
                self.expect(objects.filter(|&objects| objects <= most).unwrap_or(0));
                objects
            }
            // Nothing relies on the fillings of this opening before the next clean shutdown.
            ShutdownMark::Snapshot if self.tombstones().is_none() => {
                Some(self.inherit_listed(part))
            }
            ShutdownMark::Snapshot => {
                self.import_listed(part).await;
                self.empty_unsealed().await?;
                None
            }
        };
        Ok(())
    }

    async fn index_eagerly(&self) {
        let most = self.place.eager_index_objects;
        let too_many = self.listed_objects.is_some_and(|objects| objects > most)
            || u64::from(self.left.unindexed_regions()) > most / OBJECTS_PER_EAGER_REGION;
        if !too_many {
            self.left.index_until(&self.log, &|| self.left.found_objects() > most).await;
        }
    }

    async fn index_until(&self, stop: Stop<'_>) -> u64 {
        self.left.index_until(&self.log, stop).await
    }

    async fn index_a_little(&self) {
        self.left.index_a_little(&self.log).await;
    }

    async fn index_in_turn(&self) -> bool {
        self.left.index_in_turn(&self.log).await
    }

    fn is_indexed(&self) -> bool {
        self.left.is_indexed()
    }

    async fn unindexed_objects(&self) -> u64 {
        self.left.unindexed_objects(&self.log).await
    }

    fn has_records(&self) -> bool {
        true
    }

    fn found_again(&self) -> FoundAgain {
        FoundAgain {
            objects: self.left.found_objects(),
            regions_left: self.left.unindexed_regions(),
        }
    }

    async fn persist(&self) {
        self.log.write_out().await;
    }

    async fn finish(&self) {
        self.seal().await;
    }

    async fn export(&self, dead: DeadRecords) -> Vec<u8> {
        match dead {
            DeadRecords::Listed => self.export_listed().await,
            DeadRecords::InLog => {
                let known =
                    if self.left.is_indexed() { self.len() as u64 } else { UNKNOWN_OBJECTS };
                known.to_le_bytes().to_vec()
            }
        }
    }

    async fn finish_writes(&self) {
        self.log.finish_writes().await;
    }

    fn clear(&self, epoch: u64) {
        self.clear(epoch);
    }

    fn memory(&self) -> Memory {
        let buffer_bytes = self.buffer_bytes();
        Memory {
            index_bytes: self.index_bytes() as u64,
            buffer_bytes,
            buffer_bytes_max: buffer_bytes.max(self.buffer_bytes_expected()),
        }
    }

    fn add_to(&self, stats: &mut Stats) {
        stats.loc_objects = self.len() as u64;
        stats.loc_index_bytes = self.index_bytes() as u64;
        stats.loc_unindexed_regions = u64::from(self.left.unindexed_regions());
    }

    fn regions(&self) -> Vec<FlashRegion> {
        let state = self.log.lock();
        let numbered = (0..).zip(state.regions.all());
        numbered.map(|(number, region)| self.place.describe(number, region)).collect()
    }

    fn estimated_len(&self) -> u64 {
        let known = self.len() as u64;
        match self.listed_objects {
            Some(left) if !self.left.is_indexed() => known.max(left),
            _ => known,
        }
    }

    fn scan_parts_max(&self) -> usize {
        self.shards()
    }

    fn scan(&self, hashes: &RangeInclusive<u64>) -> Cursor {
        let shards = self.shards() as u64;
        let shard_of = |hash: u64| KeyHash(hash).spread_over(shards);
        Cursor { parts: shard_of(*hashes.start())..shard_of(*hashes.end()) + 1, names: Vec::new() }
    }

    async fn scan_on<T>(&self, cursor: &mut Cursor, judge: Judge<'_, T>) -> Option<Vec<T>> {
        if cursor.names.is_empty() {
            let shard = cursor.parts.next()?;
            cursor.names = self.names_in(usize::try_from(shard).expect("a shard of the index"));
        }
        let rest = cursor.names.len().saturating_sub(READS_AT_ONCE);
        let judged =
            together(cursor.names[rest..].iter().map(|&name| self.peek(name, judge))).await;
        // Not earlier: if this future is dropped, the next call visits the same objects again.
        cursor.names.truncate(rest);
        Some(judged.into_iter().flatten().collect())
    }
}

/// The number of objects that the snapshot of a clean shutdown states, if the dead records are in the tombstone log.
fn objects_in(part: &[u8]) -> Option<u64> {
    let (objects, _) = U64::ref_from_prefix(part).ok()?;
    Some(objects.get()).filter(|&objects| objects != UNKNOWN_OBJECTS)
}
