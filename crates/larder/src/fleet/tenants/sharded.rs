//! Tenants on several devices: each has a part of every device, and its keys are divided among the devices like those
//! of all others.
//!
//! One table on each device says which shard of the set the device is, and which part belongs to which tenant.
//! Records about a device that was away apply to all tenants: it starts empty for each of them.

use std::sync::Arc;

use larder_device::{Clock, Device, DeviceInfo};

use super::budget::Budget;
use super::caches::Shares;
use super::config::TenantsConfig;
use super::division::divide;
use super::{Drive, Tenants};
use crate::base::error::Error;
use crate::dram::versions::Versions;
use crate::flash::plan::PlacementPlan;
use crate::fleet::front::Shards;
use crate::fleet::partition::{Division, PartitionTable, ShardNumber};
use crate::fleet::shards::name::key_of_name;
use crate::fleet::shards::opening::{self, Begin};
use crate::fleet::shards::tenancy::{Opening, ShardDevice, Tenancy};
use crate::fleet::shards::{Shard, ShardMap, ShardOptions};
use crate::observe::events;

/// Gives each tenant a part of each device.
struct Everywhere {
    config: TenantsConfig,
    /// Number of devices when the set was opened.
    devices: u64,
    clock: Arc<dyn Clock>,
    /// One version counter per tenant for all shards, because a key may move between shards.
    versions: Vec<Arc<Versions>>,
}

impl Everywhere {
    fn shares(&self) -> Shares<'_> {
        Shares { config: &self.config, devices: self.devices }
    }
}

impl Tenancy for Everywhere {
    fn divide(&self, info: &DeviceInfo, found: Option<&PartitionTable>) -> Result<Division, Error> {
        let division = divide(&self.config, info, found)?;
        // Make a plan first, to refuse settings that cannot work before anything is erased.
        self.shares().plan(info, &division.parts)?;
        Ok(division)
    }

    fn open<'a>(&'a self, shard: ShardNumber, on: ShardDevice<'a>) -> Opening<'a> {
        Box::pin(async move {
            let shares = self.shares();
            let plan = shares.plan(on.device.info(), on.parts)?;
            shares.open(Some(shard), Some((on, &plan)), &self.clock, &self.versions).await
        })
    }
}

impl Tenants<Shards> {
    /// Opens all tenants on each of `devices`, at most 128, in any order, as [`Shards::open`] opens one cache. `None`
    /// stands for a missing device. A device that cannot be used costs all tenants only the keys that they have
    /// there. A device that is back starts empty for all of them, and a blank one takes the place of a missing one.
    ///
    /// A tenant's [`flash_percent`](crate::Tenant::flash_percent) is its share of every device. Its DRAM, its
    /// borrowing limit, and [`demoting_bytes_max`](crate::Config::demoting_bytes_max) are divided equally among its
    /// caches; everything else in its [`config`](crate::Tenant::config) applies to each of them. The number of caches
    /// is the number of tenants times the number of devices, each with at least 8 KiB of DRAM. A random seed
    /// determines which key belongs to which device; if the first tenant's [`hash_seed`](crate::Config::hash_seed) is
    /// set, that does.
    ///
    /// # Errors
    /// As [`Tenants::open`] and [`Shards::open`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::{Device, RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// use larder_device::{ModelDevice, Payload};
    /// use larder_ssd::managed::{Geometry, ManagedConfig};
    ///
    /// let drive = || -> Arc<dyn Device> {
    ///     let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 20.0).unwrap();
    ///     Arc::new(ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap())
    /// };
    /// let config = TenantsConfig {
    ///     dram_bytes: 8 << 20,
    ///     tenants: vec![Tenant::new("photos", 60.0), Tenant::new("pages", 40.0)],
    ///     ..TenantsConfig::default()
    /// };
    /// let devices = vec![Some(drive()), Some(drive()), None];
    /// # block_on(async {
    /// let tenants = Tenants::open_sharded(config, devices, Arc::new(RealClock)).await?;
    /// let photos = tenants.tenant("photos")?;
    /// photos.set(b"bread", b"jpeg", None).await?;
    /// assert!(tenants.tenant("pages")?.get(b"bread").await?.is_none());
    /// assert_eq!(photos.shards().filter(|shard| shard.down().is_some()).count(), 1);
    /// tenants.close().await?;
    /// # Ok::<(), larder::Error>(())
    /// # })?;
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn open_sharded(
        config: TenantsConfig,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let options = ShardOptions::beside(config.tenants.iter().map(|it| it.config.demotions));
        Self::open_sharded_with(config, options, devices, clock).await
    }

    /// As [`Tenants::open_sharded`], with all options of shards. With `open_sharded`, a thread looks after the shards
    /// unless all tenants leave demotions to callers ([`Config::demotions`](crate::Config::demotions)).
    ///
    /// # Errors
    /// As [`Tenants::open_sharded`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use larder::{Device, RealClock, ShardOptions, Tenant, Tenants, TenantsConfig, block_on};
    /// # use larder_device::MemoryDevice;
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let device = || Some(Arc::new(MemoryDevice::holding(vec![0; 64 << 20])) as Arc<dyn Device>);
    /// let options = ShardOptions { refill_bytes_per_s: 1 << 20, ..ShardOptions::default() };
    /// let devices = vec![device(), device()];
    /// let tenants = Tenants::open_sharded_with(config, options, devices, Arc::new(RealClock));
    /// assert_eq!(block_on(tenants)?.tenant("photos")?.status().shards.len(), 2);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn open_sharded_with(
        config: TenantsConfig,
        options: ShardOptions,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let opening = Self::open_set(config, options, devices, clock);
        opening.await.inspect_err(events::opening_refused)
    }

    async fn open_set(
        config: TenantsConfig,
        options: ShardOptions,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        options.check()?;
        opening::check_count(devices.len())?;
        let first = config.tenants.first();
        let (start_empty, hash_seed) =
            (config.start_empty, first.and_then(|tenant| tenant.config.hash_seed));
        let (count, tenants) = (devices.len() as u64, config.tenants.len());
        let own = Arc::clone(&clock);
        let versions = config.tenants.iter().map(|_| Arc::new(Versions::of_names(key_of_name)));
        let versions = versions.collect();
        let tenancy =
            Arc::new(Everywhere { config: config.clone(), devices: count, clock: own, versions });
        let begin = Begin { start_empty, hash_seed, tenants, options, clock: Arc::clone(&clock) };
        let set = opening::open(Arc::clone(&tenancy) as _, devices, begin).await?;
        let maps: Vec<Arc<Shards>> =
            ShardMap::of(set, tenants)?.into_iter().map(|map| Arc::new(Shards::new(map))).collect();
        let shards: Vec<_> = maps[0].shards().collect();
        let serving = shards.iter().filter_map(|shard| shard.device());
        let drives = serving.map(|(device, _)| Drive::new(Arc::clone(device), &config, &*clock));
        let drives: Vec<Drive> = drives.collect();
        let plan_of = |shard: &Shard<'_>| match shard.device() {
            Some((device, _)) => tenancy.shares().plan(device.info(), shard.parts()),
            None => Ok(PlacementPlan::default()),
        };
        let plans = shards.iter().map(plan_of).collect::<Result<_, _>>()?;
        let caches = maps.iter().map(|map| map.route().shared_caches());
        let budget = Budget::divide(&config, caches)?;
        drop(shards);
        Ok(Self::of(&config, maps, budget, ([], drives, plans), clock))
    }

    /// The placement handle of each write stream of each tenant, with the reason: one plan for each device, in the
    /// order of the shards; an empty plan for a shard without its device.
    ///
    /// ```
    /// # use larder::{Device, RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # use larder_device::MemoryDevice;
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let device = std::sync::Arc::new(MemoryDevice::holding(vec![0; 64 << 20])) as _;
    /// # let devices = vec![Some(device), None];
    /// # let tenants = block_on(Tenants::open_sharded(config, devices, std::sync::Arc::new(RealClock)))?;
    /// let plans = tenants.placements();
    /// assert!(!plans[0].streams().is_empty() && plans[1].streams().is_empty());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn placements(&self) -> &[PlacementPlan] {
        &self.plans
    }
}
