//! Dead keys in buckets, and buckets that a crash has left.
//!
//! A bucket holds dead keys until it is written without them. Its stamp says which tombstones its content reflects:
//! those with a lower index. After a crash, a tombstone with an index at or above the stamp marks its key in the bucket
//! as dead.

use std::ops::Range;

use larder_device::{Io, IoBuffer};

use super::Buckets;
use crate::base::key::KeyHash;
use crate::engine::soc::bucket::{BUCKET_BYTES, BadBucket, Bucket};
use crate::engine::soc::change::BucketChange;
use crate::engine::soc::states::Knowledge;
use crate::engine::tombstones::KeysIn;

/// Buckets that are read with one request.
const LEARNT_AT_ONCE: usize = 64;

impl Buckets {
    /// Removes the dead keys from a bucket that is about to be written. The caller holds its lock.
    pub(in crate::engine::soc) fn invalidate_dead(
        &self,
        number: u64,
        bucket: &mut Bucket,
    ) -> BucketChange {
        let Some(tombstones) = &self.tombstones else { return BucketChange::default() };
        // Read the clock first: a key that dies after this has a tombstone that the stamp does not cover.
        let stamp = tombstones.clock();
        let dead = tombstones.dead_in(KeysIn::Buckets, self.hashes_of(number));
        debug_assert!(
            dead.iter().all(|&hash| self.number_of(KeyHash(hash)) == number),
            "hashes of bucket {number} are those that `bucket_of` sends there"
        );
        bucket.remove_dead(&dead, self.place.hasher);
        BucketChange { stamp, dead }
    }

    /// Parses a bucket that is read for the first time after a crash.
    pub(super) fn learn(&self, number: u64, buffer: IoBuffer) -> Result<Bucket, IoBuffer> {
        debug_assert_eq!(
            self.states.knows(number),
            Knowledge::Unknown,
            "of a bucket that was written since, the stamp says nothing of what was inherited"
        );
        let (bucket, stamp) = match Bucket::parse(buffer, self.wanted(number, None)) {
            Ok(bucket) => {
                let stamp = bucket.stamp();
                (bucket, stamp)
            }
            // Never written, or not since the device was taken into use: it contains no dead keys.
            Err((BadBucket::Foreign, buffer)) if buffer.as_slice().iter().all(|&b| b == 0) => {
                (Bucket::empty(buffer), u64::MAX)
            }
            Err((BadBucket::Stale, buffer)) => (Bucket::empty(buffer), u64::MAX),
            // It may become readable again, so its filter continues to answer yes.
            Err((BadBucket::Foreign | BadBucket::Corrupt, buffer)) => {
                self.counters.soc_bad_buckets.add(1);
                return Err(buffer);
            }
        };
        if let Some(tombstones) = &self.tombstones {
            tombstones.settle_inherited(KeysIn::Buckets, self.hashes_of(number), stamp);
        }
        let tags = bucket.entries().map(|entry| entry.tag);
        self.states.learnt(number, bucket.generation(), tags);
        Ok(bucket)
    }

    /// Reads the Unknown buckets, many with one request, until `stop` returns true. Returns how many were read.
    pub(crate) async fn learn_until(&self, stop: &(dyn Fn() -> bool + Sync)) -> u64 {
        let mut learnt = 0;
        for first in (0..self.place.buckets).step_by(LEARNT_AT_ONCE) {
            if stop() {
                break;
            }
            let numbers = first..self.place.buckets.min(first + LEARNT_AT_ONCE as u64);
            if numbers.clone().all(|number| self.states.knows(number) != Knowledge::Unknown) {
                continue;
            }
            let bytes = BUCKET_BYTES * usize::try_from(numbers.end - first).unwrap_or(0);
            let read = Io::Read { offset: self.offset_of(first), buffer: self.pool.take(bytes) };
            let Ok(buffer) = self.device.submit(read).await else { continue };
            for (number, bytes) in numbers.zip(buffer.as_slice().chunks_exact(BUCKET_BYTES)) {
                let _reading = self.lock(number).await;
                // Every write of a bucket makes it Known: if it is still Unknown, it was not written during the read.
                if self.states.knows(number) == Knowledge::Unknown {
                    let mut bucket = self.pool.take(BUCKET_BYTES);
                    bucket.as_mut_slice().copy_from_slice(bytes);
                    learnt += u64::from(self.learn(number, bucket).is_ok());
                }
            }
        }
        learnt
    }

    /// Reads a bucket if it is Unknown.
    pub(crate) async fn learn_bucket(&self, number: u64) {
        if self.states.knows(number) == Knowledge::Unknown {
            let _reading = self.lock(number).await;
            // Bad buckets are counted.
            let _ = self.load(number).await;
        }
    }

    /// Rewrites a bucket without its dead keys.
    pub(crate) async fn work_off(&self, number: u64) {
        let mut stripe = self.lock(number).await;
        if !self.is_usable(number) {
            return;
        }
        let mut bucket = self.load_or_empty(number).await;
        let change = self.invalidate_dead(number, &mut bucket);
        if !change.dead.is_empty() {
            self.store(&mut stripe, number, bucket, change).await;
        }
    }

    /// The range of hashes of the keys that belong to a bucket.
    fn hashes_of(&self, number: u64) -> Range<u128> {
        debug_assert!(number < self.place.buckets, "bucket {number} of {}", self.place.buckets);
        let start =
            |number: u64| (u128::from(number) << 64).div_ceil(u128::from(self.place.buckets));
        start(number)..start(number + 1)
    }
}
