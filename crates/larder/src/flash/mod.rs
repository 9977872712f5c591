//! The flash side of the cache: chooses the engine for an object, decides on admission, and recovers after a restart.
//!
//! Uses `base`, `observe`, `config` and `engine`, and of `dram` only what receives its records at a close.
//!
//! Invariants:
//!
//! 1. No part of the device overlaps another, and the superblock names all of them (`division`).
//! 2. An object goes to one engine, by its size. While a close moves small objects to regions, both have the same
//!    version.
//! 3. A snapshot counts only with the superblock that says that the shutdown was clean; that superblock is void before
//!    the first write of the next opening (`recovery`, `shutdown`).
//!
//! | file | what it is |
//! |---|---|
//! | `admission/` | decides which evicted items are worth a write |
//! | `plan/` | the placement plan: the streams of a cache, and their placement handles |
//! | `division`, `array_layout`, `pages_layout`, `unit`, `on_blocks` | divide the device among the parts of the cache |
//! | `changes` | finds settings that have changed since the cache was made |
//! | `places` | gives each engine its part and its handle |
//! | `engines` | the list of the engines |
//! | `mod` | look-ups, and what there is to know of flash |
//! | `demote` | writes items: evicted ones, those that stay in DRAM, values in parts |
//! | `invalidate` | voids a key, or everything |
//! | `scan` | lists what flash holds |
//! | `needs` | how much memory flash needs before an opening |
//! | `label_area` | the label and the snapshot on the device |
//! | `recovery` | opens: takes over what a shutdown or a crash has left |
//! | `close`, `shutdown`, `snapshot`, `dead_keys` | close: sends DRAM's content, and writes the snapshot |
//! | `plain` | a minimal engine for tests |

pub mod admission;
mod array_layout;
mod changes;
mod close;
mod dead_keys;
mod demote;
mod division;
mod engines;
mod invalidate;
mod label_area;
mod needs;
mod on_blocks;
mod pages_layout;
mod places;
#[cfg(test)]
mod plain;
pub mod plan;
mod recovery;
mod scan;
mod shutdown;
mod snapshot;
#[cfg(test)]
mod tests;
mod unit;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use larder_device::Device;

use self::plan::PlacementPlan;
use crate::advice::Situation;
use crate::base::error::Error;
use crate::base::item::{FlashItem, ItemRef};
use crate::base::key::KeyHash;
use crate::base::layout::Layout;
use crate::base::tier::Tier;
use crate::base::time::CacheClock;
use crate::config::Config;
use crate::engine::array::memory::ArrayMemory;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::flash_region::FlashRegion;
use crate::engine::long::{Lack, LongLookup, Parts};
use crate::engine::tombstones::Tombstones;
use crate::engine::{FoundAgain, Judge, Memory, Stop};
use crate::flash::admission::{Admission, AdmissionPolicy};
use crate::observe::endurance::{DriveLife, Wear};
use crate::observe::events;
use crate::observe::load::LoadCounts;
use crate::observe::recovery::Recovery;
use crate::observe::stats::{Counters, Stats};
pub(crate) use demote::{Admitted, FlashOutcome};
pub(crate) use engines::EngineId;
use engines::{Engines, call};
use label_area::LabelArea;
pub(crate) use needs::memory_bytes_needed;
use places::Places;
use recovery::Takeover;
pub(crate) use recovery::{RecoveredState, Start, examine, fuzz_snapshot};
pub(crate) use scan::FlashCursor;
use shutdown::Shutdown;

/// Guessed bytes per object, from which admission policies that remember keys derive the number of objects to expect.
const OBJECT_BYTES_GUESS: u64 = 1024;

/// The engines of a cache on one device, and everything around them.
pub(crate) struct Flash {
    device: Arc<dyn Device>,
    clock: Arc<CacheClock>,
    layout: Layout,
    engines: Engines,
    /// Records what is dead, if the content must survive a crash.
    tombstones: Option<Arc<Tombstones>>,
    /// Bytes of small objects that a close has written to regions.
    in_order_bytes: AtomicU64,
    breaker: Arc<CircuitBreaker>,
    admission: Admission,
    /// Sizes and lifetimes of the objects that came here.
    load: LoadCounts,
    soc_object_bytes_max: u32,
    opened_at: Duration,
    wear: Option<Wear>,
    placement: PlacementPlan,
    array_memory: Option<ArrayMemory>,
    /// The label, and the snapshot behind it.
    front: LabelArea,
    recovery: Recovery,
    /// How long a look-up waits for an index that an opening has left incomplete; `None`: until it is complete.
    index_wait: Option<Duration>,
    counters: Arc<Counters>,
}

/// The placement plan, and the name of the tenant in it that this cache is.
pub(crate) type Placed = (PlacementPlan, String);

impl Flash {
    /// Creates the flash side on `device`, after [`examine`]. Also returns what remains for [`Flash::recover`]. Writes
    /// nothing. Without a plan it makes its own.
    pub(crate) fn planned(
        config: &Config,
        device: Arc<dyn Device>,
        start: Start,
        placed: Option<Placed>,
        (counters, clock): (Arc<Counters>, Arc<CacheClock>),
    ) -> Result<(Self, RecoveredState), Error> {
        let Start { superblock, labeller, recovered, recovery } = start;
        let layout = superblock.layout;
        assert!(
            layout.usable_bytes <= device.info().capacity_bytes,
            "a cache lies on its device: {layout:?}"
        );
        assert!(!superblock.clean, "the label of a cache that is open vouches for no snapshot");
        clock.begin_at(superblock.second);
        let tombstones = layout.tombstones().map(|place| {
            let (device, counters) = (Arc::clone(&device), Arc::clone(&counters));
            Arc::new(Tombstones::new(
                device,
                place,
                (superblock, labeller.clone()),
                (counters, Arc::clone(&clock)),
            ))
        });
        let (placement, tenant) = placed.unwrap_or_else(|| {
            let streams = plan::streams_of(config, &layout, "");
            (plan::solve(&streams, &device.info().placement), String::new())
        });
        let told = (&placement, tenant.as_str());
        let places = Places::plan(config, device.info(), &layout, &superblock, told)?;
        let array_memory = places.array.as_ref().map(|place| place.memory);
        let breaker = Arc::new(CircuitBreaker::new(Arc::clone(&clock)));
        let engines = Engines::open(places, &device, tombstones.as_ref(), (&counters, &breaker));
        let front = {
            let (device, counters) = (Arc::clone(&device), Arc::clone(&counters));
            LabelArea::new(device, (labeller, superblock), counters)
        };
        let expected_items = layout.usable_bytes / OBJECT_BYTES_GUESS;
        let flash = Self {
            in_order_bytes: AtomicU64::new(0),
            breaker,
            admission: Admission::new(config, expected_items),
            load: LoadCounts::default(),
            soc_object_bytes_max: config.soc.max_object_bytes,
            opened_at: clock.now(),
            wear: config.endurance.map(|endurance| Wear::new(endurance, &*device, clock.now())),
            placement,
            array_memory,
            device,
            clock,
            layout,
            engines,
            tombstones,
            front,
            recovery,
            index_wait: config.flash_wait,
            counters,
        };
        Ok((flash, recovered))
    }

    /// Takes over what a clean shutdown or a crash has left, or starts empty. Marks the device as in use.
    pub(crate) async fn recover(&mut self, recovered: RecoveredState) -> Result<(), Error> {
        let mut takeover = Takeover {
            device: &*self.device,
            front: &self.front,
            engines: &mut self.engines,
            tombstones: self.tombstones.as_deref(),
            counters: &self.counters,
        };
        takeover.run(recovered).await?;
        events::opened(&self.device.info().name, &self.recovery());
        Ok(())
    }

    /// Writes what a clean restart needs. Work that would take longer than `stop` allows is left out and counted. No
    /// write may follow.
    pub(crate) async fn close(&self, stop: Stop<'_>) -> Result<(), Error> {
        let shutdown = Shutdown {
            front: &self.front,
            engines: &self.engines,
            tombstones: self.tombstones.as_deref(),
            counters: &self.counters,
            clock: &self.clock,
            stop,
        };
        shutdown.run().await
    }

    /// Whether the next opening could recover the cache if it crashed now.
    pub(crate) fn is_crash_safe(&self) -> bool {
        self.tombstones.as_ref().is_some_and(|tombstones| tombstones.is_trusted())
    }

    /// Completes the indexes and filters that an opening has left incomplete, until `stop` returns true. Returns the
    /// number of regions and buckets that were read.
    pub(crate) async fn rebuild(&self, stop: Stop<'_>) -> u64 {
        let mut looked_at = 0;
        // Objects first: the learning step only makes misses cheaper.
        for any in self.engines.iter() {
            looked_at += call!(any, index_until(stop).await);
        }
        for any in self.engines.iter() {
            looked_at += call!(any, learn_until(stop).await);
        }
        looked_at
    }

    /// Completes all indexes that an opening has left incomplete.
    pub(crate) async fn index_all(&self) {
        for any in self.engines.iter() {
            call!(any, index_until(&|| false).await);
        }
    }

    /// Helps a little to find what a crash has left. Called by requests that found nothing.
    pub(crate) async fn index_a_little(&self) {
        for any in self.engines.iter() {
            call!(any, index_a_little().await);
        }
    }

    /// Whether an object that a clean shutdown has left may still be missing from an index.
    pub(crate) fn is_behind(&self) -> bool {
        matches!(self.recovery, Recovery::Clean { .. }) && !self.is_indexed()
    }

    /// Whether the indexes know everything on flash.
    pub(crate) fn is_indexed(&self) -> bool {
        self.engines.iter().all(|any| call!(any, is_indexed()))
    }

    /// After a miss: waits for the index if it still lacks objects that a clean shutdown has left; otherwise helps it a
    /// little. Returns whether this hash is worth another look-up.
    pub(super) async fn is_found_meanwhile(&self, hash: KeyHash) -> bool {
        if !self.is_behind() {
            self.index_a_little().await;
            return false;
        }
        self.index_until_known(hash).await;
        self.may_hold(hash)
    }

    /// Helps to complete the indexes until one of them knows this hash or all are complete, for at most the time that
    /// flash may take to answer ([`Config::flash_wait`]).
    pub(crate) async fn index_until_known(&self, hash: KeyHash) {
        let until = self.index_wait.map(|wait| self.clock.monotonic().saturating_add(wait));
        let mut has_more = !self.is_indexed();
        while has_more && until.is_none_or(|until| self.clock.monotonic() < until) {
            has_more = false;
            for any in self.engines.iter().filter(|any| !call!(any, is_indexed())) {
                if call!(any, may_hold(hash)) {
                    return;
                }
                has_more |= call!(any, index_in_turn().await);
            }
        }
    }

    /// Adds the statistics of the engines.
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        self.engines.iter().for_each(|any| call!(any, add_to(stats)));
        stats.flash_memory_bytes = self.memory_bytes();
        stats.tombstone_bytes = self.tombstone_bytes();
        stats.admission_memory_bytes = self.admission_memory_bytes();
        stats.drive_life = self.drive_life(self.clock.now());
        stats.crash_safe = u64::from(self.is_crash_safe());
        let device = self.device.stats();
        let avoided_since_s = self.avoided_since_s(device.stalled_ms);
        stats.flash_delayed_requests = device.delayed_requests;
        stats.flash_delayed_ns = device.delayed_ns;
        stats.flash_avoided = u64::from(avoided_since_s.is_some());
        stats.flash_avoided_since_seconds = avoided_since_s.unwrap_or(0);
    }

    /// Since when (in seconds) the cache sends no writes, or nothing at all, because the device fails or does not
    /// answer.
    fn avoided_since_s(&self, stalled_ms: u64) -> Option<u64> {
        let stalled_since =
            (stalled_ms > 0).then(|| self.clock.now().as_secs().saturating_sub(stalled_ms / 1000));
        let open_since = self.breaker.open_since_s().map(u64::from);
        // 0 means never.
        [stalled_since, open_since].into_iter().flatten().min().map(|since| since.max(1))
    }

    /// Current epoch. It grows with each opening and each clear.
    pub(crate) fn epoch(&self) -> u64 {
        self.front.superblock().epoch
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn placement(&self) -> &PlacementPlan {
        &self.placement
    }

    /// Memory of the array, if there is one.
    pub(crate) fn array_memory(&self) -> Option<ArrayMemory> {
        self.array_memory
    }

    /// Current state of recovery.
    pub(crate) fn recovery(&self) -> Recovery {
        let found = self.engines.iter().map(|any| call!(any, found_again()));
        let found = found.fold(FoundAgain::default(), FoundAgain::plus);
        match &self.recovery {
            Recovery::Crashed { .. } => {
                Recovery::Crashed { large_objects: found.objects, regions_left: found.regions_left }
            }
            Recovery::Clean { .. } => Recovery::Clean { large_objects: found.objects },
            Recovery::Fresh | Recovery::Discarded { .. } => self.recovery.clone(),
        }
    }

    /// Regions of all engines that have regions.
    pub(crate) fn regions(&self) -> Vec<FlashRegion> {
        self.engines.iter().flat_map(|any| call!(any, regions())).collect()
    }

    /// Whether some engine can hold an object of this size.
    pub(crate) fn takes(&self, item: &ItemRef<'_>) -> bool {
        self.engines.for_item(item).is_some()
    }

    /// Longest object that flash can hold, key and value, in bytes. It is shorter for a key that leaves less than 24
    /// bytes of room in a region.
    pub(crate) fn object_bytes_max(&self) -> usize {
        let longest = self.engines.iter().map(|any| call!(any, object_bytes_max()));
        longest.max().unwrap_or(0)
    }

    /// Looks `key` up. Also returns the tier that had it.
    pub(crate) async fn get(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(FlashItem, Tier)> {
        let found = self.get_known(hash, key, now_s).await;
        if found.is_some() || !self.is_found_meanwhile(hash).await {
            return found;
        }
        self.get_known(hash, key, now_s).await
    }

    /// The same, as far as the indexes know now.
    async fn get_known(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<(FlashItem, Tier)> {
        for any in self.engines.iter() {
            if let Some(item) = call!(any, get(hash, key, now_s).await) {
                return Some((item, call!(any, tier())));
            }
        }
        None
    }

    /// Looks `key` up. Of a value in parts, reads only the list of its parts. Also returns the engine that had it.
    pub(crate) async fn look_up(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(LongLookup, EngineId, Tier)> {
        let found = self.look_up_known(hash, key, now_s).await;
        if found.is_some() || !self.is_found_meanwhile(hash).await {
            return found;
        }
        self.look_up_known(hash, key, now_s).await
    }

    /// The same, as far as the indexes know now.
    async fn look_up_known(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(LongLookup, EngineId, Tier)> {
        for (engine, any) in self.engines.named() {
            if let Some(found) = call!(any, look_up(hash, key, now_s).await) {
                return Some((found, engine, call!(any, tier())));
            }
        }
        None
    }

    /// The next part of a value that [`Flash::look_up`] has found; `None` after the last one.
    ///
    /// # Errors
    /// If the part is not there.
    pub(crate) async fn next_part(
        &self,
        engine: EngineId,
        parts: &mut Parts,
    ) -> Result<Option<FlashItem>, Lack> {
        call!(self.engines.get(engine), next_part(parts).await)
    }

    /// Whether a look-up of this hash may find an object, once the content that an opening has left is indexed.
    pub(crate) fn may_answer(&self, hash: KeyHash) -> bool {
        self.may_hold(hash) || self.is_behind()
    }

    /// Whether flash may hold a key of this hash. Costs no I/O; "no" is certain.
    pub(crate) fn may_hold(&self, hash: KeyHash) -> bool {
        self.engines.iter().any(|any| call!(any, may_hold(hash)))
    }

    /// The tier that has an object of this hash, as far as can be told without I/O; otherwise that of the last engine.
    pub(crate) fn tier_of(&self, hash: KeyHash) -> Option<Tier> {
        let mut engines = self.engines.iter();
        let holder = engines.find(|any| call!(any, may_hold(hash)));
        holder.or_else(|| self.engines.iter().next_back()).map(|any| call!(any, tier()))
    }

    /// Tells admission that this key was requested.
    pub(crate) fn asked(&self, hash: KeyHash) {
        self.admission.asked(hash);
    }

    /// The flash and its load, for advice; what a cache counts itself is not in it.
    #[allow(clippy::cast_precision_loss)] // sizes of drives, far below 2^53
    pub(crate) fn situation(&self) -> Situation {
        let small = self.layout.soc_bytes();
        Situation {
            flash_bytes: self.layout.usable_bytes,
            soc_percent: small as f64 * 100.0 / self.layout.usable_bytes.max(1) as f64,
            soc_layout: changes::soc_layout(&self.layout),
            soc_max_object_bytes: self.soc_object_bytes_max.into(),
            load: self.load.load(),
            seconds: self.clock.now().saturating_sub(self.opened_at).as_secs(),
            ..Situation::default()
        }
    }

    /// Replaces the admission policy.
    pub(crate) fn set_admission(&self, policy: AdmissionPolicy) {
        self.admission.replace(policy);
    }

    /// Bytes of memory for the keys that admission remembers.
    pub(crate) fn admission_memory_bytes(&self) -> u64 {
        self.admission.memory_bytes()
    }

    /// The device below.
    pub(crate) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Forecast of the drive's remaining life, if its rating is known.
    pub(crate) fn drive_life(&self, now: Duration) -> Option<DriveLife> {
        Some(self.wear.as_ref()?.forecast(&*self.device, now))
    }

    /// Bytes of memory that flash uses now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes_with(|memory| memory.buffer_bytes)
    }

    /// Bytes of memory to reserve for flash. Includes the buffers that regions need only at times: these are allocated
    /// faster than other parts of the cache could free memory for them.
    pub(crate) fn memory_bytes_to_keep(&self) -> u64 {
        self.memory_bytes_with(|memory| memory.buffer_bytes_max)
    }

    fn memory_bytes_with(&self, buffers: impl Fn(Memory) -> u64) -> u64 {
        let memory = self.engines.iter().map(|any| call!(any, memory()));
        let engines: u64 = memory.map(|memory| memory.index_bytes + buffers(memory)).sum();
        engines + self.tombstone_bytes() + self.admission_memory_bytes()
    }

    /// Bytes of memory for tombstones.
    fn tombstone_bytes(&self) -> u64 {
        self.tombstones.as_ref().map_or(0, |tombstones| tombstones.memory_bytes())
    }

    /// Maximum number of equal parts, a power of two, into which a scan can divide the hash space.
    pub(crate) fn scan_parts_max(&self) -> usize {
        let most = self.engines.iter().map(|any| call!(any, scan_parts_max()));
        most.min().unwrap_or(usize::MAX)
    }

    /// Approximate number of objects.
    pub(crate) fn estimated_len(&self) -> u64 {
        self.engines.iter().map(|any| call!(any, estimated_len())).sum()
    }

    /// Starts a scan over the objects with these hashes. It may visit other objects too.
    pub(crate) fn scan(&self, hashes: &RangeInclusive<u64>) -> FlashCursor {
        FlashCursor::over(&self.engines, hashes)
    }

    /// The tier that the next step scans. `None` at the end.
    pub(crate) fn scans(&self, cursor: &FlashCursor) -> Option<Tier> {
        cursor.tier(&self.engines)
    }

    /// Continues the scan. Returns the results of `judge` for the next few objects. `None` at the end.
    pub(crate) async fn scan_on<T>(
        &self,
        cursor: &mut FlashCursor,
        judge: Judge<'_, T>,
    ) -> Option<Vec<T>> {
        cursor.go_on(&self.engines, judge).await
    }
}
