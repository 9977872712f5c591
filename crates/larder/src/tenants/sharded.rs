//! Tenants on several devices: each has a part of every device, and its keys are divided among the devices as those of
//! all others are.
//!
//! A device says in one table which shard of the set it is and which tenant has which part of it. What is written down
//! of a device that was away holds for all tenants: it begins empty for each of them.

use std::sync::Arc;

use larder_device::{Clock, Device, DeviceInfo};

use super::budget::Budget;
use super::caches::Shares;
use super::config::TenantsConfig;
use super::division::divide;
use super::{Drive, Tenants};
use crate::cache::Larder;
use crate::error::Error;
use crate::events;
use crate::partition::{Division, PartitionTable, ShardNumber};
use crate::plan::PlacementPlan;
use crate::shards::opening::{self, OpenShard, ShardDevice, Tenancy};
use crate::shards::{ShardCache, ShardMap, Shards};

/// A part of each device for each tenant.
struct Everywhere<'a> {
    shares: Shares<'a>,
    clock: &'a Arc<dyn Clock>,
}

impl Tenancy for Everywhere<'_> {
    fn divide(&self, info: &DeviceInfo, found: Option<&PartitionTable>) -> Result<Division, Error> {
        let division = divide(self.shares.config, info, found)?;
        // What cannot work is refused before anything is erased.
        self.shares.plan(info, &division.parts)?;
        Ok(division)
    }

    async fn open(
        &self,
        shard: ShardNumber,
        on: Option<ShardDevice<'_>>,
    ) -> Result<Vec<Larder>, Error> {
        let plan = on.map(|on| self.shares.plan(on.device.info(), on.parts)).transpose()?;
        self.shares.open(Some(shard), on.zip(plan.as_ref()), self.clock).await
    }
}

impl Tenants<Shards> {
    /// Opens all tenants on each of `devices`, at most 64, in any order, as [`Shards::open`] opens one cache: `None`
    /// stands for one that is missing, a device that cannot be used costs all tenants the keys that they have there
    /// and nothing else, one that is back starts empty for all of them, and a blank one takes the place of one that is
    /// missing.
    ///
    /// A tenant's [`flash_percent`](crate::Tenant::flash_percent) is its share of every device. Of its DRAM, of what it
    /// may borrow, and of [`demoting_bytes_max`](crate::Config::demoting_bytes_max), each of its caches has an equal
    /// part; everything else in its [`config`](crate::Tenant::config) holds for each of them. There are as many caches
    /// as tenants times devices, each with at least 8 KiB of DRAM. Which key belongs to which device follows from a
    /// random seed; from the first tenant's [`hash_seed`](crate::Config::hash_seed), if that is set.
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
        Self::open_set(config, devices, clock).await.inspect_err(events::opening_refused)
    }

    async fn open_set(
        config: TenantsConfig,
        devices: Vec<Option<Arc<dyn Device>>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        opening::check_count(devices.len())?;
        let shares = Shares { config: &config, devices: devices.len() as u64 };
        let seed = config.tenants.first().and_then(|tenant| tenant.config.hash_seed);
        let tenancy = Everywhere { shares, clock: &clock };
        let set = opening::open(&tenancy, devices, (config.start_empty, seed), &*clock).await?;
        let serving = set.shards.iter().filter_map(|shard| shard.device.as_ref());
        let drives = serving.map(|(device, _)| Drive::new(Arc::clone(device), &config, &*clock));
        let drives: Vec<Drive> = drives.collect();
        let plan_of = |shard: &OpenShard| match &shard.device {
            Some((device, parts)) => tenancy.shares.plan(device.info(), parts),
            None => Ok(PlacementPlan::default()),
        };
        let plans = set.shards.iter().map(plan_of).collect::<Result<_, _>>()?;
        let caches = by_tenant(set.shards, config.tenants.len());
        let arcs = caches.iter().map(|own| own.iter().map(|shard| &shard.cache).collect());
        let budget = Budget::divide(&config, arcs)?;
        let of_tenant =
            |own| Arc::new(Shards::new(ShardMap::new(set.claims.clone(), own, set.hasher)));
        let tenants = caches.into_iter().map(of_tenant).collect();
        Ok(Self::of(&config, tenants, budget, (set.claims, drives, plans), clock))
    }

    /// Which stream of which tenant writes with which placement handle, and why: a plan for each device, in the order
    /// of the shards; an empty one for a shard without its device.
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

/// The caches of each tenant, in the order of the shards, of those of each shard, in the order of the tenants.
fn by_tenant(shards: Vec<OpenShard>, tenants: usize) -> Vec<Vec<ShardCache>> {
    let mut by_tenant: Vec<Vec<ShardCache>> = (0..tenants).map(|_| Vec::new()).collect();
    for shard in shards {
        assert_eq!(shard.caches.len(), tenants, "each has a cache on each shard");
        let down: Option<Arc<str>> = shard.down.map(Arc::from);
        for (own, cache) in by_tenant.iter_mut().zip(shard.caches) {
            own.push(ShardCache { cache: Arc::new(cache), down: down.clone() });
        }
    }
    by_tenant
}
