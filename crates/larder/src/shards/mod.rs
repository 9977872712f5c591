//! Several devices as independent shards.
//!
//! Each key belongs to one shard, by rendezvous hashing (`rendezvous.rs`). A shard is a whole cache on one device, or
//! on the part of it that a tenant has. When a device is gone its shard is a cache in DRAM; the keys of all others stay
//! where they are. `opening.rs` says in which order that is written down.
//!
//! This is a shard of the keys, on a device of its own; the index in DRAM has shards too, which are another thing.

mod alone;
pub(crate) mod opening;
pub(crate) mod rendezvous;
mod set;

use std::sync::{Arc, Mutex, PoisonError};

use larder_device::{Claim, Clock, Device};

use crate::cache::Larder;
use crate::config::Config;
use crate::error::Error;
use crate::events;
use crate::front::{Held, Route, Routed};
use crate::key::KeyHasher;
use crate::partition::ShardNumber;
use alone::Alone;
use rendezvous::number_of;

/// A cache over several devices, which fail one by one.
///
/// The calls are those of [`Larder`], and mean the same: see [`Routed`]. [`Shards::shards`] leads to what each shard
/// says of itself: layout, placement, recovery.
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

/// Which key belongs to which of several caches, one on each device: what [`Shards`] are, without the calls.
pub struct ShardMap {
    /// Given back before the devices are, and by a close.
    claims: Mutex<Vec<Arc<Claim>>>,
    /// In the order of their numbers.
    shards: Vec<ShardCache>,
    /// Within a shard keys are hashed under a seed of its own.
    hasher: KeyHasher,
}

/// The cache of a shard.
pub(crate) struct ShardCache {
    pub(crate) cache: Arc<Larder>,
    /// Why it has no device.
    pub(crate) down: Option<Arc<str>>,
}

/// One shard: a cache, and whether it has lost its device.
#[derive(Clone, Copy)]
pub struct Shard<'a> {
    number: ShardNumber,
    of: &'a ShardCache,
}

impl<'a> Shard<'a> {
    /// Its number in the set, which stays.
    pub fn number(&self) -> usize {
        self.number.index()
    }

    /// Its cache, with its statistics and its placement plan.
    pub fn cache(&self) -> &'a Larder {
        &self.of.cache
    }

    /// Why it was opened in DRAM alone. `None` if it has its device; one that fails later shows in
    /// [`Stats::device_errors`](crate::Stats::device_errors) of its cache.
    pub fn down(&self) -> Option<&'a str> {
        self.of.down.as_deref()
    }
}

impl Shards {
    /// Opens a cache on each of `devices`, at most 64, in any order. `None` stands for one that is
    /// missing: its shard is a cache in DRAM, as is that of a device that cannot be read or written.
    /// When it is back it starts empty, for its keys may have changed meanwhile. A blank device takes
    /// the place of one that is missing.
    ///
    /// Of [`Config::dram_bytes`] or [`Config::memory_bytes`], and of [`Config::demoting_bytes_max`], each
    /// shard gets an equal part. Everything
    /// else in `config` holds for each of them, a budget of writes and the endurance of a drive too.
    /// Devices of different sizes get as many keys each.
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
        Self::open_all(config, devices, clock).await.inspect_err(events::opening_refused)
    }

    async fn open_all(
        config: Config,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        opening::check_count(devices.len())?;
        let begins = (config.start_empty, config.hash_seed);
        let alone = Alone::new(config, devices.len(), Arc::clone(&clock));
        let set = opening::open(&alone, devices, begins, &*clock).await?;
        let only = |caches: Vec<Larder>| {
            let mut caches = caches.into_iter();
            caches.next().filter(|_| caches.next().is_none()).expect("each has one cache")
        };
        let shards = set.shards.into_iter().map(|shard| ShardCache {
            cache: Arc::new(only(shard.caches)),
            down: shard.down.map(Arc::from),
        });
        Ok(Self::new(ShardMap::new(set.claims, shards.collect(), set.hasher)))
    }

    /// All shards, in the order of their numbers.
    pub fn shards(&self) -> impl Iterator<Item = Shard<'_>> {
        let shards = &self.route().shards;
        ShardNumber::all(shards.len()).zip(shards).map(|(number, of)| Shard { number, of })
    }
}

impl ShardMap {
    pub(crate) fn new(claims: Vec<Arc<Claim>>, shards: Vec<ShardCache>, hasher: KeyHasher) -> Self {
        assert!(opening::check_count(shards.len()).is_ok(), "{} shards", shards.len());
        Self { claims: Mutex::new(claims), shards, hasher }
    }
}

impl Held for ShardMap {
    fn release(&self) {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Route for ShardMap {
    fn cache_for(&self, key: &[u8]) -> &Larder {
        &self.shards[self.position(key)].cache
    }

    fn caches(&self) -> impl Iterator<Item = &Larder> + Send {
        self.shards.iter().map(|shard| &*shard.cache)
    }

    fn position(&self, key: &[u8]) -> usize {
        match self.shards.len() {
            1 => 0,
            count => number_of(self.hasher.hash(key).0, count).index(),
        }
    }
}
