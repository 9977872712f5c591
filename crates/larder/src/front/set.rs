//! Shards: how they are opened, come and go.

use std::sync::Arc;

use larder_device::{Clock, Device};

use super::route::{Lead, Route, Sealed};
use super::routed::Routed;
use crate::cache::Larder;
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::events;
use crate::partition::ShardNumber;
use crate::shards::alone::Alone;
use crate::shards::opening::{self, Begin};
use crate::shards::status::SetStatus;
use crate::shards::{Shard, ShardMap, ShardOptions};

/// A cache over several devices, which fail one by one.
///
/// The calls are those of [`Larder`], and mean the same: see [`Routed`]. A shard whose device fails is taken out, and
/// others stand in for it: no caller sees an error because of it. [`Shards::shards`] leads to what each shard says of
/// itself: layout, placement, recovery; [`Shards::status`] says what state they are in.
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
    /// Opens a cache on each of `devices`, at most 128, in any order. `None` stands for one that is
    /// missing: its shard has failed, as has that of a device that cannot be read or written, and others have its keys.
    /// When it is back it starts empty, for its keys may have changed meanwhile, and gets their values from the others.
    /// A blank device takes the place of one that is missing. Spares of the set come on top.
    ///
    /// Of [`Config::dram_bytes`] or [`Config::memory_bytes`], and of [`Config::demoting_bytes_max`], each
    /// shard gets an equal part. Everything
    /// else in `config` holds for each of them, a budget of writes and the endurance of a drive too.
    /// A device gets keys by its size when it comes to the set; who takes its place later gets as many.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for settings that cannot work or do not fit a device,
    /// [`ErrorKind::InUse`] if a device is given twice or another cache has it or a part of it,
    /// [`ErrorKind::Foreign`] if a device holds something else or belongs to another set,
    /// [`ErrorKind::Device`] if no device can serve.
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

    /// As [`Shards::open`], with everything that can be said of shards. There, a thread looks after them unless
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

    /// The number of the shard that has `key` when no shard is away; another one may have it now.
    pub fn home_of(&self, key: &[u8]) -> usize {
        self.route().view().home_of(key).index()
    }

    /// What state they are in, and what was counted.
    pub fn status(&self) -> SetStatus {
        self.route().set().status()
    }

    /// Looks after the shards until they are closed: takes out those that fail, has spares step in, refills those that
    /// are back. For [`Upkeep::Callers`](crate::Upkeep::Callers).
    pub async fn upkeep(&self) {
        self.route().set().upkeep().await;
    }

    /// Adds a shard on a device that is blank, or that was one and is not any more. It has its part of the keys when
    /// this returns, by its size, and gets their values from the others in the background; no other key moves. It may
    /// take the number of one that was retired. Returns its number.
    ///
    /// # Errors
    /// [`ErrorKind::Foreign`] if the device holds something else, [`ErrorKind::InUse`] if it is in use,
    /// [`ErrorKind::Config`] if it is too small or there are 128 shards, [`ErrorKind::Device`] if it fails.
    pub async fn add_shard(&self, device: Arc<dyn Device>) -> Result<usize, Error> {
        self.route().set().add(device).await.map(ShardNumber::index)
    }

    /// Has a device serve as a shard that has failed, or in the place of the device that it has. It starts empty, and
    /// has as many keys as before, whatever its size is.
    ///
    /// # Errors
    /// As [`Shards::add_shard`]; [`ErrorKind::InvalidInput`] if there is no such shard, or the last one would be away
    /// meanwhile.
    pub async fn replace_shard(&self, number: usize, device: Arc<dyn Device>) -> Result<(), Error> {
        self.route().set().replace(shard(number)?, device).await
    }

    /// Takes a shard out for good. Others have its keys when this returns, and none of its values; no other key moves.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there is no such shard, or it is the last one.
    pub async fn retire_shard(&self, number: usize) -> Result<(), Error> {
        self.route().set().retire(shard(number)?).await
    }

    /// Takes a shard out as one that has failed. Others have its keys when this returns, and a spare steps in if there
    /// is one.
    ///
    /// # Errors
    /// As [`Shards::retire_shard`].
    pub async fn fail_shard(&self, number: usize) -> Result<(), Error> {
        self.route().set().fail(shard(number)?, "it was said to have failed").await
    }

    /// Keeps a device that steps in for a shard that fails. It is one also after the set was opened again, if it is
    /// given then.
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

/// One cache or shards, whichever was opened.
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
    /// Those of several shards.
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
