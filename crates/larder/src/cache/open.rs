//! Opens a cache.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use larder_device::{Claim, Clock, Device, FileDevice, RealClock, TimeoutDevice, block_on};

use super::core::{Core, STRIPES};
use super::demoting::Sender;
use super::gate::Gate;
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
use crate::observe::stats::Counters;

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
            changing: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            memory: MemoryBudget::new(config.memory_bytes),
            clock,
            counters,
        });
        Ok(Self {
            sender: Sender::new(config.demotions, &core),
            claim: Mutex::new(claim),
            core,
            hasher,
            reads: SingleFlight::new(),
            fetches: SingleFlight::new(),
            stopwatch,
            demotion_wait: config.demotion_wait,
            notes_access: config.access_times,
            membership: OnceLock::new(),
        })
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
