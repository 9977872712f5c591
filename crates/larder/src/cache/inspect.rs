//! Statistics and other information about the cache, and maintenance while it runs.

use std::sync::Arc;

use larder_device::PlacementHandle;
use larder_device::nvme::DriveReport;

use super::Larder;
use crate::base::layout::Layout;
use crate::engine::array::memory::ArrayMemory;
use crate::engine::flash_region::FlashRegion;
use crate::flash::Flash;
use crate::flash::plan::PlacementPlan;
use crate::observe::recovery::Recovery;
use crate::observe::stats::Stats;

impl Larder {
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
        let (Some(flash), Ok(inside)) = (&self.core.flash, self.enter().await) else { return 0 };
        let looked_at = flash.rebuild(&|| self.core.gate.is_wanted()).await;
        self.leave(inside);
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
            placement_path: match &self.core.flash {
                Some(flash) if placement_active => flash.device().info().placement.path,
                Some(_) => "none",
                None => "",
            },
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

    /// The reports of the drives. Also attributes the data that they have moved to an owner.
    fn drives(&self) -> Vec<Arc<DriveReport>> {
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
}
