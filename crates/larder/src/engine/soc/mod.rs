//! The small-object engine (SOC): set-associative buckets of 4 KiB, rewritten in place.
//!
//! A key's hash selects its bucket. To store an object, the whole bucket is read, changed and written back: expensive
//! in application write amplification, but a small object needs no index entry, only its share of the bucket's filter.
//! To the drive this is a stream of uniformly random 4 KiB overwrites, which is why it has its own placement handle. A
//! log in front of the buckets (`log`) lets one rewrite serve several objects.
//!
//! | file | what it is |
//! |---|---|
//! | `mod` | look-ups, stores and removals in the log and the buckets |
//! | `engine` | the implementation of [`Engine`](super::Engine) |
//! | `log/` | the log in front of the buckets |
//! | `log_index` | the index of the log's objects |
//! | `buckets/` | the buckets on flash, and their locks |
//! | `bucket`, `change` | the bytes of a bucket, and the dead keys that a rewrite leaves out |
//! | `states` | what DRAM knows of each bucket |
//! | `prediction`, `hit_bits` | which object of a bucket is evicted with RRIP, and which were read from flash |
//! | `filter` | the Bloom filters of the buckets |
//! | `temperature` | which buckets are rewritten frequently |

pub(crate) mod bucket;
mod buckets;
mod change;
mod engine;
mod filter;
mod hit_bits;
pub(crate) mod log;
mod log_index;
pub(crate) mod prediction;
mod states;
mod temperature;

use std::sync::Arc;

use larder_device::{BufferPool, Device};

use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::KeyHash;
use crate::config::SOC_OBJECT_BYTES_MAX as OBJECT_BYTES_MAX;
use crate::engine::Judge;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::tombstones::Tombstones;
use crate::observe::stats::Counters;
pub(crate) use bucket::BUCKET_BYTES;
use buckets::Buckets;
pub(crate) use buckets::SocPlace;
pub(crate) use log::SocLogPlace;
use log::{Log, LogLookup};
pub(crate) use states::BUCKET_SNAPSHOT_BYTES;

/// Attempts to read a bucket without its lock before taking it.
const UNLOCKED_LOOKS: usize = 2;

/// The buckets, and the log in front of them. The log is asked first: it is newer than the buckets (`log`, rule 2).
pub(crate) struct Soc {
    buckets: Arc<Buckets>,
    log: Option<Log>,
    tombstones: Option<Arc<Tombstones>>,
    /// Buffers of buckets, pages and segments.
    pool: BufferPool,
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
        let pool = BufferPool::new();
        let io = || (Arc::clone(&device), pool.clone());
        let shared = || (Arc::clone(&counters), Arc::clone(&breaker));
        let buckets = Arc::new(Buckets::new(io(), place, tombstones.clone(), shared()));
        let log = log.map(|log| Log::new(log, Arc::clone(&buckets), io(), shared()));
        Self { buckets, log, tombstones, pool, counters }
    }

    /// Memory of the log's index.
    pub(crate) fn log_index_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::index_bytes)
    }

    /// Objects in the log.
    pub(crate) fn log_objects(&self) -> u64 {
        self.log.as_ref().map_or(0, Log::len)
    }

    /// Whether `hash` may be stored. Costs no I/O; "no" is certain, "yes" is as imprecise as the filters.
    pub(crate) fn may_hold(&self, hash: KeyHash) -> bool {
        // The log first: an object that moves is in the bucket before it leaves the log.
        self.log.as_ref().is_some_and(|log| log.may_hold(hash)) || self.buckets.may_hold(hash)
    }

    /// Looks `key` up: no read if the filter says no, one otherwise.
    pub(crate) async fn get(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<FlashItem> {
        if !self.may_hold(hash) {
            return None;
        }
        match self.look_in_log(hash, key, now_s).await {
            LogLookup::Found(found) => return Some(found),
            // Do not ask the bucket: it may hold an older version.
            LogLookup::Gone => return None,
            LogLookup::Absent if !self.buckets.may_hold(hash) => return None,
            LogLookup::Absent => {
                if let Some(found) = self.buckets.look_unlocked(hash, key, now_s).await {
                    return found;
                }
            }
            LogLookup::Moving => {}
        }
        let _reading = self.buckets.lock(self.buckets.number_of(hash)).await;
        // Again, under the lock: the key may have been logged since the look-up above, and the bucket may have an older
        // version.
        match self.look_in_log(hash, key, now_s).await {
            LogLookup::Found(found) => Some(found),
            LogLookup::Gone | LogLookup::Moving => None,
            LogLookup::Absent => self.buckets.look(hash, key, now_s).await,
        }
    }

    async fn look_in_log(&self, hash: KeyHash, key: &[u8], now_s: u32) -> LogLookup {
        match &self.log {
            Some(log) => log.look(hash, key, now_s).await,
            None => LogLookup::Absent,
        }
    }

    /// Stores `item` in place of an older version. Returns whether it is stored; if not, no version of the key is
    /// stored.
    pub(crate) async fn set(&self, item: &ItemRef<'_>, now_s: u32) -> bool {
        debug_assert!(item.object_bytes() <= OBJECT_BYTES_MAX, "the caller has asked `takes`");
        if let Some(log) = &self.log
            && let Some(stored) = log.set(item, now_s).await
        {
            return stored;
        }
        self.set_in_bucket(std::slice::from_ref(item), now_s).await
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
        let number = self.buckets.number_of(first.hash);
        let mut stripe = self.buckets.lock(number).await;
        for item in items {
            assert_eq!(self.buckets.number_of(item.hash), number, "they are of one bucket");
            // Otherwise the log would answer with the older version forever (`log`, rule 2).
            if let Some(log) = &self.log
                && let Some((place, _)) = log.find(number, item.hash, item.key, now_s).await
            {
                log.remove(number, place);
            }
        }
        self.buckets.set(&mut stripe, number, items, now_s).await
    }

    /// Makes sure that no version of `key` is stored. Returns whether a live one was found. Only called without
    /// tombstones: a tombstone does the same without a write of the bucket.
    pub(crate) async fn remove(&self, hash: KeyHash, key: &[u8], now_s: u32) -> bool {
        if !self.may_hold(hash) {
            return false;
        }
        let number = self.buckets.number_of(hash);
        let mut stripe = self.buckets.lock(number).await;
        let in_log = match &self.log {
            Some(log) => log.find(number, hash, key, now_s).await,
            None => None,
        };
        let in_bucket = self.buckets.remove(&mut stripe, hash, key, now_s).await;
        let (Some(log), Some((place, alive))) = (&self.log, in_log) else { return in_bucket };
        // Last: it hides what is in the bucket.
        log.remove(number, place);
        alive
    }

    /// Makes sure that nothing of this hash is stored, without reading its bucket: the bucket is emptied with
    /// everything in it, and so is what the log has for it. Only used without tombstones.
    pub(crate) async fn void(&self, hash: KeyHash) {
        if !self.may_hold(hash) {
            return;
        }
        assert!(self.tombstones.is_none(), "where there are tombstones, one of them does it");
        let number = self.buckets.number_of(hash);
        let _stripe = self.buckets.lock(number).await;
        if let Some(log) = &self.log {
            log.remove_all_of(number);
        }
        self.buckets.empty(number);
        self.counters.left_out_buckets.add(1);
    }

    /// Applies `judge` to the objects of a bucket, expired or not, at a time when the bucket held them. Counts no hit.
    async fn peek<T>(&self, number: u64, judge: Judge<'_, T>) -> Vec<T> {
        let log = self.log.as_ref();
        for _ in 0..UNLOCKED_LOOKS {
            if !log.is_some_and(|log| log.has_objects_of(number))
                && let Some(judged) = self.buckets.peek_unlocked(number, judge).await
            {
                return judged;
            }
        }
        let _reading = self.buckets.lock(number).await;
        let (mut judged, logged) = match log {
            Some(log) => log.peek(number, judge).await,
            None => (Vec::new(), Some(Vec::new())),
        };
        let Some(logged) = logged else { return judged };
        // The log is newer, so its keys are skipped here.
        let is_newest = |item: &ItemRef<'_>| {
            if logged.iter().any(|key| **key == *item.key) { None } else { judge(item) }
        };
        judged.extend(self.buckets.peek(number, &is_newest).await);
        judged
    }
}
