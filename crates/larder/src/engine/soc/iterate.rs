//! Scans the engine bucket by bucket.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::Ordering;

use larder_device::Io;

use super::bucket::{BUCKET_BYTES, Bucket};
use super::{Knowledge, Soc};
use crate::base::item::ItemRef;
use crate::base::key::KeyHash;

/// Attempts to read a bucket without its lock before taking it.
const UNLOCKED_LOOKS: usize = 2;

impl Soc {
    /// The buckets for keys with these hashes. The first and the last bucket may hold keys with other hashes too.
    pub(crate) fn buckets_of(&self, hashes: &RangeInclusive<u64>) -> Range<u64> {
        self.bucket_of(KeyHash(*hashes.start()))..self.bucket_of(KeyHash(*hashes.end())) + 1
    }

    /// Applies `judge` to the objects of a bucket, expired or not, at a time when the bucket held them. Counts no hit.
    pub(crate) async fn peek<T>(
        &self,
        number: u64,
        judge: &(dyn Fn(&ItemRef<'_>) -> Option<T> + Sync),
    ) -> Vec<T> {
        for _ in 0..UNLOCKED_LOOKS {
            if !self.logs_for(number)
                && self.knows(number) == Knowledge::Known
                && let Some(judged) = self.peek_unlocked(number, judge).await
            {
                return judged;
            }
        }
        let _reading = self.lock_bucket(number).await;
        let (mut judged, logged) = self.peek_in_log(number, judge).await;
        let Some(logged) = logged else { return judged };
        if self.knows(number) == Knowledge::Retired || self.filters.is_empty(number) {
            return judged;
        }
        if let Ok(bucket) = self.load(number).await {
            // The log is newer, so its keys are skipped here.
            let is_newest = |item: &ItemRef<'_>| {
                if logged.iter().any(|key| **key == *item.key) { None } else { judge(item) }
            };
            judged.extend(self.judged(&bucket, &is_newest));
        }
        judged
    }

    async fn peek_unlocked<T>(
        &self,
        number: u64,
        judge: &(dyn Fn(&ItemRef<'_>) -> Option<T> + Sync),
    ) -> Option<Vec<T>> {
        if self.filters.is_empty(number) {
            return Some(Vec::new());
        }
        let before = self.generation(number).load(Ordering::Acquire);
        self.counters.soc_bucket_reads.add(1);
        let read =
            Io::Read { offset: self.offset_of(number), buffer: self.pool.take(BUCKET_BYTES) };
        let buffer = self.device.submit(read).await.ok()?;
        let bucket = Bucket::parse(buffer, self.wanted(number, Some(before))).ok()?;
        let judged = self.judged(&bucket, judge);
        // Check this last: resolving a dead key raises the generation first.
        (self.generation(number).load(Ordering::Acquire) == before).then_some(judged)
    }

    fn judged<T>(
        &self,
        bucket: &Bucket,
        judge: &(dyn Fn(&ItemRef<'_>) -> Option<T> + Sync),
    ) -> Vec<T> {
        let judged = bucket.entries().filter_map(|entry| {
            let (hash, flags, tiers) = (self.hash_of(entry.key), entry.flags, entry.tiers);
            let item = ItemRef::new(hash, entry.key, entry.value, entry.expiry_s);
            let judged = judge(&ItemRef { flags, tiers, clean: true, ..item })?;
            // After `judge` has looked into DRAM: a key that was changed there has been marked dead here before.
            (!self.is_dead(hash)).then_some(judged)
        });
        judged.collect()
    }
}
