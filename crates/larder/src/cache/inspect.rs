//! Inspection: statistics, content and memory of the cache, and maintenance while it runs.

use std::sync::Arc;
use std::time::Duration;

use larder_device::PlacementHandle;
use larder_device::nvme::{DriveReport, HandleEvents};
use larder_device::plan::Assignment;

use super::lending::Borrower;
use super::pages::{self, EstimatedItems, ScanPage};
use super::streams::StreamReport;
use super::{Allotment, Larder, Scan};
use crate::advice::Situation;
use crate::base::error::Error;
use crate::base::layout::Layout;
use crate::base::removal::RemovalListener;
use crate::base::time::Moment;
use crate::config::{AdmissionPolicy, DRAM_BYTES_MAX, DRAM_BYTES_MIN};
use crate::engine::array::memory::ArrayMemory;
use crate::engine::flash_region::FlashRegion;
use crate::flash::Flash;
use crate::flash::plan::PlacementPlan;
use crate::observe::recovery::Recovery;
use crate::observe::stats::Stats;

impl Larder {
    /// Whether a look-up of `key` may find it. `false` is certain, once the index of flash is complete.
    pub(crate) fn may_hold(&self, key: &[u8]) -> bool {
        let hash = self.hasher.hash(key);
        let on_flash = |flash: &Flash| flash.may_answer(hash) || !flash.is_indexed();
        self.core.dram.holds(hash) || self.core.flash.as_deref().is_some_and(on_flash)
    }

    /// After a crash, or after a clean shutdown of a cache with many large objects
    /// ([`LocConfig::eager_index_objects`](crate::LocConfig::eager_index_objects)): indexes the regions of large
    /// objects that are not indexed yet, so that their objects are found. After a crash it then reads the
    /// small-object buckets, so that their filters can answer misses.
    ///
    /// Answers are correct without it. After a clean shutdown a call that would be a miss waits until all is indexed,
    /// for at most [`Config::flash_wait`](crate::Config::flash_wait), and helps. After a crash objects in other
    /// regions are misses, and only operations that depend on whether a key exists (`add`, `replace`, changes of a
    /// value) wait; and a miss may read a bucket for nothing.
    ///
    /// Run it next to the cache's other work, on a thread or task of its own, as `larder serve` does. Without it,
    /// calls that miss or change something index one region each. Two threads that call it share the work and take
    /// half the time for the regions. The future may be dropped at any time; the next call continues. Returns the
    /// number of regions and buckets that it read: 0 if everything is known. [`Stats::loc_unindexed_regions`] and
    /// [`Larder::recovery`] report the progress. Regions are left over only if the device fails, or if the cache is
    /// cleared or closed during the call, which does not wait for it. On a closed cache it does nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::{Config, Larder, RealClock, block_on};
    ///
    /// let config = Config { dram_bytes: 1 << 20, ..Config::default() };
    /// let cache = Arc::new(block_on(Larder::open(config, None, Arc::new(RealClock)))?);
    /// let beside = Arc::clone(&cache);
    /// let rebuilding = std::thread::spawn(move || block_on(beside.rebuild()));
    /// assert_eq!(rebuilding.join().unwrap(), 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn rebuild(&self) -> u64 {
        let (Some(flash), Ok(inside)) = (&self.core.flash, self.core.enter().await) else {
            return 0;
        };
        let looked_at = flash.rebuild(&|| self.core.gate.is_wanted()).await;
        self.core.leave(inside);
        looked_at
    }

    /// Bytes of the device that the cache does not use: those that [`Config::utilization_percent`] leaves, and those
    /// by which the device has grown since the cache was made. With [`OnChange::Discard`] the next opening uses the
    /// latter too, but drops the content. 0 without flash.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert_eq!(cache.unused_bytes(), 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`Config::utilization_percent`]: crate::Config::utilization_percent
    /// [`OnChange::Discard`]: crate::OnChange::Discard
    pub fn unused_bytes(&self) -> u64 {
        self.core
            .flash
            .as_deref()
            .map_or(0, |flash| flash.device().info().capacity_bytes - flash.layout().usable_bytes)
    }

    /// Counters since the cache was opened.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.get(b"bread"))?;
    /// assert_eq!((cache.stats().gets, cache.stats().hits()), (1, 0));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        let drives = self.drives();
        let placement_active = self.places();
        let mut stats = Stats {
            placement_active: u64::from(placement_active),
            placement_path: self.placement_path(),
            drives,
            latencies: self.stopwatch.latencies(),
            copied_values: self.core.dram.copied_values(),
            dram_items: self.core.dram.len() as u64,
            dram_used_bytes: self.core.dram.used_bytes(),
            demoting_bytes: self.core.dram.demotions().bytes() as u64,
            compromised_streams: self.placement().compromised_streams(),
            ..self.core.counters.snapshot()
        };
        if let Some(flash) = &self.core.flash {
            flash.add_to(&mut stats);
        }
        stats
    }

    fn placement_path(&self) -> &'static str {
        match &self.core.flash {
            Some(flash) if self.places() => flash.device().info().placement.path,
            Some(_) => "none",
            None => "",
        }
    }

    /// Each write stream: its placement handle, the bytes written with it, and what drives report about it. Empty
    /// without flash. [`HandleReport::of_all`](crate::HandleReport::of_all) has the events of several caches on a
    /// drive, each once.
    ///
    /// ```
    /// # use larder::Larder;
    /// let cache = Larder::in_memory(1 << 20)?;
    /// assert!(cache.stream_reports().is_empty());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn stream_reports(&self) -> Vec<StreamReport> {
        let Some(flash) = &self.core.flash else { return Vec::new() };
        let (stats, path) = (flash.device().stats(), self.placement_path());
        let report = |assignment: &Assignment| {
            let handle = assignment.handle;
            let mut events = HandleEvents { handle: Some(handle), ..HandleEvents::default() };
            let of_drives = stats.drives.iter().flat_map(|drive| &drive.handles);
            of_drives.filter(|it| it.handle == Some(handle)).for_each(|it| events.add(it));
            let by_handle = &stats.host_written_bytes_by_handle;
            let handle_written_bytes = by_handle.get(usize::from(handle.index())).copied();
            StreamReport { assignment: assignment.clone(), path, handle_written_bytes, events }
        };
        flash.placement().streams().iter().map(report).collect()
    }

    /// The reports of the drives. Also attributes the data that they have moved to an owner.
    pub(crate) fn drives(&self) -> Vec<Arc<DriveReport>> {
        let Some(flash) = &self.core.flash else { return Vec::new() };
        let drives = flash.device().stats().drives;
        self.core.counters.own_moves(&drives, flash.layout());
        drives
    }

    /// Whether a stream has a placement handle of its own.
    fn places(&self) -> bool {
        let streams = self.placement().streams();
        streams.iter().any(|stream| stream.handle != PlacementHandle::DEFAULT)
    }

    /// The placement handle of each write stream, with the reason. Empty without flash. Prints as a table.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(cache.placement().streams().is_empty());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn placement(&self) -> &PlacementPlan {
        self.core.flash.as_deref().map_or(PlacementPlan::NONE, Flash::placement)
    }

    /// The load of flash since the opening, and what it costs, for [`advise`](crate::advice::advise). `None` without
    /// flash.
    ///
    /// ```
    /// # use larder::{Larder, advice};
    /// # let cache = Larder::in_memory(1 << 20)?;
    /// let advised = cache.situation().and_then(|situation| advice::advise(&situation));
    /// assert!(advised.is_none(), "there is no flash");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn situation(&self) -> Option<Situation> {
        let flash = self.core.flash.as_deref()?;
        let stats = self.stats();
        Some(Situation {
            memory_bytes: self.memory_limit_bytes(),
            admitted_objects: stats.admitted_objects,
            written_bytes: stats.flash_written_bytes(),
            soc_written_bytes: stats.soc_written_bytes + stats.soc_log_written_bytes,
            flash_hits: stats.soc_hits + stats.loc_hits + stats.array_hits,
            ..flash.situation()
        })
    }

    /// The layout of the device. `None` without flash.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(cache.layout().is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn layout(&self) -> Option<&Layout> {
        self.core.flash.as_deref().map(Flash::layout)
    }

    /// The memory that the array engine uses, by item. `None` without the engine.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert_eq!(cache.array_memory(), None);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn array_memory(&self) -> Option<ArrayMemory> {
        self.core.flash.as_deref().and_then(Flash::array_memory)
    }

    /// The regions of the engines for large objects, by their numbers: their data, placement handle and age. Empty
    /// without flash, and without such an engine. It holds the lock for appending objects while it copies a few bytes
    /// per region: call it for people, not for every request.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(cache.flash_regions().is_empty());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn flash_regions(&self) -> Vec<FlashRegion> {
        self.core.flash.as_deref().map_or_else(Vec::new, Flash::regions)
    }

    /// What the opening found; after a crash, what is recovered so far. `None` without flash.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// assert!(cache.recovery().is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn recovery(&self) -> Option<Recovery> {
        self.core.flash.as_deref().map(Flash::recovery)
    }

    /// The cache's time, by which values expire: its [`Clock`](crate::Clock), made monotonic even if that clock is
    /// set back. Read it once for many values.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use larder::{Larder, block_on};
    /// use larder_device::VirtualClock;
    ///
    /// let clock = Arc::new(VirtualClock::starting_at(Duration::from_secs(100)));
    /// let cache = block_on(Larder::open(Default::default(), None, clock))?;
    /// block_on(cache.set(b"bread", b"rye", Some(Duration::from_millis(1500))))?;
    /// let meta = block_on(cache.get_with(b"bread", |_, meta| meta))?.unwrap();
    /// assert_eq!(meta.remaining(cache.now()), Some(Duration::from_millis(1500)));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn now(&self) -> Duration {
        self.core.clock.now()
    }

    /// The current moment, by the cache's time and by the wall clock.
    ///
    /// ```
    /// # let cache = larder::Larder::in_memory(1 << 20)?;
    /// let moment = cache.moment();
    /// assert_eq!(moment.wall(), moment.wall_time_of(moment.now()));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn moment(&self) -> Moment {
        self.core.clock.moment()
    }

    /// Starts a scan of everything in the cache, in no meaningful order. The cache may be used and changed during the
    /// scan. The scan holds no lock between two calls, and within a call only while it copies from memory. If a
    /// small-object bucket is rewritten again and again, its writers wait for one read.
    ///
    /// The scan returns each item exactly once that is in the cache during the whole scan and is not changed. It
    /// returns an item that is added, removed or changed during the scan once or not at all, in a version that was
    /// the newest at some time during the call that returns it. Items that had expired before are not returned. There
    /// are three exceptions: of two large objects whose keys have the same hash of 64 bits one may be missing; an
    /// object that comes from flash to DRAM and is dropped by flash during the scan of its slice may be missing; and
    /// so may objects that cannot be read from the device.
    ///
    /// The scan brings nothing to DRAM and does not count as a use. It takes the memory of a batch (about 1 MiB, or
    /// eight large objects), and 8 bytes for each item of a slice. The number of slices depends on `dram_bytes`, up
    /// to 1024. It reads each bucket that is not empty, and each large object.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::{Config, Larder, RealClock, block_on};
    ///
    /// let cache = block_on(Larder::open(Config::default(), None, Arc::new(RealClock)))?;
    /// for name in ["rye", "oat", "spelt"] {
    ///     block_on(cache.set(name.as_bytes(), b"flour", None))?;
    /// }
    /// let mut scan = cache.scan();
    /// let mut keys = Vec::new();
    /// while let Some(batch) = block_on(scan.next()) {
    ///     keys.extend(batch.iter().map(|item| item.key().to_vec()));
    /// }
    /// keys.sort();
    /// assert_eq!(keys, [&b"oat"[..], b"rye", b"spelt"]);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn scan(&self) -> Scan<'_> {
        Scan::of(&self.core, self.hasher)
    }

    /// Returns a page of a scan of everything in the cache, from `cursor` on: 0 for the first page,
    /// [`ScanPage::next`] for the others. A page has about `count` items or more. In DRAM alone it seldom has many
    /// more. With flash it has at least the items of a part of the index of large objects, which are read whole, so
    /// pages may be long there. A scan need not be finished: no state is kept between two pages, and cursors stay
    /// valid as the cache grows and shrinks.
    ///
    /// Every item that is in the cache from the first page to the last is in one of them, changed or not; an
    /// unchanged item is in no other. Apart from that the guarantees are those of [`Larder::scan`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid cursor; [`ErrorKind::Closed`] after a close.
    ///
    /// ```
    /// # use larder::{Larder, block_on};
    /// # let cache = Larder::in_memory(1 << 20)?;
    /// for name in ["rye", "oat", "spelt"] {
    ///     block_on(cache.set(name.as_bytes(), b"flour", None))?;
    /// }
    /// let (mut keys, mut cursor) = (Vec::new(), 0);
    /// loop {
    ///     let page = block_on(cache.scan_from(cursor, 2))?;
    ///     keys.extend(page.items.iter().map(|item| item.key().to_vec()));
    ///     cursor = page.next;
    ///     if cursor == 0 {
    ///         break;
    ///     }
    /// }
    /// keys.sort();
    /// assert_eq!(keys, [&b"oat"[..], b"rye", b"spelt"]);
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    /// [`ErrorKind::Closed`]: crate::ErrorKind::Closed
    pub async fn scan_from(&self, cursor: u64, count: usize) -> Result<ScanPage, Error> {
        ScanPage::of(&self.core, self.hasher, (cursor, count)).await
    }

    /// Approximate number of items; each key counts once, whichever tiers it is in. Exact for a cache in DRAM only of
    /// up to some hundred thousand items, except that expired items count until they are found. Otherwise an estimate
    /// from parts of the indexes: within some percent for many items, within a few items for few on flash.
    ///
    /// ```
    /// # use larder::{Larder, block_on};
    /// # let cache = Larder::in_memory(1 << 20)?;
    /// block_on(cache.set(b"rye", b"flour", None))?;
    /// assert_eq!(cache.estimated_len(), 1);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn estimated_len(&self) -> u64 {
        pages::estimated_len(&self.core)
    }

    /// The same estimate, by tier and with the number of items with a lifetime. The index of flash does not store
    /// lifetimes: items on flash are assumed to have the same share as those in DRAM. So after a restart none counts
    /// as having a lifetime until some have been read.
    ///
    /// ```
    /// # use larder::{Larder, block_on};
    /// # use std::time::Duration;
    /// # let cache = Larder::in_memory(1 << 20)?;
    /// block_on(cache.set(b"rye", b"flour", None))?;
    /// block_on(cache.set(b"sourdough", b"fed", Some(Duration::from_secs(60))))?;
    /// let items = cache.estimated_items();
    /// assert_eq!((items.total(), items.in_dram_alone, items.with_lifetime), (2, 2, 1));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn estimated_items(&self) -> EstimatedItems {
        EstimatedItems::of(&self.core)
    }

    /// Changes [`Config::memory_bytes`](crate::Config::memory_bytes): from now on the budget of all memory is
    /// `bytes`. The DRAM tier gets what flash leaves, as with [`Larder::set_dram_bytes`], but at least an eighth.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// cache.set_memory_bytes(8 << 20);
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(cache.stats().dram_used_bytes <= 8 << 20);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_memory_bytes(&self, bytes: u64) {
        let bytes = bytes.max(1);
        self.core.memory.set(bytes);
        self.core.divide_memory(bytes);
        self.demoter.wake();
    }

    /// Reports objects that leave the cache to `listener` from now on, in the place of
    /// [`Config::removal_listener`](crate::Config::removal_listener); `None`: to no one. What left before is not
    /// reported to it, except what waited to be reported.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use larder::{Config, Larder, RealClock, RemovalListener, block_on};
    ///
    /// let cache = block_on(Larder::open(Config::default(), None, Arc::new(RealClock)))?;
    /// let deleted = Arc::new(AtomicU64::new(0));
    /// let count = Arc::clone(&deleted);
    /// cache.set_removal_listener(Some(RemovalListener::new(move |_| {
    ///     count.fetch_add(1, Ordering::Relaxed);
    /// })));
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// block_on(cache.delete(b"bread"))?;
    /// assert_eq!(deleted.load(Ordering::Relaxed), 1);
    /// cache.set_removal_listener(None);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_removal_listener(&self, listener: Option<RemovalListener>) {
        self.core.counters.removals.set(listener);
    }

    /// Changes [`Config::admission`](crate::Config::admission): from now on `policy` decides which items go to flash.
    /// What the old policy remembers of keys, or has left of a budget, is forgotten. Without flash it does nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a policy that cannot work; the old one goes on then.
    ///
    /// ```
    /// # use larder::{AdmissionPolicy, Larder};
    /// # let cache = Larder::in_memory(1 << 20)?;
    /// cache.set_admission(AdmissionPolicy::Frequency { asks: 2 })?;
    /// assert!(cache.set_admission(AdmissionPolicy::Random(2.0)).is_err());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_admission(&self, policy: AdmissionPolicy) -> Result<(), Error> {
        policy.check()?;
        if let Some(flash) = &self.core.flash {
            flash.set_admission(policy);
        }
        Ok(())
    }

    /// Changes the budget of the DRAM tier, in bytes. A budget of all memory no longer applies then. Values below
    /// 8 KiB, except 0, become 8 KiB, and values above 1 TiB become 1 TiB. The budget cannot fall below 1/256 of the
    /// largest budget that the cache has had, because the index keeps a few bytes of that.
    ///
    /// After a reduction, the excess leaves in steps while the cache serves: up to 64 MiB before this returns, the
    /// rest with later calls. A set evicts several times as much as it brings, so the excess has left after sets of
    /// half as many bytes as the new budget. None of these sets is refused if it fits the new budget. A get evicts
    /// one segment (1 MiB at most). Without calls nothing leaves. If the old budget was more than twice the new one,
    /// memory that values in use pin is no longer counted, and is freed when the values are dropped.
    ///
    /// With flash, evicted objects must be written there, at the speed of flash. The cache's thread does that until
    /// all has left. With [`Demotions::Callers`](crate::config::Demotions::Callers) the callers that set, or miss
    /// DRAM, do it; then hits in DRAM alone evict no further than the next segment.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// cache.set_dram_bytes(8 << 20);
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(cache.stats().dram_items, 1);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_dram_bytes(&self, bytes: u64) {
        self.core.memory.set(0);
        let bytes = if bytes == 0 { 0 } else { bytes.clamp(DRAM_BYTES_MIN, DRAM_BYTES_MAX) };
        self.set_budget(bytes);
    }

    /// The cache's part of a budget, unless it shares one by lending: then `None`.
    pub(crate) fn allotment(&self) -> Option<Allotment> {
        if self.demoter.membership().get().is_some() {
            return None;
        }
        Some(match self.core.memory.get() {
            0 => Allotment::Dram(self.core.dram.budget_bytes()),
            all => Allotment::All(all),
        })
    }

    /// The memory limit in bytes, as it was last set: of everything, or of DRAM if only that is limited (see
    /// [`Config::memory_bytes`](crate::Config::memory_bytes)). For a cache that lends memory to others: its current
    /// budget.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// cache.set_dram_bytes(5 << 20);
    /// assert_eq!(cache.memory_limit_bytes(), 5 << 20);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn memory_limit_bytes(&self) -> u64 {
        match self.core.memory.get() {
            0 => self.core.dram.budget_bytes(),
            all => all,
        }
    }

    /// Sets the cache's part of a budget.
    pub(crate) fn allot(&self, allotment: Allotment) {
        match allotment {
            Allotment::Dram(bytes) => self.set_dram_bytes(bytes),
            Allotment::All(bytes) => self.set_memory_bytes(bytes),
        }
    }
}
