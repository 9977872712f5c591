//! Shards: opening, adding and removing them.

use std::sync::Arc;

use larder_device::{Clock, Device};

use super::route::{Lead, Route, Sealed};
use super::routed::Routed;
use crate::base::error::{Error, ErrorKind};
use crate::cache::Larder;
use crate::config::Config;
use crate::fleet::partition::ShardNumber;
use crate::fleet::shards::alone::Alone;
use crate::fleet::shards::opening::{self, Begin};
use crate::fleet::shards::status::SetStatus;
use crate::fleet::shards::wear::{LevellingOptions, LevellingStep};
use crate::fleet::shards::{Shard, ShardMap, ShardOptions};
use crate::observe::events;

/// A cache over several devices, which may fail individually.
///
/// The calls are those of [`Larder`], with the same meaning: see [`Routed`]. A shard whose device fails is taken out,
/// and others take over its keys: no caller sees an error because of it. [`Shards::shards`] gives access to the
/// properties of each shard (layout, placement, recovery); [`Shards::status`] reports the state of all.
///
/// [`Larder`]: crate::Larder
///
/// ```
/// use std::sync::Arc;
/// use larder::{Cas, Config, RealClock, SetOptions, Shards, block_on};
/// use larder_device::{Device, ModelDevice, Payload};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
///
/// let drive = || -> Arc<dyn Device> {
///     let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 20.0).unwrap();
///     Arc::new(ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap())
/// };
/// let devices = vec![Some(drive()), Some(drive()), None];
/// let config = Config { dram_bytes: 8 << 20, ..Config::default() };
/// # block_on(async {
/// let cache = Shards::open(config, devices, Arc::new(RealClock)).await?;
/// assert!(cache.shards().any(|shard| shard.down().is_some()), "one has no device");
///
/// let rye = SetOptions { flags: 7, ..SetOptions::default() };
/// assert_eq!(cache.status().shards.len(), 3);
/// cache.set(b"bread", b"rye", None).await?;
/// cache.set_with(b"bread", b"rye", rye).await?;
/// let value = cache.get(b"bread").await?.expect("it was just set");
/// assert_eq!(cache.cas(b"bread", b"oat", value.version(), rye).await?, Cas::Stored);
/// assert!(cache.contains(b"bread").await? && cache.touch(b"bread", None).await?);
/// assert_eq!(cache.get_many(&["bread", "cake"]).await?[1], None);
/// let fetched = cache.get_or_fetch(b"cake", rye, async || Ok::<_, String>(b"plum".to_vec())).await;
/// assert_eq!(fetched.unwrap().as_ref(), b"plum");
/// assert_eq!(cache.incr(b"hits", 1).await?, None);
/// assert!(cache.delete(b"bread").await?);
///
/// assert_eq!(cache.stats().deletes, 1);
/// let _ = cache.flush().await?;
/// cache.close().await?;
/// # Ok::<(), larder::Error>(())
/// # })?;
/// # Ok::<(), larder::Error>(())
/// ```
pub type Shards = Routed<ShardMap>;

impl Shards {
    /// Opens a cache on each of `devices`, at most 128, in any order. `None` stands for a missing device: its shard
    /// counts as failed, like that of a device that cannot be read or written, and others have its keys. When the
    /// device is back it starts empty, because its keys may have changed, and gets their values from the others. A
    /// blank device takes the place of a missing one. Spares of the set are given in addition.
    ///
    /// [`Config::dram_bytes`] or [`Config::memory_bytes`], and [`Config::demoting_bytes_max`], are divided equally
    /// among the shards. Everything else in `config` applies to each shard, including a budget of writes and the
    /// endurance of a drive. A device's share of the keys depends on its size when it joins the set; a device that
    /// takes its place later gets the same share.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for settings that cannot work or do not fit a device, [`ErrorKind::InUse`] if a device
    /// is given twice or another cache uses it or a part of it, [`ErrorKind::Foreign`] if a device holds other data
    /// or belongs to another set, [`ErrorKind::Device`] if no device can serve.
    ///
    /// [`ErrorKind::Config`]: crate::ErrorKind::Config
    /// [`ErrorKind::InUse`]: crate::ErrorKind::InUse
    /// [`ErrorKind::Foreign`]: crate::ErrorKind::Foreign
    /// [`ErrorKind::Device`]: crate::ErrorKind::Device
    pub async fn open(
        config: Config,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let options = ShardOptions::beside([config.demotions]);
        Self::open_with(config, options, devices, clock).await
    }

    /// As [`Shards::open`], with all options of shards. With `open`, a thread looks after the shards unless
    /// [`Config::demotions`] leaves that to callers.
    ///
    /// # Errors
    /// As [`Shards::open`].
    pub async fn open_with(
        config: Config,
        options: ShardOptions,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        Self::open_all(config, options, devices, clock).await.inspect_err(events::opening_refused)
    }

    async fn open_all(
        config: Config,
        options: ShardOptions,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        options.check()?;
        opening::check_count(devices.len())?;
        let (start_empty, hash_seed, tenants) = (config.start_empty, config.hash_seed, 1);
        let alone = Alone::new(config, devices.len(), Arc::clone(&clock));
        let begin = Begin { start_empty, hash_seed, tenants, options, clock };
        let set = opening::open(Arc::new(alone), devices, begin).await?;
        let only = ShardMap::of(set, tenants)?.pop().expect("one for each tenant");
        Ok(Self::new(only))
    }

    /// All shards, in the order of their numbers, as they are now.
    pub fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        self.route().shards()
    }

    /// The number of the shard that has `key` when no shard is away; another shard may have it now.
    pub fn home_of(&self, key: &[u8]) -> usize {
        self.route().view().home_of(key).index()
    }

    /// The state and the counters of the shards.
    pub fn status(&self) -> SetStatus {
        self.route().set().status()
    }

    /// Looks after the shards until they are closed: takes out failed shards, activates spares, and refills shards
    /// that are back. For [`Upkeep::Callers`](crate::Upkeep::Callers).
    pub async fn upkeep(&self) {
        self.route().set().upkeep().await;
    }

    /// Adds a shard on a device that is blank, or that was a shard and is not one any more. When this returns, the
    /// shard has its share of the keys, by its size; it gets their values from the others in the background. No other
    /// key moves. It may take the number of a retired shard. Returns its number.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if the device holds other data, [`ErrorKind::InUse`] if it is in use,
    /// [`ErrorKind::Config`] if it is too small or there are 128 shards, [`ErrorKind::Device`] if it fails.
    pub async fn add_shard(&self, device: Arc<dyn Device>) -> Result<usize, Error> {
        self.route().set().add(device).await.map(ShardNumber::index)
    }

    /// Makes a device serve as a failed shard, or replace the current device of a shard. It starts empty, and has the
    /// same share of the keys as before, whatever its size.
    ///
    /// # Errors
    /// As [`Shards::add_shard`]; [`ErrorKind::InvalidInput`] if there is no such shard, or if the last shard would be
    /// away during the call.
    pub async fn replace_shard(&self, number: usize, device: Arc<dyn Device>) -> Result<(), Error> {
        self.route().set().replace(shard(number)?, device).await
    }

    /// Takes a shard out for good. When this returns, others have its keys, but none of its values. No other key
    /// moves.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there is no such shard, or it is the last one.
    pub async fn retire_shard(&self, number: usize) -> Result<(), Error> {
        self.route().set().retire(shard(number)?).await
    }

    /// Takes a shard out as failed. When this returns, others have its keys, and a spare takes its place if there is
    /// one.
    ///
    /// # Errors
    /// As [`Shards::retire_shard`].
    pub async fn fail_shard(&self, number: usize) -> Result<(), Error> {
        self.route().set().fail(shard(number)?, "it was said to have failed").await
    }

    /// Gives a share of the keys of shard `from` their home at shard `to`: up to `parts` of 10,000 parts. Returns the
    /// number of parts; 0 if all keys of `from` are elsewhere, or the record of moved keys is full. Keys of `to` that
    /// have their home at `from` return first. No value moves now: a look-up finds a value where it was, and the key
    /// moves with its next change. The share outlives this process.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there are no two such shards, or a shard of the set has failed or is being
    /// refilled. [`ErrorKind::Device`] if no device can record it; then nothing has changed.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use larder::{Config, Device, RealClock, Shards, block_on};
    /// # use larder_device::MemoryDevice;
    /// # let device = || -> Arc<dyn Device> { Arc::new(MemoryDevice::holding(vec![0; 64 << 20])) };
    /// # let devices = vec![Some(device()), Some(device())];
    /// # let cache = block_on(Shards::open(Config::default(), devices, Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let (home, other) = (cache.home_of(b"bread"), 1 - cache.home_of(b"bread"));
    /// assert_eq!(block_on(cache.move_keys(home, other, 10_000))?, 10_000);
    /// assert_eq!(cache.home_of(b"bread"), other);
    /// assert!(block_on(cache.get(b"bread"))?.is_some(), "it is still where it was");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn move_keys(&self, from: usize, to: usize, parts: u16) -> Result<u16, Error> {
        self.route().set().move_keys(shard(from)?, shard(to)?, parts).await
    }

    /// Looks at the wear of the drives, if the last look is an hour ago, and moves keys from the drive that wears
    /// fastest to the one that wears slowest, if [`DriveLevelling`](crate::DriveLevelling) asks for it: at most 2 % of
    /// its keys a week. For a task that calls this often; it costs little until an hour is over. Returns the step
    /// that was taken. [`Shards::status`] shows the wear, and why no keys move.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if no device can record a step; then nothing has changed.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use larder::{Config, Device, LevellingOptions, RealClock, Shards, block_on};
    /// # use larder_device::MemoryDevice;
    /// # let device = || -> Arc<dyn Device> { Arc::new(MemoryDevice::holding(vec![0; 64 << 20])) };
    /// # let devices = vec![Some(device()), Some(device())];
    /// # let cache = block_on(Shards::open(Config::default(), devices, Arc::new(RealClock)))?;
    /// let options = LevellingOptions { is_on: true, ..LevellingOptions::default() };
    /// assert_eq!(block_on(cache.level_drives(options))?, None, "nothing is known of the drives yet");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn level_drives(
        &self,
        options: LevellingOptions,
    ) -> Result<Option<LevellingStep>, Error> {
        self.route().set().level_drives(options).await
    }

    /// Adds a spare device, which takes the place of a shard that fails. It remains a spare after the set was opened
    /// again, if it is given then.
    ///
    /// # Errors
    /// As [`Shards::add_shard`].
    pub async fn add_spare(&self, device: Arc<dyn Device>) -> Result<(), Error> {
        self.route().set().spare(device).await
    }
}

fn shard(number: usize) -> Result<ShardNumber, Error> {
    ShardNumber::new(number)
        .ok_or_else(|| Error::new(ErrorKind::InvalidInput, format!("there is no shard {number}")))
}

/// One cache or shards, chosen at run time.
///
/// ```
/// use std::sync::Arc;
/// use larder::{AnyRoute, Larder, Routed, block_on};
///
/// let any = AnyRoute::One(Arc::new(Larder::in_memory(1 << 20)?));
/// assert!(block_on(Routed::new(&any).get(b"bread"))?.is_none());
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Clone)]
pub enum AnyRoute {
    /// One cache.
    One(Arc<Larder>),
    /// The caches of several shards.
    Shards(Arc<Shards>),
}

impl Sealed for AnyRoute {}

impl Route for AnyRoute {
    #[inline]
    fn lead(&self) -> Lead<'_> {
        match self {
            Self::One(cache) => Lead::One(cache),
            Self::Shards(shards) => shards.lead(),
        }
    }
}
