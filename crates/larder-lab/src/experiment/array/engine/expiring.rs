//! The array engine as a cache whose objects expire, in the time of the workload.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use larder::{ArrayConfig, Larder, Layout, RegionState, VirtualClock, block_on};

use super::config::engine_alone;
use super::values::Values;
use super::watched::{Asked, BLOCK_BYTES, WatchedDevice};
use crate::Error;
use crate::experiment::array::expiry::{Answer, ExpiringCache, Flash};

/// A region has, in addition to its records, a footer with a line for each record and two lines for itself.
const LINE_BYTES: usize = 32;
const REGION_BYTES_MIN: usize = 64 << 10;
/// Bytes for label, snapshot and tombstone log.
const METADATA_BYTES: usize = 1 << 20;
const HANDLES: u16 = 8;
/// Approximate number of keys that are looked up when the flash is inspected.
const SAMPLE: u64 = 4096;

/// See the [module](self).
pub(in crate::experiment::array) struct EngineCache {
    cache: Larder,
    clock: Arc<VirtualClock>,
    device: Arc<WatchedDevice>,
    values: Values,
    slots: u64,
    /// One in this number of keys is in the sample that is looked up when the flash is inspected.
    keys_per_sampled: u64,
    /// Expiry of each sampled key in seconds; 0 means never.
    expires_s: HashMap<u64, u64>,
    /// The byte range of the engine's regions, and the reads of them so far.
    engine: Range<u64>,
    reads: u64,
}

impl EngineCache {
    /// The engine with `regions` regions of `objects` objects each, with or without TTL groups.
    pub(in crate::experiment::array) fn new(
        regions: usize,
        objects: usize,
        ttl_groups: bool,
        seed: u64,
    ) -> Result<Self, Error> {
        let footer_bytes = ((objects + 2) * LINE_BYTES).next_multiple_of(BLOCK_BYTES);
        let region_bytes = (objects * BLOCK_BYTES + footer_bytes).max(REGION_BYTES_MIN);
        let narrow = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        // The metadata includes the tombstone log.
        let metadata_bytes = METADATA_BYTES + regions * region_bytes / 64;
        let bytes = regions * region_bytes + metadata_bytes;
        let device = Arc::new(WatchedDevice::new(bytes as u64, HANDLES));
        let array = ArrayConfig {
            region_bytes: Some(narrow(region_bytes)),
            mean_object_bytes: narrow(BLOCK_BYTES),
            // The lookups of an inspection must not keep objects alive.
            reinsertion: false,
            ttl_groups,
            ..ArrayConfig::default()
        };
        let clock = Arc::new(VirtualClock::default());
        let (config, on) = (engine_alone(array, seed), Arc::clone(&device) as _);
        let cache = block_on(Larder::open(config, Some(on), Arc::clone(&clock) as _));
        let cache = cache.map_err(|error| Error::usage(error.to_string()))?;
        let engine = cache.layout().map(Layout::array_range).unwrap_or_default();
        // The space that metadata does not use becomes regions, too.
        let regions = (engine.end - engine.start) / region_bytes as u64;
        let slots = regions * objects as u64;
        // Opening the cache reads everything; these requests do not count.
        device.take_asked();
        Ok(Self {
            cache,
            clock,
            device,
            values: Values::of_records(BLOCK_BYTES),
            slots,
            keys_per_sampled: slots.div_ceil(SAMPLE),
            expires_s: HashMap::new(),
            engine,
            reads: 0,
        })
    }

    fn found(&self, key: u64) -> bool {
        let found = block_on(self.cache.get(&key.to_le_bytes())).expect("the device does not fail");
        found.is_some_and(|value| {
            self.values.check(key, &value).expect("values are not mixed up");
            true
        })
    }

    fn count_reads(&mut self) {
        let asked = self.device.take_asked();
        let of_engine = |it: &&Asked| it.is_read && self.engine.contains(&it.offset);
        self.reads += asked.iter().filter(of_engine).count() as u64;
    }

    fn move_on(&self, now_s: u64) {
        self.clock.advance_to(Duration::from_secs(now_s));
    }

    /// Reads of regions that were made for expiry: all reads except those for lookups, for tables, and for the footers
    /// of reclaimed regions.
    pub(in crate::experiment::array) fn reads_for_expiry(&mut self) -> u64 {
        self.count_reads();
        let stats = self.cache.stats();
        let tables = stats.array_table_reads + stats.array_upkeep_reads;
        let known = stats.array_record_reads + tables + stats.array_reclaimed_regions;
        self.reads.abs_diff(known)
    }
}

impl ExpiringCache for EngineCache {
    fn get(&mut self, key: u64, now_s: u64) -> Answer {
        self.move_on(now_s);
        if self.found(key) { Answer::Found } else { Answer::Absent }
    }

    fn set(&mut self, key: u64, ttl_s: u32, now_s: u64) {
        self.move_on(now_s);
        let ttl = (ttl_s > 0).then(|| Duration::from_secs(ttl_s.into()));
        let set = block_on(self.cache.set(&key.to_le_bytes(), &self.values.of(key), ttl));
        set.expect("the device does not fail");
        if key.is_multiple_of(self.keys_per_sampled) {
            let expires_s = if ttl_s > 0 { now_s + u64::from(ttl_s) } else { 0 };
            self.expires_s.insert(key, expires_s);
        }
    }

    /// Estimates the number of live objects from the sample of keys.
    fn flash(&mut self, now_s: u64) -> Flash {
        self.move_on(now_s);
        self.expires_s.retain(|_, expires_s| *expires_s == 0 || *expires_s > now_s);
        // Counts up to here, because the lookups of the sample are not part of the workload.
        let stats = self.cache.stats();
        self.count_reads();
        let live = self.expires_s.keys().filter(|&&key| self.found(key)).count() as u64;
        let live = live * self.keys_per_sampled;
        let regions = self.cache.flash_regions();
        let is_taken = |state| matches!(state, RegionState::Active | RegionState::Sealed);
        let taken = regions.iter().filter(|region| is_taken(region.state)).count() as u64;
        Flash {
            slots: self.slots,
            taken: self.slots * taken / regions.len().max(1) as u64,
            live,
            written: stats.sets,
            freed_whole: stats.array_expired_regions,
            reclaimed: stats.array_reclaimed_regions,
            reads_of_expired: stats.expired,
        }
    }
}
