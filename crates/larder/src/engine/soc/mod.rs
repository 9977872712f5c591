//! The small-object engine (SOC): set-associative buckets of 4 KiB, rewritten in place.
//!
//! A key's hash selects its bucket. To store an object, the whole bucket is read, changed and written back: expensive
//! in application write amplification, but a small object needs no index entry, only its share of the bucket's filter.
//! To the drive this is a stream of uniformly random 4 KiB overwrites, which is why it has its own placement handle. A
//! log in front of the buckets (`log`) lets one rewrite serve several objects.

pub(crate) mod bucket;
mod change;
mod clear;
mod engine;
mod filter;
mod iterate;
mod knowledge;
pub(crate) mod log;
mod recovered;
mod snapshot;
mod temperature;
mod write;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{BufferPool, Device, Durability, Io, PlacementHandle, VolatileCache};

use crate::base::item::{FlashItem, ItemRef, is_expired};
use crate::base::key::{KeyHash, KeyHasher};
use crate::base::removal::RemovalReason;
use crate::base::tier::Tier;
use crate::config::SOC_OBJECT_BYTES_MAX as OBJECT_BYTES_MAX;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::shared_flush::SharedFlush;
use crate::engine::tombstones::{KeysIn, Tombstones};
use crate::observe::stats::Counters;
pub(crate) use bucket::BUCKET_BYTES;
use bucket::{AcceptedWrites, Bucket, BucketEntry};
use change::BucketChange;
use filter::{FILTER_BYTES, Filters};
use knowledge::Knowledge;
use larder_log::{Backoff, CacheId};
pub(crate) use log::SocLogPlace;
use log::{Log, LogLookup};
use temperature::Temperatures;
use write::UnfinishedWrite;

/// Bytes of one bucket in the snapshot of a clean shutdown: its filter and its generation.
pub(crate) const BUCKET_SNAPSHOT_BYTES: usize = FILTER_BYTES + 2;

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
type Stripe = Option<UnfinishedWrite>;

pub(crate) struct Soc {
    device: Arc<dyn Device>,
    pool: BufferPool,
    place: SocPlace,
    /// Epoch to write, which is also the latest valid one.
    epoch: AtomicU64,
    /// Oldest valid epoch.
    oldest_epoch: AtomicU64,
    filters: Filters,
    /// The generation that was last written, by bucket: a lost write of the device is detected by it.
    generations: Vec<AtomicU16>,
    /// [`Knowledge`], by bucket.
    knowledge: Vec<AtomicU8>,
    /// Keys that are dead although a bucket still holds them, if the content must survive a crash.
    tombstones: Option<Arc<Tombstones>>,
    /// Makes written buckets durable, where the write itself does not.
    flush: Option<SharedFlush>,
    /// Which buckets are rewritten frequently, if that is configured.
    temperatures: Option<Temperatures>,
    log: Option<Log>,
    /// Readers exclude each other too: with `async_lock`'s reader-writer lock, two waiting readers wake each other
    /// repeatedly until the writer is done.
    stripes: Vec<async_lock::Mutex<Stripe>>,
    /// Buckets whose write failed, by number.
    retired: Mutex<HashMap<u64, Backoff>>,
    breaker: Arc<CircuitBreaker>,
    counters: Arc<Counters>,
}

impl Soc {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        place: SocPlace,
        log: Option<SocLogPlace>,
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
            log: log.map(|log| Log::new(log, place.buckets)),
            device,
            pool: BufferPool::new(),
            filters: Filters::new(place.buckets),
            generations: (0..place.buckets).map(|_| AtomicU16::new(0)).collect(),
            knowledge: (0..place.buckets).map(|_| AtomicU8::new(Knowledge::Known as u8)).collect(),
            tombstones,
            temperatures: place.hot_handle.map(|_| Temperatures::new(place.buckets)),
            stripes: (0..STRIPES.min(place.buckets))
                .map(|_| async_lock::Mutex::new(None))
                .collect(),
            retired: Mutex::default(),
            epoch: AtomicU64::new(place.epoch),
            oldest_epoch: AtomicU64::new(place.oldest_epoch),
            place,
            breaker,
            counters,
        }
    }

    /// Memory for filters, generations, knowledge and temperatures.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let hot = if self.temperatures.is_some() { temperature::BUCKET_BYTES } else { 0 };
        self.place.buckets * (BUCKET_SNAPSHOT_BYTES + size_of::<AtomicU8>() + hot) as u64
    }

    /// Memory of buckets that are being read or written.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.pool.memory_bytes() as u64
    }

    /// Memory of the log's index.
    pub(crate) fn log_index_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::index_bytes)
    }

    /// Objects in the log.
    pub(crate) fn log_objects(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::len)
    }

    /// Whether `hash` may be stored. Costs no I/O; "no" is certain, "yes" is as imprecise as the filters (see
    /// [`Filters`]).
    pub(crate) fn may_hold(&self, hash: KeyHash) -> bool {
        // The log first: an object that moves is in the bucket before it leaves the log.
        self.log.as_ref().is_some_and(|log| log.may_hold(self.bucket_of(hash), hash))
            || self.bucket_may_hold(hash)
    }

    /// The same for the bucket alone.
    fn bucket_may_hold(&self, hash: KeyHash) -> bool {
        self.is_listed(hash) && !self.is_dead(hash)
    }

    /// Whether the bucket's filter says yes, whether for a live or a dead key.
    pub(crate) fn is_listed(&self, hash: KeyHash) -> bool {
        self.filters.may_hold(self.bucket_of(hash), hash.tag())
    }

    fn is_dead(&self, hash: KeyHash) -> bool {
        self.tombstones
            .as_ref()
            .is_some_and(|tombstones| tombstones.is_dead(KeysIn::Buckets, hash.0))
    }

    /// Looks `key` up: no read if the filter says no, one otherwise.
    pub(crate) async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem> {
        if !self.may_hold(hash) {
            return None;
        }
        let number = self.bucket_of(hash);
        // The log first, which is newer than the bucket (`log`, rule 2).
        match self.look_in_log(hash, key, now_s).await {
            LogLookup::Found(found) => return Some(found),
            // Do not ask the bucket: it may hold an older version.
            LogLookup::Gone => return None,
            LogLookup::Absent if !self.bucket_may_hold(hash) => return None,
            LogLookup::Absent => {
                if self.knows(number) == Knowledge::Known
                    && let Some(found) = self.look_unlocked(number, hash, key, now_s).await
                {
                    return found;
                }
            }
            LogLookup::Moving => {}
        }
        let _reading = self.lock_bucket(number).await;
        // Again, under the lock: the key may have been logged since the look-up above, and the bucket may have an older
        // version.
        match self.look_in_log(hash, key, now_s).await {
            LogLookup::Found(found) => return Some(found),
            LogLookup::Gone | LogLookup::Moving => return None,
            LogLookup::Absent => {}
        }
        // Another task may have read the bucket in between and found that the key is not there.
        if self.knows(number) == Knowledge::Retired || !self.is_listed(hash) {
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
        Some(bucket.into_fetched(hash, at))
    }

    /// Reads the bucket without its lock, possibly concurrently with a write. Generation and checksum detect a bucket
    /// that is being written. `None` if that happened, or if the lock is necessary.
    async fn look_unlocked(
        &self,
        number: u64,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<Option<FlashItem>> {
        let before = self.generation(number).load(Ordering::Acquire);
        let buffer = self.pool.take(BUCKET_BYTES);
        self.counters.soc_bucket_reads.add(1);
        let read = Io::Read { offset: self.offset_of(number), buffer };
        let buffer = self.device.submit(read).await.ok()?;
        let bucket = Bucket::parse(buffer, self.wanted(number, Some(before))).ok()?;
        // Check this first, then the generation: resolving a dead key raises the generation first.
        if self.is_dead(hash) {
            return Some(None);
        }
        if self.generation(number).load(Ordering::Acquire) != before {
            return None;
        }
        let Some((at, entry)) = bucket.find(hash, key) else {
            self.counters.soc_filter_false_positives.add(1);
            return Some(None);
        };
        if !is_expired(entry.expiry_s, now_s) {
            return Some(Some(bucket.into_fetched(hash, at)));
        }
        self.counters.expired.add(1);
        self.note(RemovalReason::Expired, &entry);
        let _reading = self.lock_bucket(number).await;
        if self.generation(number).load(Ordering::Acquire) == before {
            self.forget_expired(number, &bucket, now_s).await;
        }
        Some(None)
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
        self.filters.rebuild(number, alive.map(|entry| entry.tag));
    }

    /// Stores `item` in place of an older version. Returns whether it is stored; if not, no version of the key is
    /// stored.
    pub(crate) async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        debug_assert!(item.object_bytes() <= OBJECT_BYTES_MAX, "the caller has asked `takes`");
        match self.set_in_log(item, now_s).await {
            Some(stored) => stored,
            None => self.set_in_bucket(std::slice::from_ref(item), now_s).await,
        }
    }

    /// Stores items of one bucket, each in place of an older version, with one write of the bucket. Returns the items
    /// that are not stored: no version of their keys is stored.
    pub(crate) async fn set_together<'i, 'a>(
        &self,
        items: &'i [ItemRef<'a>],
        now_s: u32,
    ) -> Vec<&'i ItemRef<'a>> {
        if self.log.is_none() {
            let stored = self.set_in_bucket(items, now_s).await;
            return if stored { Vec::new() } else { items.iter().collect() };
        }
        let mut lost = Vec::new();
        for item in items {
            if !self.set(item, now_s).await {
                lost.push(item);
            }
        }
        lost
    }

    /// Writes items directly to their bucket, bypassing the log. Returns whether they are stored.
    async fn set_in_bucket(&self, items: &[ItemRef<'_>], now_s: u32) -> bool {
        let Some(first) = items.first() else { return true };
        let number = self.bucket_of(first.hash);
        let mut stripe = self.lock_bucket(number).await;
        for item in items {
            assert_eq!(self.bucket_of(item.hash), number, "they are of one bucket");
            // Otherwise the log would answer with the older version forever (`log`, rule 2).
            let in_log = self.find_in_log(number, item.hash, item.key, now_s).await;
            self.forget_in_log(number, in_log);
        }
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
            };
            let (expired, evicted) = bucket.push_and_tell(entry, now_s, &self.gone());
            self.counters.expired.add(u64::from(expired));
            self.counters.soc_evicted_objects.add(u64::from(evicted));
        }
        self.store(&mut stripe, number, bucket, change).await
    }

    /// Reports objects that a bucket dropped.
    fn gone(&self) -> impl Fn(&BucketEntry<'_>, bool) {
        |entry, expired| {
            let reason =
                if expired { RemovalReason::Expired } else { RemovalReason::BucketOverflow };
            self.note(reason, entry);
        }
    }

    fn note(&self, reason: RemovalReason, entry: &BucketEntry<'_>) {
        let bytes = entry.key.len() + entry.value.len();
        self.counters.removals.key(reason, Tier::SmallObjects, entry.key, bytes);
    }

    fn note_item(&self, reason: RemovalReason, item: &ItemRef<'_>) {
        let bytes = item.object_bytes();
        self.counters.removals.key(reason, Tier::SmallObjects, item.key, bytes);
    }

    /// Makes sure that no version of `key` is stored. Returns whether a live one was found. Only called without
    /// tombstones: a tombstone does the same without a write of the bucket.
    pub(crate) async fn remove(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool {
        if !self.may_hold(hash) {
            return false;
        }
        let number = self.bucket_of(hash);
        let mut stripe = self.lock_bucket(number).await;
        let in_log = self.find_in_log(number, hash, key, now_s).await;
        let in_bucket = self.remove_from_bucket(&mut stripe, hash, key, now_s).await;
        // Last: it hides what is in the bucket.
        self.forget_in_log(number, in_log);
        in_log.map_or(in_bucket, |(_, alive)| alive)
    }

    async fn remove_from_bucket(
        &self,
        stripe: &mut Stripe,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> bool {
        let number = self.bucket_of(hash);
        if !self.filters.may_hold(number, hash.tag()) {
            return false;
        }
        let mut bucket = self.load_or_empty(number).await;
        let Some((_, entry)) = bucket.find(hash, key) else { return false };
        let alive = !is_expired(entry.expiry_s, now_s);
        bucket.remove(hash, key);
        self.store(stripe, number, bucket, BucketChange::default()).await;
        alive
    }

    /// The hash of a key that was read from flash.
    fn hash_of(&self, key: &[u8]) -> KeyHash {
        self.place.hasher.hash(key)
    }

    pub(crate) fn bucket_of(&self, hash: KeyHash) -> u64 {
        let number = hash.spread_over(self.place.buckets);
        debug_assert!(number < self.place.buckets, "bucket {number} of {}", self.place.buckets);
        number
    }

    fn stripe(&self, number: u64) -> &async_lock::Mutex<Stripe> {
        &self.stripes[usize::try_from(number % self.stripes.len() as u64).expect("small")]
    }

    /// Locks the bucket against writers and against all readers except those that read without a lock. The write of an
    /// earlier holder has ended when it returns.
    async fn lock_bucket(&self, number: u64) -> async_lock::MutexGuard<'_, Stripe> {
        let mut stripe = self.stripe(number).lock().await;
        self.finish(&mut stripe).await;
        debug_assert!(stripe.is_none(), "the write of an earlier holder has ended");
        stripe
    }

    fn knows(&self, number: u64) -> Knowledge {
        let knowledge = &self.knowledge[usize::try_from(number).expect("a bucket number")];
        Knowledge::of(knowledge.load(Ordering::Acquire))
    }

    fn retired(&self) -> MutexGuard<'_, HashMap<u64, Backoff>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a write of the bucket should be attempted.
    fn is_usable(&self, number: u64) -> bool {
        let is_due = || {
            let retired = self.retired();
            retired.get(&number).is_none_or(|backoff| backoff.is_due(self.breaker.now_s()))
        };
        self.breaker.allows() && (self.knows(number) != Knowledge::Retired || is_due())
    }

    fn know(&self, number: u64, knowledge: Knowledge) {
        let at = usize::try_from(number).expect("a bucket number");
        self.knowledge[at].store(knowledge as u8, Ordering::Release);
    }

    fn wanted(&self, number: u64, generation: Option<u16>) -> AcceptedWrites {
        let cache = self.place.cache;
        let oldest_epoch = self.oldest_epoch.load(Ordering::Acquire);
        let latest_epoch = self.epoch.load(Ordering::Acquire);
        AcceptedWrites { cache, number, oldest_epoch, latest_epoch, generation }
    }

    fn generation(&self, number: u64) -> &AtomicU16 {
        &self.generations[usize::try_from(number).expect("a bucket number")]
    }

    fn offset_of(&self, number: u64) -> u64 {
        debug_assert!(number < self.place.buckets, "bucket {number} of {}", self.place.buckets);
        self.place.offset + number * BUCKET_BYTES as u64
    }
}

#[cfg(test)]
mod flush_tests;
