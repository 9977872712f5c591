//! Reads a bucket to change it, and writes it.

use larder_device::{Durability, Io, IoBuffer, IoFuture, PlacementHandle};

use super::{Buckets, Stripe};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::engine::shared_flush::NeededFlush;
use crate::engine::soc::bucket::{BUCKET_BYTES, Bucket, BucketEntry, BucketIdentity};
use crate::engine::soc::change::BucketChange;
use crate::engine::soc::filter;
use crate::engine::soc::log_index::MovingObjects;
use crate::engine::soc::states::Knowledge;
use crate::engine::tombstones::KeysIn;
use crate::observe::events;

/// The write of a bucket that is still in flight.
pub(in crate::engine::soc) struct UnfinishedWrite {
    number: u64,
    /// Objects that are lost if it fails.
    objects: u64,
    /// Their keys and bytes, if a listener wants removals.
    listed: Vec<(Box<[u8]>, usize)>,
    /// The bucket's filter once the write has ended.
    filter: [u64; 2],
    /// Dead keys that the new bucket no longer holds, sorted.
    dead: Vec<u64>,
    /// Objects that move from the log to the bucket with this write.
    moving: Option<MovingObjects>,
    progress: Progress,
}

/// Progress of the write of a bucket.
#[allow(clippy::large_enum_variant)] // each write begins as the large one, in its stripe
enum Progress {
    UnderWay(IoFuture),
    /// The device has the bucket. It is durable when this flush has ended.
    Written(NeededFlush),
}

impl Buckets {
    /// Reads a bucket. If the content on flash cannot be used, `Err` carries a buffer for an empty bucket.
    pub(super) async fn load(&self, number: u64) -> Result<Bucket, IoBuffer> {
        // Check this before the read: a concurrent reader may learn the bucket while the read runs.
        let is_unknown = self.states.knows(number) == Knowledge::Unknown;
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
        let generation = self.states.generation(number);
        Bucket::parse(buffer, self.wanted(number, Some(generation))).map_err(|(_reason, buffer)| {
            self.counters.soc_bad_buckets.add(1);
            buffer
        })
    }

    /// Loads a bucket to change it. If the filter knows that it is empty, no read is made.
    ///
    /// A bucket that cannot be read now counts as empty from now on: it may hold what the caller wants to remove, and a
    /// later read might succeed.
    pub(in crate::engine::soc) async fn load_or_empty(&self, number: u64) -> Bucket {
        // The content of a retired bucket is unknown: it is overwritten as a whole.
        if self.is_empty(number) || self.states.knows(number) == Knowledge::Retired {
            return Bucket::empty(self.pool.take(BUCKET_BYTES));
        }
        let mut bucket = self.load(number).await.unwrap_or_else(|buffer| {
            self.empty(number);
            Bucket::empty(buffer)
        });
        if let Some(hit_bits) = &self.hit_bits {
            bucket.promote(hit_bits.of(number));
        }
        bucket
    }

    /// Makes a bucket empty without a write, because it may hold what must not be seen again. The caller holds its
    /// lock. With tombstones nothing is done: they take care of that.
    pub(in crate::engine::soc) fn empty(&self, number: u64) {
        if self.tombstones.is_none() {
            self.states.empty(number);
        }
    }

    /// Writes a bucket. If that fails, the bucket is retired for some time and holds nothing: its content on flash is
    /// unknown.
    pub(super) async fn store(
        &self,
        stripe: &mut Stripe,
        number: u64,
        bucket: Bucket,
        change: BucketChange,
    ) -> bool {
        self.store_moved(stripe, number, bucket, change, None).await
    }

    /// The same; when the write has ended, the log forgets the objects that were `moving`.
    pub(in crate::engine::soc) async fn store_moved(
        &self,
        stripe: &mut Stripe,
        number: u64,
        bucket: Bucket,
        change: BucketChange,
        moving: Option<MovingObjects>,
    ) -> bool {
        assert!(stripe.is_none(), "one write of a stripe's buckets is under way at a time");
        debug_assert!(
            bucket.entries().all(|entry| self.number_of_key(entry.key) == number),
            "what is in bucket {number} belongs there"
        );
        debug_assert!(self.tombstones.is_some() || change.dead.is_empty(), "{change:?}");
        if let Some(hit_bits) = &self.hit_bits {
            // They are in the bucket's predictions now. A hit since the bucket was read is lost.
            hit_bits.clear(number);
            self.counters.soc_promoted_objects.add(bucket.promoted().into());
        }
        let filter = filter::sum(bucket.entries().map(|entry| entry.tag));
        let objects = bucket.entries().count() as u64;
        let listed = if self.counters.removals.wanted() {
            let listed =
                |entry: BucketEntry<'_>| (entry.key.into(), entry.key.len() + entry.value.len());
            bucket.entries().map(listed).collect()
        } else {
            Vec::new()
        };
        // Until the write has ended, a crash may bring back the old bucket.
        let generation = self.states.begin_write(number, filter);
        let BucketChange { stamp, dead } = change;
        // After the generation: a reader that finds a key no longer dead must also see the new generation.
        if let Some(tombstones) = &self.tombstones {
            tombstones.resolve(KeysIn::Buckets, &dead, stamp);
        }
        let (cache, epoch) = (self.place.cache, self.latest_epoch());
        let buffer = bucket.seal(BucketIdentity { cache, number, epoch, generation, stamp });
        let handle = self.handle_for_write(number);
        // When the write has ended, dead keys that the bucket no longer holds need no tombstone. Objects dropped for
        // room never had one.
        let (offset, durability) = (self.offset_of(number), self.durability_of_writes());
        let write = Io::Write { offset, buffer, handle, durability };
        self.counters.soc_bucket_writes.add(1);
        self.counters.soc_written_bytes.add(BUCKET_BYTES as u64);
        let progress = Progress::UnderWay(self.device.submit(write));
        *stripe = Some(UnfinishedWrite { number, objects, listed, filter, dead, moving, progress });
        self.finish(stripe).await
    }

    /// The handle for a write of a bucket that is about to happen. Counts the write for the bucket's temperature. The
    /// caller holds the bucket's lock.
    fn handle_for_write(&self, number: u64) -> PlacementHandle {
        match (&self.temperatures, self.place.hot_handle) {
            (Some(temperatures), Some(hot_handle)) if temperatures.note_write(number) => {
                self.counters.soc_hot_bucket_writes.add(1);
                hot_handle
            }
            _ => self.place.handle,
        }
    }

    /// The durability requested for the write of a bucket. If a shared flush follows, the write itself need not be
    /// durable.
    fn durability_of_writes(&self) -> Durability {
        if self.flush.is_some() { Durability::Device } else { self.place.durability }
    }

    /// Waits for the end of every write whose caller was dropped.
    pub(crate) async fn finish_all(&self) {
        for stripe in 0..self.stripes.len() as u64 {
            drop(self.lock(stripe).await); // of this bucket and of all that share its lock
        }
    }

    /// Waits until a submitted bucket has the required durability. Returns whether it succeeded. If the caller is
    /// dropped, the next holder calls this again; it must not be called again after it has returned.
    async fn until_durable(&self, progress: &mut Progress) -> bool {
        if let Progress::UnderWay(future) = progress {
            if let Err(failure) = future.await {
                self.counters.device_failed(&failure.error);
                return false;
            }
            let Some(flush) = &self.flush else { return true };
            // Not earlier: a flush covers only writes that had completed when it was submitted.
            *progress = Progress::Written(flush.needed());
        }
        match (&self.flush, progress) {
            (Some(flush), Progress::Written(needed)) => flush.wait(*needed).await,
            _ => true,
        }
    }

    /// Waits for the end of the stripe's write, if there is one. Returns whether it succeeded.
    ///
    /// Until then nothing counts that only the new bucket says: after a crash the old bucket may be there, with the
    /// objects that the new one has dropped and with dead keys that still need a tombstone.
    pub(super) async fn finish(&self, stripe: &mut Stripe) -> bool {
        let Some(unfinished) = stripe else { return true };
        let went_well = self.until_durable(&mut unfinished.progress).await;
        let Some(unfinished) = stripe.take() else { return true };
        let UnfinishedWrite { number, objects, listed, filter, dead, moving, .. } = unfinished;
        self.breaker.ended(went_well);
        match went_well {
            true => {
                if self.states.written(number, filter) {
                    self.counters.soc_revived_buckets.add(1);
                    events::revived(events::Place::Bucket, 1);
                }
            }
            false => {
                if self.states.failed(number, self.breaker.now_s()) {
                    self.counters.soc_retired_buckets.add(1);
                    events::retired(events::Place::Bucket, number, objects);
                }
                self.counters.lost_to_device_errors_objects.add(objects);
                let removals = &self.counters.removals;
                for (key, bytes) in &listed {
                    removals.key(RemovalReason::Lost, Tier::SmallObjects, key, *bytes);
                }
                // With tombstones, dead keys that may be in the bucket still need theirs.
                if self.tombstones.is_none() {
                    self.states.give_up(number);
                }
            }
        }
        if let Some(tombstones) = &self.tombstones {
            tombstones.resolved(KeysIn::Buckets, &dead, went_well);
        }
        if let Some(moving) = moving {
            moving.leave_log();
        }
        went_well
    }
}
