//! The life of a cache: it is opened, emptied, made durable and closed.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_device::{Claim, Clock, Device, FileDevice, RealClock, TimeoutDevice, block_on};

use super::close::Closing;
use super::core::{Changes, Core, STRIPES};
use super::demoting::Demoter;
use super::flush::{Flushed, Flushing};
use super::gate::Gate;
use super::item::ItemBuilder;
use super::memory::MemoryBudget;
use super::{Larder, SingleFlight};
use crate::base::error::Error;
use crate::base::key::KeyHasher;
use crate::base::time::CacheClock;
use crate::config::{Config, Demotions};
use crate::dram::DramTier;
use crate::dram::versions::Versions;
use crate::flash::{self, Flash, Placed, Start};
use crate::observe::events;
use crate::observe::latency::Stopwatch;
use crate::observe::stats::{Counters, Stats};

impl Larder {
    /// Opens a cache on `device`, or in DRAM only. A device that was shut down cleanly keeps its content; see
    /// [`Larder::recovery`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for settings that cannot work or do not fit the device, [`ErrorKind::InUse`] if another
    /// cache uses the device or a part of it, [`ErrorKind::Foreign`] if the device holds other data,
    /// [`ErrorKind::Device`] if its metadata cannot be read or written.
    ///
    /// [`ErrorKind::Config`]: crate::ErrorKind::Config
    /// [`ErrorKind::InUse`]: crate::ErrorKind::InUse
    /// [`ErrorKind::Foreign`]: crate::ErrorKind::Foreign
    /// [`ErrorKind::Device`]: crate::ErrorKind::Device
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::{Config, ErrorKind, Larder, RealClock, block_on};
    ///
    /// let open = |config| block_on(Larder::open(config, None, Arc::new(RealClock)));
    /// let cache = open(Config { dram_bytes: 1 << 20, ..Config::default() })?;
    /// assert!(cache.layout().is_none(), "without a device all is in DRAM");
    /// let refused = open(Config { utilization_percent: 101.0, ..Config::default() });
    /// assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Config));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn open(
        config: Config,
        device: Option<Arc<dyn Device>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let opened = Self::open_claimed(config, device, clock).await;
        opened.inspect_err(events::opening_refused)
    }

    async fn open_claimed(
        config: Config,
        device: Option<Arc<dyn Device>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        let claim = device.as_ref().map(Claim::take).transpose()?.map(Arc::new);
        Self::open_placed(config, device.zip(claim), clock, None, None).await
    }

    /// Opens a cache of `dram_bytes` in memory only, with the wall clock; all other settings are those of
    /// [`Config::default`].
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for an illegal budget: see [`Config::dram_bytes`].
    ///
    /// ```
    /// use larder::{Larder, block_on};
    ///
    /// let cache = Larder::in_memory(64 << 20)?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"rye"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn in_memory(dram_bytes: u64) -> Result<Self, Error> {
        let config = Config { dram_bytes, ..Config::default() };
        // Without flash this never waits.
        block_on(Self::open(config, None, Arc::new(RealClock)))
    }

    /// Opens a cache on a file of `flash_bytes` (a positive multiple of 4096) at `path`, with the settings of
    /// [`Config::default`]. Creates the file if it does not exist, and takes over the content of an earlier cache.
    /// The file is opened on the calling thread, and is locked against other caches until this one is dropped. For
    /// other settings use [`Larder::open`] on a [`FileDevice`].
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the file cannot be opened or created; otherwise as
    /// [`Larder::open`].
    ///
    /// ```
    /// use larder::{Larder, block_on};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("cache");
    /// let cache = block_on(Larder::at(&path, 64 << 20))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// block_on(cache.close())?;
    /// drop(cache);
    /// let again = block_on(Larder::at(&path, 64 << 20))?;
    /// assert_eq!(block_on(again.get(b"bread"))?.as_deref(), Some(&b"rye"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn at(path: impl AsRef<Path>, flash_bytes: u64) -> Result<Self, Error> {
        let device = FileDevice::create(path, flash_bytes)
            .map_err(|error| Error::device("cannot open the cache's file", error))?;
        Self::open(Config::default(), Some(Arc::new(device)), Arc::new(RealClock)).await
    }

    /// As [`Larder::open`], for a device that is already claimed. One of several caches may share a placement plan
    /// and the version counter with the others.
    pub(crate) async fn open_placed(
        config: Config,
        device: Option<(Arc<dyn Device>, Arc<Claim>)>,
        clock: Arc<dyn Clock>,
        placed: Option<Placed>,
        versions: Option<Arc<Versions>>,
    ) -> Result<Self, Error> {
        config.check()?;
        let stopwatch = Stopwatch::new(config.latency_histograms, Arc::clone(&clock));
        let (device, claim) = device.unzip();
        let device = device.map(|device| in_time(&config, device, claim.as_ref(), &clock));
        let clock = Arc::new(CacheClock::new(clock));
        let start = match &device {
            Some(device) => Some(flash::examine(device, &config, clock.now()).await?),
            None => None,
        };
        let hasher = match &start {
            Some(start) => start.hasher(),
            None => KeyHasher::seeded_or_drawn(config.hash_seed),
        };
        let counters = Arc::new(Counters::with_listener(config.removal_listener.clone(), hasher));
        let flash = match device.zip(start) {
            Some(on) => Some(open_flash(&config, on, placed, (&counters, &clock)).await?),
            None => None,
        };
        let dram_bytes = match config.memory_bytes {
            Some(all) => MemoryBudget::first_share(all, flash.as_deref())?,
            None => config.dram_bytes,
        };
        let first = first_version(clock.now(), flash.as_deref());
        let dram = DramTier::new(dram_bytes, config.dram_policy, flash.is_some(), first, hasher);
        let dram = match versions {
            Some(versions) => dram.giving(versions, first),
            None => dram,
        };
        let dram = match flash.clone() {
            Some(flash) => dram.above(move |item| flash.keeps(item)),
            None => dram,
        };
        let ahead = config.demotions == Demotions::Thread;
        let core = Arc::new(Core {
            gate: Gate::default(),
            dram: dram
                .demoting_by(ahead, config.demoting_bytes(dram_bytes))
                .counting(Arc::clone(&counters))
                .noting_access(config.access_times),
            flash,
            stripes: (0..STRIPES).map(|_| async_lock::Mutex::new(())).collect(),
            changes: (0..STRIPES).map(|_| Changes::default()).collect(),
            memory: MemoryBudget::new(config.memory_bytes),
            clock,
            counters,
        });
        Ok(Self {
            demoter: Demoter::new(config.demotions, config.demotion_wait, &core),
            claim: Mutex::new(claim),
            items: ItemBuilder::new(&core.clock, config.access_times),
            core,
            hasher,
            reads: SingleFlight::new(),
            fetches: SingleFlight::new(),
            stopwatch,
        })
    }

    /// Empties the cache. After this has returned, nothing that was there at the time of the call comes back: not to
    /// this process, and not after a restart or a crash. Calls in flight complete first, and new calls wait. A value
    /// stored by a concurrent call may be kept or not; a value stored by a call after the return is kept. The result
    /// of a fetch that began before is not stored.
    ///
    /// The content of flash is not read. The cost is one write of 4 KiB and, in memory, a walk over the items of DRAM
    /// and 16 bytes for each small-object bucket. Flash is not deallocated; it is overwritten as the cache fills. If
    /// the future is dropped, the content is unchanged, but a crash may empty flash.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if flash could not record the clear: then the content is unchanged, but a crash may
    /// empty flash. [`ErrorKind::InvalidInput`] inside the closure of an update, for which the clear would wait.
    /// [`ErrorKind::Closed`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// block_on(cache.clear())?;
    /// assert!(block_on(cache.get(b"bread"))?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Device`]: crate::ErrorKind::Device
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    /// [`ErrorKind::Closed`]: crate::ErrorKind::Closed
    pub async fn clear(&self) -> Result<(), Error> {
        self.core.check_reentry()?;
        let held = match &self.core.flash {
            Some(flash) => {
                let held = self.core.gate.hold().await?;
                flash.clear().await?;
                Some(held)
            }
            None => {
                self.core.gate.check()?;
                None
            }
        };
        // No await from the clear of flash to the end: a dropped future has cleared all or nothing.
        //
        // First stop reads and fetches that are in flight, so that they bring nothing to DRAM behind the walk over
        // it.
        self.reads.overtake_all();
        self.fetches.overtake_all();
        self.core.dram.clear();
        debug_assert!(
            held.is_none() || self.core.dram.len() == 0,
            "no call brings an item while the gate is held"
        );
        self.core.counters.clears.add(1);
        drop(held);
        // Includes what calls with dropped futures had noted.
        self.core.counters.removals.tell();
        Ok(())
    }

    /// Sends to flash what only DRAM holds, and waits until it is there. After this returns, every value that was set
    /// before the call survives a crash ([`CrashSafety::Process`](crate::CrashSafety::Process)). Exceptions are
    /// values that the admission policy or their size keeps from flash, or that are lost to device errors
    /// ([`Flushed`] counts both), values that flash drops to make room, and values that are changed later. Large
    /// objects are found again once the opening has indexed them ([`Larder::rebuild`]). A loss of power still empties
    /// flash, except with [`CrashSafety::Power`](crate::CrashSafety::Power), which gives the same guarantee then.
    ///
    /// Items stay in DRAM; a later eviction writes nothing again. The cache serves during the flush. The cost is a
    /// read and a write of 4 KiB for each small object that only DRAM held, and on average half a block of 4 KiB of a
    /// large-object region, which stays unused. Each call offers rejected objects to the admission policy once more.
    ///
    /// Without flash there is nothing to do.
    ///
    /// Objects in the small-object log ([`SocConfig::log_percent`](crate::SocConfig::log_percent)) do not survive a
    /// crash, flushed or not.
    ///
    /// # Errors
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) if the device cannot flush. DRAM still has all of its content.
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::{Config, Larder, RealClock, block_on};
    /// use larder_device::{ModelDevice, Payload};
    /// use larder_ssd::managed::{Geometry, ManagedConfig};
    ///
    /// let geometry = Geometry::with_overprovisioning(8 << 20, 256 << 10, 60.0).unwrap();
    /// let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap();
    /// let drive: Arc<dyn larder_device::Device> = Arc::new(drive);
    /// let open = || {
    ///     let config = Config { dram_bytes: 1 << 20, ..Config::default() };
    ///     block_on(Larder::open(config, Some(Arc::clone(&drive)), Arc::new(RealClock)))
    /// };
    /// let cache = open()?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.flush())?.objects, 1);
    /// drop(cache); // without a close, as if the process had died
    /// let cache = open()?;
    /// block_on(cache.rebuild()); // it could serve already
    /// assert_eq!(block_on(cache.get(b"bread"))?.as_deref(), Some(&b"rye"[..]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn flush(&self) -> Result<Flushed, Error> {
        let inside = self.core.enter().await?;
        let flushed = match &self.core.flash {
            Some(flash) => Flushing { core: &self.core, flash }.run().await,
            None => Ok(Flushed::default()),
        };
        self.core.leave(inside);
        flushed
    }

    /// Sends evicted records to flash until the cache is closed: for a task next to the users of the cache, with
    /// [`Demotions::Callers`]. While it runs, callers send only if DRAM has no room. Many records are in flight at a
    /// time, and those of one bucket are written together. Like all futures of a cache it must be polled on or
    /// dropped, since it may hold key locks while it is suspended. When it is dropped, it leaves unsent records to
    /// other senders.
    ///
    /// It reports its removals to the listener. Without flash, and with [`Demotions::Thread`], it has nothing to do
    /// and returns at once.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::config::Demotions;
    /// use larder::{Config, Larder, RealClock, block_on};
    ///
    /// let config = Config { demotions: Demotions::Callers, ..Config::default() };
    /// let cache = Arc::new(block_on(Larder::open(config, None, Arc::new(RealClock)))?);
    /// let beside = Arc::clone(&cache);
    /// let task = std::thread::spawn(move || block_on(beside.send_demotions()));
    /// block_on(cache.close())?;
    /// task.join().unwrap();
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn send_demotions(&self) {
        self.demoter.send_until_closed().await;
    }

    /// Shuts down cleanly: the content of DRAM goes to flash, and the next [`Larder::open`] continues with it. Small
    /// objects are appended in order to regions of large ones, and move to their buckets when DRAM evicts them the
    /// next time. So a close takes as long as the device needs to write the content of DRAM. If half of the regions
    /// have no room for them, or if, without crash safety, a bucket may hold an older version, they are written to
    /// their buckets instead, which takes a read and a write of 4 KiB for each. Calls in flight complete first. Later
    /// calls are refused; those that cannot fail report the last state. The device is free for the next cache when
    /// this returns; memory is freed when the cache is dropped.
    ///
    /// A second close does nothing. If the future is dropped the cache is closed all the same, and the next call of
    /// `close` goes on.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if the metadata cannot be written; then the next opening starts empty, unless another
    /// call succeeds before. The device is free when the cache is dropped. [`ErrorKind::InvalidInput`] inside the
    /// closure of an update, for which the close would wait.
    ///
    /// ```
    /// # use larder::{ErrorKind, Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(block_on(cache.close())?.sets, 1);
    /// let late = block_on(cache.set(b"cake", b"plum", None));
    /// assert_eq!(late.unwrap_err().kind(), ErrorKind::Closed);
    /// assert!(block_on(cache.close()).is_ok());
    /// # Ok::<(), larder::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Device`]: crate::ErrorKind::Device
    /// [`ErrorKind::InvalidInput`]: crate::ErrorKind::InvalidInput
    pub async fn close(&self) -> Result<Stats, Error> {
        self.close_by(None).await
    }

    /// As [`Larder::close`], within about this time: what cannot be written by then is left out, and counted
    /// ([`Stats::left_out_objects`]). No older version of it comes back: the next opening misses it. The close still
    /// waits for calls in flight, and for a device that does not answer as long as
    /// [`Config::flash_wait`](crate::Config::flash_wait) says.
    ///
    /// # Errors
    /// As [`Larder::close`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// use std::time::Duration;
    /// assert_eq!(block_on(cache.close_within(Duration::from_secs(5)))?.left_out_objects, 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn close_within(&self, time: Duration) -> Result<Stats, Error> {
        self.close_by(Some(self.core.clock.monotonic().saturating_add(time))).await
    }

    /// Ends the cache without any access to its device, which has failed or belongs to another cache. Drops the
    /// content of DRAM and frees its memory. Nothing is written after this returns.
    pub(crate) async fn abandon(&self) {
        let closing = self.core.gate.close().await;
        if !closing.is_done() {
            self.core.dram.clear();
            self.set_dram_bytes(crate::config::DRAM_BYTES_MIN);
            let claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner).take();
            closing.done();
            drop(claim);
        }
    }

    async fn close_by(&self, by: Option<Duration>) -> Result<Stats, Error> {
        self.core.check_reentry()?;
        let closing = self.core.gate.close().await;
        if !closing.is_done() {
            self.core.dram.evict_all();
            match &self.core.flash {
                Some(flash) => Closing { core: &self.core, flash, by }.run().await?,
                None => _ = self.core.demote_bytes(usize::MAX).await,
            }
            // Nothing is written from here on.
            let claim = self.claim.lock().unwrap_or_else(PoisonError::into_inner).take();
            closing.done();
            drop(claim);
        }
        self.core.counters.removals.tell();
        let latencies = self.stopwatch.latencies();
        Ok(Stats { latencies, ..self.core.counters.snapshot() })
    }
}

/// Opens the flash of a cache. Refuses a budget that is too small for it before it changes the device.
async fn open_flash(
    config: &Config,
    (device, start): (Arc<dyn Device>, Start),
    placed: Option<Placed>,
    (counters, clock): (&Arc<Counters>, &Arc<CacheClock>),
) -> Result<Arc<Flash>, Error> {
    let shared = (Arc::clone(counters), Arc::clone(clock));
    let (mut flash, left) = Flash::planned(config, device, start, placed, shared)?;
    if let Some(all) = config.memory_bytes {
        MemoryBudget::first_share(all, Some(&flash))?;
    }
    flash.recover(left).await?;
    Ok(Arc::new(flash))
}

/// Adds timeouts to the device, unless the cache is to wait for ever.
fn in_time(
    config: &Config,
    device: Arc<dyn Device>,
    claim: Option<&Arc<Claim>>,
    clock: &Arc<dyn Clock>,
) -> Arc<dyn Device> {
    let Some(wait) = config.flash_wait else { return device };
    Arc::new(TimeoutDevice::new(device, wait, Arc::clone(clock), claim))
}

/// The first version number. It is later with every opening, so versions keep growing, and does not depend on the
/// seed of the key hash, so clients learn nothing about the seed. It counts microseconds, because averaged over the
/// time between two openings no counter takes more than one version per microsecond. It adds a second for each
/// opening, in case the clock does not advance.
fn first_version(now: Duration, flash: Option<&Flash>) -> u64 {
    // 2025: smaller versions take less memory.
    const BEGIN_S: u64 = 1_735_689_600;
    let since = now.saturating_sub(Duration::from_secs(BEGIN_S));
    let openings = flash.map_or(0, Flash::epoch).min(1 << 32);
    u64::try_from(since.as_micros()).unwrap_or(0).saturating_add(openings << 20)
}
