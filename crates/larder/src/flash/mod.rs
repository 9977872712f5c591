//! The flash side of the cache: which engine an object belongs to, admission, and what survives a
//! restart.

mod changes;
mod clear;
mod close;
mod dead_keys;
mod layout;
mod memory;
mod metadata;
mod persist;
mod places;
mod recovery;
mod shutdown;
mod unit;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_device::Device;

use crate::admission::{Admission, Candidate};
use crate::breaker::CircuitBreaker;
use crate::cache::Tiers;
use crate::config::Config;
use crate::endurance::{self, DriveLife, Wear};
use crate::error::Error;
use crate::events;
use crate::key::KeyHash;
use crate::layout::Layout;
use crate::loc::long::{has_room_for_head, long_object_bytes_max};
use crate::loc::{Loc, object_bytes_max};
use crate::plan::{self, PlacementPlan};
use crate::recovery::Recovery;
use crate::removal::RemovalReason;
use crate::soc::Soc;
use crate::stats::Counters;
use crate::tier::Tier;
use crate::time::CacheClock;
use crate::tombstones::Tombstones;
use crate::value::{Fetched, ItemRef};
pub(crate) use close::Admitted;
pub(crate) use metadata::{
    SNAPSHOT_VERSION, SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, Superblock,
    VERSION as SUPERBLOCK_VERSION, is_blank_or_ours,
};
pub(crate) use persist::Sent;
use places::Places;
pub(crate) use recovery::{Start, examine, fuzz_snapshot};

/// Objects of flash that the policies with a memory of keys expect, for want of knowledge: bytes per object.
const OBJECT_BYTES_GUESS: u64 = 1024;

/// Both engines on one device.
pub(crate) struct Flash {
    device: Arc<dyn Device>,
    clock: Arc<CacheClock>,
    layout: Layout,
    soc: Option<Soc>,
    loc: Option<Loc>,
    /// Where what is dead is written down, if that shall outlive a crash.
    tombstones: Option<Arc<Tombstones>>,
    soc_max_object_bytes: usize,
    /// Of values in parts too.
    loc_max_object_bytes: usize,
    /// See [`Config::eager_index_objects`].
    eager_index_objects: u64,
    /// Bytes of small objects that a close has written to regions.
    in_order_bytes: AtomicU64,
    breaker: Arc<CircuitBreaker>,
    admission: Admission,
    wear: Option<Wear>,
    placement: PlacementPlan,
    /// As it was written last.
    superblock: Mutex<Superblock>,
    recovery: Recovery,
    counters: Arc<Counters>,
}

/// What a cache is told of its placement: the plan, and which of its tenants it is.
pub(crate) type Placed = (PlacementPlan, String);

/// Which engine holds or should hold an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Soc,
    Loc,
}

impl Engine {
    pub(crate) fn tier(self) -> Tier {
        match self {
            Self::Soc => Tier::SmallObjects,
            Self::Loc => Tier::LargeObjects,
        }
    }
}

impl Flash {
    /// Opens the cache on `device`, which [`examine`] has seen: takes over what a clean shutdown
    /// left, or starts empty. Without a plan it makes one for itself.
    pub(crate) async fn open(
        config: &Config,
        device: Arc<dyn Device>,
        start: Start,
        placed: Option<Placed>,
        (counters, clock): (Arc<Counters>, Arc<CacheClock>),
    ) -> Result<Self, Error> {
        let superblock = start.superblock;
        let layout = superblock.layout;
        clock.begin_at(superblock.second);
        let tombstones = layout.tombstones().map(|place| {
            let (device, counters) = (Arc::clone(&device), Arc::clone(&counters));
            Arc::new(Tombstones::new(device, place, superblock, (counters, Arc::clone(&clock))))
        });
        let (placement, tenant) = placed.unwrap_or_else(|| {
            let streams = plan::streams_of(config, &layout, "");
            (plan::solve(&streams, &device.info().placement), String::new())
        });
        let told = (&placement, tenant.as_str());
        let places = Places::plan(config, device.info(), &layout, &superblock, told)?;
        let breaker = Arc::new(CircuitBreaker::new(Arc::clone(&clock)));
        let loc = places.loc.map(|place| {
            let shared = (Arc::clone(&counters), Arc::clone(&breaker));
            Loc::new(Arc::clone(&device), place, tombstones.clone(), shared)
        });
        let soc = places.soc.map(|place| {
            let shared = (Arc::clone(&counters), Arc::clone(&breaker));
            Soc::new(Arc::clone(&device), place, places.soc_log, tombstones.clone(), shared)
        });
        let expected_items = layout.usable_bytes / OBJECT_BYTES_GUESS;
        let mut flash = Self {
            soc_max_object_bytes: config.soc_max_object_bytes as usize,
            loc_max_object_bytes: long_object_bytes_max(layout.loc_regions, layout.region_bytes),
            eager_index_objects: config.eager_index_objects,
            in_order_bytes: AtomicU64::new(0),
            breaker,
            admission: Admission::new(config, expected_items),
            wear: config.endurance.map(|endurance| Wear::new(endurance, &*device, clock.now())),
            placement,
            device,
            clock,
            layout,
            soc,
            loc,
            tombstones,
            superblock: Mutex::new(superblock),
            recovery: start.recovery,
            counters,
        };
        flash.recover(start.heritage).await?;
        events::opened(&flash.device.info().name, &flash.recovery());
        Ok(flash)
    }

    pub(crate) fn soc(&self) -> Option<&Soc> {
        self.soc.as_ref()
    }

    pub(crate) fn loc(&self) -> Option<&Loc> {
        self.loc.as_ref()
    }

    /// Objects that the large-object engine holds.
    pub(crate) fn large_objects(&self) -> u64 {
        self.loc.as_ref().map_or(0, |loc| loc.len() as u64)
    }

    /// Memory of its index.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.loc.as_ref().map_or(0, |loc| loc.index_bytes() as u64)
    }

    /// Memory of what the small-object engine knows of its buckets.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.soc.as_ref().map_or(0, |soc| soc.memory_bytes())
    }

    /// Whether a crash now would leave a cache that can be taken over.
    pub(crate) fn is_crash_safe(&self) -> bool {
        self.tombstones.as_ref().is_some_and(|tombstones| tombstones.is_trusted())
    }

    /// Learns what an opening has left unknown, unless it is to `stop`. Returns the number of regions and
    /// buckets.
    pub(crate) async fn rebuild(&self, stop: &(dyn Fn() -> bool + Sync)) -> u64 {
        let regions = match &self.loc {
            Some(loc) => loc.index_until(stop).await,
            None => 0,
        };
        match &self.soc {
            Some(soc) => regions + soc.learn_until(stop).await,
            None => regions,
        }
    }

    /// Brings all large objects to the index that a crash has left. Returns the number of regions.
    pub(crate) async fn index_all(&self) -> u64 {
        match &self.loc {
            Some(loc) => loc.index_all().await,
            None => 0,
        }
    }

    /// Somebody who found nothing helps to find what a crash has left.
    pub(crate) async fn index_a_little(&self) {
        if let Some(loc) = &self.loc {
            loc.index_a_little().await;
        }
    }

    /// Regions of large objects of which nothing is known yet.
    pub(crate) fn unindexed_regions(&self) -> u32 {
        self.loc.as_ref().map_or(0, Loc::unindexed_regions)
    }

    /// Objects in the log of the small-object engine, and memory of its index.
    pub(crate) fn soc_log(&self) -> (u64, u64) {
        self.soc.as_ref().map_or((0, 0), |soc| (soc.log_objects(), soc.log_index_bytes()))
    }

    /// Grows with every opening, and with every clear.
    pub(crate) fn epoch(&self) -> u64 {
        self.superblock().epoch
    }

    fn superblock(&self) -> Superblock {
        *self.superblock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn placement(&self) -> &PlacementPlan {
        &self.placement
    }

    /// As it stands now.
    pub(crate) fn recovery(&self) -> Recovery {
        match (&self.recovery, &self.loc) {
            (Recovery::Crashed { .. }, Some(loc)) => Recovery::Crashed {
                large_objects: loc.found_objects(),
                regions_left: loc.unindexed_regions(),
            },
            (Recovery::Clean { .. }, Some(loc)) => {
                Recovery::Clean { large_objects: loc.found_objects() }
            }
            (recovery, _) => recovery.clone(),
        }
    }

    /// The engine for an object of this size. `None` if neither can hold it.
    pub(crate) fn engine_for(&self, item: &ItemRef<'_>) -> Option<Engine> {
        let object_bytes = item.object_bytes();
        if self.soc.is_some() && object_bytes <= self.soc_max_object_bytes {
            return Some(Engine::Soc);
        }
        let region_bytes = self.layout.region_bytes;
        let fits = object_bytes <= object_bytes_max(region_bytes)
            || object_bytes <= self.loc_max_object_bytes
                && has_room_for_head(item.key.len(), region_bytes);
        (self.loc.is_some() && fits).then_some(Engine::Loc)
    }

    /// Longest object that flash can hold, key and value. A key that leaves a region no room for 24
    /// bytes more makes it shorter.
    pub(crate) fn object_bytes_max(&self) -> usize {
        self.layout.object_bytes_max(self.soc_max_object_bytes)
    }

    /// Looks `key` up.
    pub(crate) async fn get(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Option<(Fetched, Engine)> {
        if let Some(loc) = &self.loc
            && let Some(item) = loc.get(hash, key, now_s).await
        {
            return Some((item, Engine::Loc));
        }
        let found = match &self.soc {
            Some(soc) => soc.get(hash, key, now_s).await,
            None => None,
        };
        if found.is_none() {
            self.index_a_little().await;
        }
        Some((found?, Engine::Soc))
    }

    /// Whatever flash holds of this hash is older than what the caller is about to do: it must not
    /// come back after a crash. The caller holds the key's lock.
    ///
    /// Without tombstones there is nothing to do: DRAM hides what flash holds, and a crash empties
    /// flash.
    ///
    /// # Errors
    /// If that cannot be written down. Then it comes back if there is a crash before something can.
    pub(crate) async fn outdate(&self, hash: KeyHash) -> Result<(), Error> {
        let Some(tombstones) = &self.tombstones else { return Ok(()) };
        // First: from here on no object of this hash comes to the index from an earlier life. If one
        // is there already, it is buried next.
        let mut receipt = self.loc.as_ref().and_then(|loc| loc.bury_unindexed(hash));
        let mut buried = match &self.loc {
            Some(loc) => loc.bury(hash).await?,
            None => false,
        };
        if let Some(soc) = &self.soc {
            soc.outdate_in_log(hash).await;
            // Also if it is dead already: its tombstone may still be on its way.
            if soc.is_listed(hash) {
                receipt = Some(tombstones.bury_key(hash.0));
            }
        }
        if let Some(receipt) = receipt {
            tombstones.commit(receipt).await?;
            buried = true;
        }
        if buried {
            self.work_off(tombstones, hash).await
        } else {
            tombstones.settle_debt().await?
        }
        Ok(())
    }

    /// Whoever adds a tombstone helps to do without others, where there are too many.
    async fn work_off(&self, tombstones: &Tombstones, hash: KeyHash) {
        if let (Some(soc), Some(dead)) = (&self.soc, tombstones.key_to_work_off(hash.0)) {
            soc.work_off(dead).await;
        }
        if let (Some(loc), Some(region)) = (&self.loc, tombstones.region_to_give_up()) {
            loc.give_up_region(region).await;
        }
        self.index_a_little().await;
    }

    /// As [`Flash::remove`], for who does not ask whether there was a version: nobody reads flash to
    /// find out.
    pub(crate) async fn forget(&self, hash: KeyHash, key: &[u8], now_s: u32) {
        // With tombstones there is nothing left to remove: who made the item saw to that. If it could
        // not be written down then, it is owed, and he was told.
        if self.tombstones.is_some() {
            let _ = self.outdate(hash).await;
        } else {
            let _ = self.remove(hash, key, now_s).await;
        }
    }

    /// Makes sure that no version of `key` is on flash. Says whether there was one; of a large object
    /// it is not known whether it had expired. The caller holds the key's lock.
    ///
    /// # Errors
    /// As [`Flash::outdate`].
    pub(crate) async fn remove(
        &self,
        hash: KeyHash,
        key: &[u8],
        now_s: u32,
    ) -> Result<bool, Error> {
        if self.tombstones.is_some() {
            let in_loc = self.loc.as_ref().is_some_and(|loc| loc.holds(hash));
            let in_soc = match &self.soc {
                Some(soc) if !in_loc => soc.get(hash, key, now_s).await.is_some(),
                _ => false,
            };
            self.outdate(hash).await?;
            return Ok(in_loc || in_soc);
        }
        let in_loc = self.loc.as_ref().is_some_and(|loc| loc.remove(hash));
        let in_soc = match &self.soc {
            Some(soc) => soc.remove(hash, key, now_s).await,
            None => false,
        };
        Ok(in_loc || in_soc)
    }

    /// Takes an item that DRAM has evicted. Afterwards flash holds this version of its key or none.
    /// The caller holds the key's lock.
    pub(crate) async fn settle(&self, item: &ItemRef<'_>, now_s: u32) {
        self.settle_together(std::slice::from_ref(item), now_s).await;
    }

    /// Takes items that DRAM has evicted, all of one bucket, with one write of it. As [`Flash::settle`]: the
    /// caller holds the locks of all their keys.
    pub(crate) async fn settle_together(&self, items: &[ItemRef<'_>], now_s: u32) {
        let mut small = Vec::with_capacity(items.len());
        for item in items {
            if item.clean && self.may_hold(item.hash) {
                self.counters.evicted_clean_objects.add(1);
                self.move_to_engine(item, now_s).await;
                continue;
            }
            match self.admit(item, now_s) {
                Ok(Engine::Soc) if self.breaker.allows() => small.push(*item),
                admitted => self.deliver(item, admitted, now_s).await,
            }
        }
        let Some(soc) = self.soc.as_ref().filter(|_| !small.is_empty()) else { return };
        for item in self.store_small(soc, &small, now_s).await {
            self.forget(item.hash, item.key, now_s).await;
        }
    }

    /// Writes items of one bucket there and takes older versions out of the regions. Returns those that are
    /// not stored.
    async fn store_small<'i, 'a>(
        &self,
        soc: &Soc,
        items: &'i [ItemRef<'a>],
        now_s: u32,
    ) -> Vec<&'i ItemRef<'a>> {
        if let (Some(loc), None) = (&self.loc, &self.tombstones) {
            items.iter().for_each(|item| _ = loc.remove(item.hash));
        }
        soc.set_together(items, now_s).await
    }

    /// The bucket of an item that goes to one.
    pub(crate) fn bucket_for(&self, item: &ItemRef<'_>) -> Option<u64> {
        let soc = self.soc.as_ref()?;
        (self.engine_for(item) == Some(Engine::Soc)).then(|| soc.bucket_of(item.hash))
    }

    /// Stores an item that was admitted, or forgets what flash has of its key.
    async fn deliver(
        &self,
        item: &ItemRef<'_>,
        admitted: Result<Engine, RemovalReason>,
        now_s: u32,
    ) {
        let stored = match admitted {
            Ok(engine) => self.store(item, engine, now_s).await,
            Err(reason) => Err(Some(reason)),
        };
        if let Err(reason) = stored {
            // Of what engines lose they tell themselves.
            if let Some(reason) = reason {
                let removals = &self.counters.removals;
                removals.key(reason, Tier::Dram, item.key, item.object_bytes());
            }
            self.forget(item.hash, item.key, now_s).await;
        }
    }

    /// Whether flash may hold a key of this hash. Costs no I/O; "no" is certain.
    pub(crate) fn may_hold(&self, hash: KeyHash) -> bool {
        self.loc.as_ref().is_some_and(|loc| loc.holds(hash))
            || self.soc.as_ref().is_some_and(|soc| soc.may_hold(hash))
    }

    /// Decides whether `item` is worth a write, and counts why not.
    fn admit(&self, item: &ItemRef<'_>, now_s: u32) -> Result<Engine, RemovalReason> {
        let counters = &self.counters;
        if item.is_expired(now_s) {
            counters.expired.add(1);
            return Err(RemovalReason::Expired);
        }
        if item.tiers == Tiers::DramOnly {
            counters.dram_evicted_objects.add(1);
            return Err(RemovalReason::Evicted);
        }
        let Some(engine) = self.engine_for(item) else {
            counters.rejected_too_large_objects.add(1);
            return Err(RemovalReason::RejectedTooLarge);
        };
        let object_bytes = item.object_bytes() as u64;
        let candidate = Candidate { hash: item.hash, object_bytes, now_s };
        let written = || endurance::written_bytes(&*self.device);
        let admitted = self.admission.admits(candidate, counters, written);
        if admitted { Ok(engine) } else { Err(RemovalReason::RejectedByAdmission) }
    }

    /// Somebody asked for this key.
    pub(crate) fn asked(&self, hash: KeyHash) {
        self.admission.asked(hash);
    }

    /// Memory of what admission remembers of keys.
    pub(crate) fn admission_memory_bytes(&self) -> u64 {
        self.admission.memory_bytes()
    }

    /// The device below.
    pub(crate) fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// How long the drive lasts, if its rating is known.
    pub(crate) fn drive_life(&self, now: Duration) -> Option<DriveLife> {
        Some(self.wear.as_ref()?.forecast(&*self.device, now))
    }

    /// Writes `item` to its engine and takes older versions out of the other one. Where there are
    /// tombstones, there are none: who made the item saw to that. If it is not stored, says why, unless
    /// an engine has told that already.
    async fn store(
        &self,
        item: &ItemRef<'_>,
        engine: Engine,
        now_s: u32,
    ) -> Result<(), Option<RemovalReason>> {
        if !self.breaker.allows() {
            self.counters.rejected_in_outage_objects.add(1);
            return Err(Some(RemovalReason::RejectedInOutage));
        }
        let stored = match (engine, &self.soc, &self.loc) {
            (Engine::Soc, Some(soc), _) => {
                self.store_small(soc, std::slice::from_ref(item), now_s).await.is_empty()
            }
            (Engine::Loc, soc, Some(loc)) => {
                if let (Some(soc), None) = (soc, &self.tombstones) {
                    soc.remove(item.hash, item.key, now_s).await;
                }
                loc.set(item, now_s).await
            }
            _ => false,
        };
        if stored { Ok(()) } else { Err(None) }
    }
}
