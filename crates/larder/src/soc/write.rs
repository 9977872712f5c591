//! Reading a bucket to change it, and writing it.

use std::sync::atomic::Ordering;

use larder_device::{Durability, Io, IoBuffer, IoFuture, PlacementHandle};

use super::bucket::{BUCKET_BYTES, Bucket, BucketIdentity, Entry};
use super::change::Change;
use super::log::LogPosition;
use super::{Knowledge, Soc, Stripe, filter};
use crate::events;
use crate::key::KeyHash;
use crate::removal::RemovalReason;
use crate::shared_flush::Needed;
use crate::tier::Tier;
use crate::tombstones::KeysIn;

/// The write of a bucket that is still under way.
pub(super) struct UnfinishedWrite {
    number: u64,
    /// Objects that are lost if it fails.
    objects: u64,
    /// Their keys and bytes, if somebody wants to know.
    listed: Vec<(Box<[u8]>, usize)>,
    /// What the filter shall say when it has ended.
    filter: [u64; 2],
    /// Dead keys that the bucket does not hold any more, in order.
    dead: Vec<u64>,
    /// Where in the log those lie that move to the bucket with it.
    moved: Vec<LogPosition>,
    progress: Progress,
}

/// How far the write of a bucket has come.
#[allow(clippy::large_enum_variant)] // each write begins as the large one, in its stripe
enum Progress {
    UnderWay(IoFuture),
    /// The device has the bucket. It is durable when this flush has ended.
    Written(Needed),
}

impl Soc {
    /// Reads a bucket. `Err` carries a buffer for an empty one, if what is on flash cannot be used.
    pub(super) async fn load(&self, number: u64) -> Result<Bucket, IoBuffer> {
        // Others who read it now may be faster to learn.
        let is_unknown = self.knows(number) == Knowledge::Unknown;
        let buffer = self.pool.take(BUCKET_BYTES);
        self.counters.soc_bucket_reads.add(1);
        let read = self.device.submit(Io::Read { offset: self.offset_of(number), buffer }).await;
        let buffer = read.map_err(|failure| {
            self.counters.device_failed(&failure.error);
            // A request that was given up may come back without its buffer.
            self.pool.take(BUCKET_BYTES)
        })?;
        if is_unknown {
            return self.learn(number, buffer);
        }
        let generation = self.generation(number).load(Ordering::Relaxed);
        Bucket::parse(buffer, self.wanted(number, Some(generation))).map_err(|(_reason, buffer)| {
            self.counters.soc_bad_buckets.add(1);
            buffer
        })
    }

    /// A bucket to change: an empty one, without a read, if the filter knows that it holds nothing.
    ///
    /// One that cannot be read now is empty from now on: it may hold what the caller wants gone,
    /// and a later read may succeed.
    pub(super) async fn load_or_empty(&self, number: u64) -> Bucket {
        // What a retired one holds is unknown: it is overwritten whole.
        if self.filters.is_empty(number) || self.knows(number) == Knowledge::Retired {
            return Bucket::empty(self.pool.take(BUCKET_BYTES));
        }
        self.load(number).await.unwrap_or_else(|buffer| {
            self.empty(number);
            Bucket::empty(buffer)
        })
    }

    /// Makes sure that nothing of this hash is stored, without a look at its bucket: that is emptied, with
    /// all that it holds, and so is what the log has for it. Only where there are no tombstones.
    pub(crate) async fn void(&self, hash: KeyHash) {
        if !self.may_hold(hash) {
            return;
        }
        assert!(self.tombstones.is_none(), "where there are tombstones, one of them does it");
        let number = self.bucket_of(hash);
        let _stripe = self.lock_bucket(number).await;
        self.clear_log_of(number);
        self.empty(number);
        self.counters.left_out_buckets.add(1);
    }

    /// Makes a bucket hold nothing, without a write: it may hold what must not be seen again. The
    /// caller holds its lock. Where there are tombstones they see to that.
    pub(super) fn empty(&self, number: u64) {
        if self.tombstones.is_some() {
            return;
        }
        self.filters.clear(number);
        // Nor is it believed by who asked the filter before.
        self.generation(number).fetch_add(1, Ordering::AcqRel);
    }

    /// Writes a bucket. If that fails the bucket is retired for a while and holds nothing: what is on
    /// flash is unknown.
    pub(super) async fn store(
        &self,
        stripe: &mut Stripe,
        number: u64,
        bucket: Bucket,
        change: Change,
    ) -> bool {
        self.store_moved(stripe, number, bucket, change, Vec::new()).await
    }

    /// The same; when the write has ended the log forgets what is at the places `moved`.
    pub(super) async fn store_moved(
        &self,
        stripe: &mut Stripe,
        number: u64,
        bucket: Bucket,
        change: Change,
        moved: Vec<LogPosition>,
    ) -> bool {
        assert!(stripe.is_none(), "one write of a stripe's buckets is under way at a time");
        debug_assert!(
            bucket.entries().all(|entry| self.bucket_of(self.hash_of(entry.key)) == number),
            "what is in bucket {number} belongs there"
        );
        debug_assert!(self.tombstones.is_some() || change.dead.is_empty(), "{change:?}");
        let filter = filter::sum(bucket.entries().map(|entry| entry.tag));
        // Until the write has ended a crash may bring up the old bucket.
        self.filters.add(number, filter);
        let objects = bucket.entries().count() as u64;
        let listed = if self.counters.removals.wanted() {
            let listed = |entry: Entry<'_>| (entry.key.into(), entry.key.len() + entry.value.len());
            bucket.entries().map(listed).collect()
        } else {
            Vec::new()
        };
        let generation = self.generation(number).load(Ordering::Relaxed).wrapping_add(1);
        // Before the write begins: who reads beside it must see that.
        self.generation(number).store(generation, Ordering::Release);
        let Change { stamp, dead } = change;
        // After that: who finds that a key is not dead any more must see it too.
        if let Some(tombstones) = &self.tombstones {
            tombstones.resolve(KeysIn::Buckets, &dead, stamp);
        }
        let (cache, epoch) = (self.place.cache, self.epoch.load(Ordering::Acquire));
        let buffer = bucket.seal(BucketIdentity { cache, number, epoch, generation, stamp });
        let handle = self.handle_for_write(number);
        // When it has ended, what the bucket has lost needs no tombstone, nor has what was dropped from it ever had
        // one.
        let (offset, durability) = (self.offset_of(number), self.durability_of_writes());
        let write = Io::Write { offset, buffer, handle, durability };
        self.counters.soc_bucket_writes.add(1);
        self.counters.soc_written_bytes.add(BUCKET_BYTES as u64);
        let progress = Progress::UnderWay(self.device.submit(write));
        *stripe = Some(UnfinishedWrite { number, objects, listed, filter, dead, moved, progress });
        self.finish(stripe).await
    }

    /// The handle for a write of a bucket, which is about to happen and counts towards its
    /// temperature. The caller holds the bucket's lock.
    fn handle_for_write(&self, number: u64) -> PlacementHandle {
        match (&self.temperatures, self.place.hot_handle) {
            (Some(temperatures), Some(hot_handle)) if temperatures.note_write(number) => {
                self.counters.soc_hot_bucket_writes.add(1);
                hot_handle
            }
            _ => self.place.handle,
        }
    }

    /// What the device is to make of the write of a bucket. Where a flush follows that others share, no more than
    /// to write it.
    fn durability_of_writes(&self) -> Durability {
        if self.flush.is_some() { Durability::Device } else { self.place.durability }
    }

    /// Waits for the end of every write that somebody began and gave up.
    pub(crate) async fn finish_all(&self) {
        for stripe in 0..self.stripes.len() as u64 {
            drop(self.lock_bucket(stripe).await); // of the bucket with this number, and others
        }
    }

    /// Waits until a bucket that was sent off has survived what it is to survive. Says whether it went well. To be
    /// called anew by whoever goes on for one that was dropped, but not once it has ended.
    async fn until_durable(&self, progress: &mut Progress) -> bool {
        if let Progress::UnderWay(future) = progress {
            if let Err(failure) = future.await {
                self.counters.device_failed(&failure.error);
                return false;
            }
            let Some(flush) = &self.flush else { return true };
            // Not before: a flush covers what had completed when it was submitted.
            *progress = Progress::Written(flush.needed());
        }
        match (&self.flush, progress) {
            (Some(flush), Progress::Written(needed)) => flush.wait(*needed).await,
            _ => true,
        }
    }

    /// Waits for the end of the write that the stripe knows of. Says whether it went well.
    ///
    /// Until then nothing counts that only the new bucket says: after a crash the old one may be there, with what the
    /// new one has dropped, and with what needs a tombstone there.
    pub(super) async fn finish(&self, stripe: &mut Stripe) -> bool {
        let Some(unfinished) = stripe else { return true };
        let went_well = self.until_durable(&mut unfinished.progress).await;
        let Some(unfinished) = stripe.take() else { return true };
        let UnfinishedWrite { number, objects, listed, filter, dead, moved, .. } = unfinished;
        self.breaker.ended(went_well);
        match went_well {
            true => {
                debug_assert!(
                    self.filters.covers(number, filter),
                    "until the write has ended the filter says yes to old and new"
                );
                self.filters.set(number, filter);
                if self.knows(number) == Knowledge::Retired {
                    self.retired().remove(&number);
                    self.counters.soc_revived_buckets.add(1);
                    events::revived(events::Place::Bucket, 1);
                }
                self.know(number, Knowledge::Known);
            }
            false => {
                if self.knows(number) != Knowledge::Retired {
                    self.counters.soc_retired_buckets.add(1);
                    events::retired(events::Place::Bucket, number, objects);
                }
                self.retired().entry(number).or_default().failed(self.breaker.now_s());
                self.counters.lost_to_device_errors_objects.add(objects);
                let removals = &self.counters.removals;
                for (key, bytes) in &listed {
                    removals.key(RemovalReason::Lost, Tier::SmallObjects, key, *bytes);
                }
                self.know(number, Knowledge::Retired);
                // With tombstones, what may be in the bucket still needs them.
                if self.tombstones.is_none() {
                    self.filters.clear(number);
                }
            }
        }
        if let Some(tombstones) = &self.tombstones {
            tombstones.resolved(KeysIn::Buckets, &dead, went_well);
        }
        self.leave_log(number, &moved);
        went_well
    }
}
