//! The buckets on flash: read with and without their locks, changed, and written.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | the buckets, their locks, and look-ups |
//! | `write` | reads a bucket to change it, and writes it |
//! | `recovered` | dead keys, and buckets that a crash has left |

mod recovered;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_device::{BufferPool, Device, Durability, Io, PlacementHandle, VolatileCache};
use larder_log::CacheId;

use super::bucket::{AcceptedWrites, BUCKET_BYTES, Bucket, BucketEntry};
use super::change::BucketChange;
use super::hit_bits::{self, HitBits};
use super::prediction::Prediction;
use super::states::{BucketStates, Knowledge};
use super::temperature::{self, Temperatures};
use crate::base::item::{FlashItem, ItemRef, is_expired};
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::config::{SOC_OBJECT_BYTES_MAX as OBJECT_BYTES_MAX, SocEviction};
use crate::engine::Judge;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::shared_flush::SharedFlush;
use crate::engine::tombstones::{KeysIn, Tombstones};
use crate::observe::stats::Counters;
use write::UnfinishedWrite;

/// Number of locks for all buckets. Buckets that share a lock only wait unnecessarily.
const STRIPES: u64 = 1024;

/// Where the engine's data lies, and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocPlace {
    /// Byte address of bucket 0.
    pub(crate) offset: u64,
    pub(crate) buckets: u64,
    pub(crate) handle: PlacementHandle,
    /// For frequently rewritten buckets; `None`: all buckets use `handle`.
    pub(crate) hot_handle: Option<PlacementHandle>,
    /// Longest object (key and value) that it takes; up to [`OBJECT_BYTES_MAX`].
    pub(crate) object_bytes_max: usize,
    /// Which object of a full bucket makes room.
    pub(crate) eviction: SocEviction,
    /// What a bucket must survive before it counts as written.
    pub(crate) durability: Durability,
    /// Identity to write into buckets and to expect in them.
    pub(crate) cache: CacheId,
    /// Hashes keys to buckets.
    pub(crate) hasher: KeyHasher,
    /// Epoch to write, which is also the latest valid one; until a clear.
    pub(crate) epoch: u64,
    /// Oldest valid epoch; until a clear.
    pub(crate) oldest_epoch: u64,
}

/// What a bucket lock guards: the write of one of its buckets that is still in flight.
///
/// It outlives the call that started it: if that call is dropped, it stays here, and the next holder of the lock waits
/// for its end first.
pub(super) type Stripe = Option<UnfinishedWrite>;

/// The buckets. The state of a bucket and its content on flash change only under the bucket's lock, and the state never
/// promises more than what a crash now would leave on flash.
pub(super) struct Buckets {
    device: Arc<dyn Device>,
    pool: BufferPool,
    place: SocPlace,
    /// Epoch to write, which is also the latest valid one.
    epoch: AtomicU64,
    /// Oldest valid epoch.
    oldest_epoch: AtomicU64,
    states: BucketStates,
    /// Keys that are dead although a bucket still holds them, if the content must survive a crash.
    tombstones: Option<Arc<Tombstones>>,
    /// Makes written buckets durable, where the write itself does not.
    flush: Option<SharedFlush>,
    /// Which buckets are rewritten frequently, if that is configured.
    temperatures: Option<Temperatures>,
    /// Which objects were read, if that decides which are evicted.
    hit_bits: Option<HitBits>,
    /// Readers exclude each other too: with `async_lock`'s reader-writer lock, two waiting readers wake each other
    /// repeatedly until the writer is done.
    stripes: Vec<async_lock::Mutex<Stripe>>,
    breaker: Arc<CircuitBreaker>,
    counters: Arc<Counters>,
}

impl Buckets {
    pub(super) fn new(
        (device, pool): (Arc<dyn Device>, BufferPool),
        place: SocPlace,
        tombstones: Option<Arc<Tombstones>>,
        (counters, breaker): (Arc<Counters>, Arc<CircuitBreaker>),
    ) -> Self {
        assert!(place.buckets > 0 && place.offset.is_multiple_of(BUCKET_BYTES as u64), "{place:?}");
        assert!(place.object_bytes_max <= OBJECT_BYTES_MAX, "what it takes fits a bucket");
        assert!(place.oldest_epoch <= place.epoch, "what it writes it believes: {place:?}");
        // For a file, volatility is unknown, and there a durable write per bucket costs less than flushes.
        let needs_flushes = place.durability == Durability::Power
            && device.info().volatile_cache == VolatileCache::Yes;
        Self {
            flush: needs_flushes
                .then(|| SharedFlush::new(Arc::clone(&device), Arc::clone(&counters))),
            device,
            pool,
            states: BucketStates::new(place.buckets),
            tombstones,
            temperatures: place.hot_handle.map(|_| Temperatures::new(place.buckets)),
            hit_bits: (place.eviction == SocEviction::Rrip).then(|| HitBits::new(place.buckets)),
            stripes: (0..STRIPES.min(place.buckets))
                .map(|_| async_lock::Mutex::new(None))
                .collect(),
            epoch: AtomicU64::new(place.epoch),
            oldest_epoch: AtomicU64::new(place.oldest_epoch),
            place,
            breaker,
            counters,
        }
    }

    /// Memory for what is known of the buckets.
    pub(super) fn memory_bytes(&self) -> u64 {
        let hot = if self.temperatures.is_some() { temperature::BUCKET_BYTES as u64 } else { 0 };
        let hits = if self.hit_bits.is_some() { hit_bits::BUCKET_BYTES as u64 } else { 0 };
        self.place.buckets * (BucketStates::BYTES_EACH + hot + hits)
    }

    /// Number of buckets.
    pub(super) fn count(&self) -> u64 {
        self.place.buckets
    }

    /// Longest object (key and value) that a bucket takes.
    pub(super) fn object_bytes_max(&self) -> usize {
        self.place.object_bytes_max
    }

    /// What DRAM knows of them.
    pub(super) fn states(&self) -> &BucketStates {
        &self.states
    }

    /// The number of the bucket for keys of this hash.
    pub(super) fn number_of(&self, hash: KeyHash) -> u64 {
        let number = hash.spread_over(self.place.buckets);
        debug_assert!(number < self.place.buckets, "bucket {number} of {}", self.place.buckets);
        number
    }

    /// The number of the bucket of a key that was read from flash.
    pub(super) fn number_of_key(&self, key: &[u8]) -> u64 {
        self.number_of(self.hash_of(key))
    }

    /// The hash of a key that was read from flash.
    pub(super) fn hash_of(&self, key: &[u8]) -> KeyHash {
        self.place.hasher.hash(key)
    }

    /// Whether the bucket may hold a live object of this hash. Costs no I/O; "no" is certain, "yes" is as imprecise as
    /// the filters.
    pub(super) fn may_hold(&self, hash: KeyHash) -> bool {
        self.is_listed(hash) && !self.is_dead(hash)
    }

    /// Whether the bucket's filter says yes, whether for a live or a dead key.
    pub(super) fn is_listed(&self, hash: KeyHash) -> bool {
        self.states.may_hold(self.number_of(hash), hash.tag())
    }

    fn is_dead(&self, hash: KeyHash) -> bool {
        self.tombstones
            .as_ref()
            .is_some_and(|tombstones| tombstones.is_dead(KeysIn::Buckets, hash.0))
    }

    /// Whether a bucket is known to be empty.
    pub(super) fn is_empty(&self, number: u64) -> bool {
        self.states.is_empty(number)
    }

    /// Whether a write of the bucket should be attempted.
    pub(super) fn is_usable(&self, number: u64) -> bool {
        self.breaker.allows() && self.states.is_due(number, self.breaker.now_s())
    }

    fn stripe(&self, number: u64) -> &async_lock::Mutex<Stripe> {
        &self.stripes[usize::try_from(number % self.stripes.len() as u64).expect("small")]
    }

    /// Locks the bucket against writers and against all readers except those that read without a lock. The write of an
    /// earlier holder has ended when it returns.
    pub(super) async fn lock(&self, number: u64) -> async_lock::MutexGuard<'_, Stripe> {
        let mut stripe = self.stripe(number).lock().await;
        self.finish(&mut stripe).await;
        debug_assert!(stripe.is_none(), "the write of an earlier holder has ended");
        stripe
    }

    /// Looks `key` up with one read. The caller holds the bucket's lock.
    pub(super) async fn look(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem> {
        let number = self.number_of(hash);
        // Another task may have read the bucket in between and found that the key is not there.
        if self.states.knows(number) == Knowledge::Retired || !self.is_listed(hash) {
            return None;
        }
        let bucket = self.load(number).await.ok()?;
        // After the read: a change of the key during the read has its tombstone by now.
        if self.is_dead(hash) {
            return None;
        }
        let Some((at, entry)) = bucket.find(hash, key) else {
            self.counters.soc_filter_false_positives.add(1);
            return None;
        };
        if is_expired(entry.expiry_s, now_s) {
            self.counters.expired.add(1);
            self.note(RemovalReason::Expired, &entry);
            self.forget_expired(number, &bucket, now_s).await;
            return None;
        }
        self.note_hit(number, &bucket, at);
        Some(bucket.into_fetched(hash, at))
    }

    /// Reads the bucket without its lock, possibly concurrently with a write. Generation and checksum detect a bucket
    /// that is being written. `None` if that happened, or if the lock is necessary.
    pub(super) async fn look_unlocked(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<Option<FlashItem>> {
        let number = self.number_of(hash);
        if self.states.knows(number) != Knowledge::Known {
            return None;
        }
        let before = self.states.generation(number);
        let buffer = self.pool.take(BUCKET_BYTES);
        self.counters.soc_bucket_reads.add(1);
        let read = Io::Read { offset: self.offset_of(number), buffer };
        let buffer = self.device.submit(read).await.ok()?;
        let bucket = Bucket::parse(buffer, self.wanted(number, Some(before))).ok()?;
        // Check this first, then the generation: resolving a dead key raises the generation first.
        if self.is_dead(hash) {
            return Some(None);
        }
        if self.states.generation(number) != before {
            return None;
        }
        let Some((at, entry)) = bucket.find(hash, key) else {
            self.counters.soc_filter_false_positives.add(1);
            return Some(None);
        };
        if !is_expired(entry.expiry_s, now_s) {
            self.note_hit(number, &bucket, at);
            return Some(Some(bucket.into_fetched(hash, at)));
        }
        self.counters.expired.add(1);
        self.note(RemovalReason::Expired, &entry);
        let _reading = self.lock(number).await;
        if self.states.generation(number) == before {
            self.forget_expired(number, &bucket, now_s).await;
        }
        Some(None)
    }

    /// Notes a hit of the object whose entry starts `at` bytes into the bucket's entries.
    fn note_hit(&self, number: u64, bucket: &Bucket, at: usize) {
        if let Some(hit_bits) = &self.hit_bits {
            hit_bits.note(number, bucket.position_of(at));
        }
    }

    /// Removes expired objects from the filter, once they are expired for every later opening too: the next look-up
    /// should not read in vain. The caller holds the lock and the current bucket.
    async fn forget_expired(&self, number: u64, bucket: &Bucket, now_s: u32) {
        let expired = bucket.entries().filter(|entry| is_expired(entry.expiry_s, now_s));
        let last_s = expired.map(|entry| entry.expiry_s).max().unwrap_or(0);
        if let Some(tombstones) = &self.tombstones
            && !tombstones.is_over(last_s).await
        {
            return;
        }
        let alive = bucket.entries().filter(|entry| !is_expired(entry.expiry_s, now_s));
        self.states.keep_only(number, alive.map(|entry| entry.tag));
    }

    /// Applies `judge` to the objects of a bucket, expired or not, at a time when the bucket held them. Counts no hit.
    /// The caller holds the bucket's lock.
    pub(super) async fn peek<T>(&self, number: u64, judge: Judge<'_, T>) -> Vec<T> {
        if self.states.knows(number) == Knowledge::Retired || self.is_empty(number) {
            return Vec::new();
        }
        let loaded = self.load(number).await;
        loaded.map_or_else(|_| Vec::new(), |bucket| self.judged(&bucket, judge))
    }

    /// The same without the lock. `None` if the bucket was written meanwhile, or if the lock is necessary.
    pub(super) async fn peek_unlocked<T>(
        &self,
        number: u64,
        judge: Judge<'_, T>,
    ) -> Option<Vec<T>> {
        if self.states.knows(number) != Knowledge::Known {
            return None;
        }
        if self.is_empty(number) {
            return Some(Vec::new());
        }
        let before = self.states.generation(number);
        self.counters.soc_bucket_reads.add(1);
        let read =
            Io::Read { offset: self.offset_of(number), buffer: self.pool.take(BUCKET_BYTES) };
        let buffer = self.device.submit(read).await.ok()?;
        let bucket = Bucket::parse(buffer, self.wanted(number, Some(before))).ok()?;
        let judged = self.judged(&bucket, judge);
        // Check this last: resolving a dead key raises the generation first.
        (self.states.generation(number) == before).then_some(judged)
    }

    fn judged<T>(&self, bucket: &Bucket, judge: Judge<'_, T>) -> Vec<T> {
        let judged = bucket.entries().filter_map(|entry| {
            let (hash, flags, tiers) = (self.hash_of(entry.key), entry.flags, entry.tiers);
            let item = ItemRef::new(hash, entry.key, entry.value, entry.expiry_s);
            let judged = judge(&ItemRef { flags, tiers, clean: true, ..item })?;
            // After `judge` has looked into DRAM: a key that was changed there has been marked dead here before.
            (!self.is_dead(hash)).then_some(judged)
        });
        judged.collect()
    }

    /// Stores items of this bucket, each in place of an older version, with one write. The caller holds the bucket's
    /// lock. Returns whether they are stored; if not, no version of their keys is stored.
    pub(super) async fn set(
        &self,
        stripe: &mut Stripe,
        number: u64,
        items: &[ItemRef<'_>],
        now_s: u32,
    ) -> bool {
        if !self.is_usable(number) {
            self.counters.lost_to_device_errors_objects.add(items.len() as u64);
            items.iter().for_each(|item| self.note_item(RemovalReason::Lost, item));
            return false;
        }
        let mut bucket = self.load_or_empty(number).await;
        // Before the new items are added: dead keys are given by hash, and a new version has the same hash.
        let change = self.invalidate_dead(number, &mut bucket);
        let is_there = |item: &ItemRef<'_>| {
            bucket.find(item.hash, item.key).is_some_and(|(_, entry)| {
                (entry.value, entry.expiry_s, entry.flags, entry.tiers)
                    == (item.value, item.expiry_s, item.flags, item.tiers)
            })
        };
        if items.iter().all(is_there) {
            return true; // an earlier call started this write and was dropped; the write succeeded
        }
        for item in items {
            bucket.remove(item.hash, item.key);
            let entry = BucketEntry {
                tag: item.hash.tag(),
                key: item.key,
                value: item.value,
                expiry_s: item.expiry_s,
                flags: item.flags,
                tiers: item.tiers,
                prediction: Prediction::LONG,
            };
            self.push(&mut bucket, entry, now_s);
        }
        self.store(stripe, number, bucket, change).await
    }

    /// Removes `key` from its bucket. The caller holds the bucket's lock. Returns whether it held a live object.
    pub(super) async fn remove(
        &self,
        stripe: &mut Stripe,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> bool {
        if !self.is_listed(hash) {
            return false;
        }
        let number = self.number_of(hash);
        let mut bucket = self.load_or_empty(number).await;
        let Some((_, entry)) = bucket.find(hash, key) else { return false };
        let alive = !is_expired(entry.expiry_s, now_s);
        bucket.remove(hash, key);
        self.store(stripe, number, bucket, BucketChange::default()).await;
        alive
    }

    /// Adds an entry to a bucket that is about to be written; older entries may have to go.
    pub(super) fn push(&self, bucket: &mut Bucket, entry: BucketEntry<'_>, now_s: u32) {
        let gone = |entry: &BucketEntry<'_>, expired| {
            let reason =
                if expired { RemovalReason::Expired } else { RemovalReason::BucketOverflow };
            self.note(reason, entry);
        };
        let (expired, evicted) = bucket.push_and_tell(entry, (self.place.eviction, now_s), &gone);
        self.counters.expired.add(u64::from(expired));
        self.counters.soc_evicted_objects.add(u64::from(evicted));
    }

    fn note(&self, reason: RemovalReason, entry: &BucketEntry<'_>) {
        let bytes = entry.key.len() + entry.value.len();
        self.counters.removals.key(reason, Tier::SmallObjects, entry.key, bytes);
    }

    /// Reports an item as removed.
    pub(super) fn note_item(&self, reason: RemovalReason, item: &ItemRef<'_>) {
        let bytes = item.object_bytes();
        self.counters.removals.key(reason, Tier::SmallObjects, item.key, bytes);
    }

    /// Voids everything that was written before this epoch. The caller makes sure that no other request uses the engine
    /// and that nothing is in flight.
    pub(super) fn clear(&self, epoch: u64) {
        let before = self.latest_epoch();
        assert!(epoch > before, "epoch {epoch} after {before}: what was written is void");
        debug_assert!(
            self.stripes.iter().all(|stripe| stripe.try_lock().is_some_and(|it| it.is_none())),
            "nothing is under way"
        );
        self.oldest_epoch.store(epoch, Ordering::Release);
        self.epoch.store(epoch, Ordering::Release);
        self.states.clear();
    }

    /// The buckets' part of the snapshot of a clean shutdown.
    pub(super) fn export(&self, out: &mut Vec<u8>) {
        self.states.export(out, self.tombstones.is_none());
    }

    fn latest_epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn wanted(&self, number: u64, generation: Option<u16>) -> AcceptedWrites {
        let cache = self.place.cache;
        let oldest_epoch = self.oldest_epoch.load(Ordering::Acquire);
        let latest_epoch = self.latest_epoch();
        AcceptedWrites { cache, number, oldest_epoch, latest_epoch, generation }
    }

    fn offset_of(&self, number: u64) -> u64 {
        debug_assert!(number < self.place.buckets, "bucket {number} of {}", self.place.buckets);
        self.place.offset + number * BUCKET_BYTES as u64
    }
}

#[cfg(test)]
mod flush_tests;
