//! Several tenants on one or more devices, each with its own flash, DRAM, keys, statistics and options.
//!
//! A tenant is a whole cache on a part of the device. Over several devices (`sharded.rs`) it is a cache on a part of
//! each. Or each tenant has a device of its own, such as a virtual SSD (`own_devices.rs`). Tenants share only the
//! drive: the writes of one evict nothing of another, and the same key is a different item in each. One
//! [`plan`](crate::plan) assigns the placement handles of a device to all of them.

mod budget;
mod caches;
mod config;
mod division;
mod one_device;
mod own_devices;
mod sharded;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_device::{Claim, Clock, Device};

use crate::base::error::{Error, ErrorKind};
use crate::base::side_by_side::together;
use crate::cache::{Flushed, Larder};
use crate::flash::plan::PlacementPlan;
use crate::fleet::front::{Route, Routed};
use crate::observe::endurance::{DriveLife, Wear};
use crate::observe::stats::Stats;
use budget::Budget;
pub use config::{Tenant, TenantsConfig};

/// Several tenants on one device ([`Tenants::open`]), or in DRAM only; on one device each ([`Tenants::open_on`]); or
/// on several devices ([`Tenants::open_sharded`]).
///
/// `R` is the cache of a tenant: a [`Larder`], or [`Shards`](crate::Shards) on several devices. Calls with keys go to
/// a tenant ([`Tenants::tenant`]); the calls here concern all tenants.
///
/// ```
/// use std::sync::Arc;
/// use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
/// use larder_device::{ModelDevice, Payload};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
///
/// let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 20.0).unwrap();
/// let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap();
/// let config = TenantsConfig {
///     dram_bytes: 8 << 20,
///     tenants: vec![Tenant::new("photos", 60.0), Tenant::new("pages", 40.0)],
///     ..TenantsConfig::default()
/// };
/// let tenants = Tenants::open(config, Some(Arc::new(drive)), Arc::new(RealClock));
/// let tenants = block_on(tenants)?;
/// block_on(tenants.tenant("photos")?.set(b"bread", b"jpeg", None))?;
/// assert!(block_on(tenants.tenant("pages")?.get(b"bread"))?.is_none());
/// println!("{}", tenants.placement());
/// # Ok::<(), larder::Error>(())
/// ```
pub struct Tenants<R = Larder> {
    /// Released before the devices are dropped, and by a close.
    claims: Mutex<Vec<Arc<Claim>>>,
    tenants: Vec<(String, Arc<R>)>,
    budget: Budget,
    drives: Vec<Drive>,
    /// One plan per shard, in their order; without shards a single plan, which is empty without flash.
    plans: Vec<PlacementPlan>,
    clock: Arc<dyn Clock>,
}

/// A serving device, and its wear.
struct Drive {
    device: Arc<dyn Device>,
    wear: Option<Wear>,
}

impl Drive {
    fn new(device: Arc<dyn Device>, config: &TenantsConfig, clock: &dyn Clock) -> Self {
        let wear = config.endurance.map(|rated| Wear::new(rated, &device, clock.now()));
        Self { device, wear }
    }

    fn life(&self, clock: &dyn Clock) -> Option<DriveLife> {
        self.wear.as_ref().map(|wear| wear.forecast(&self.device, clock.now()))
    }
}

impl<R: Route> Tenants<R> {
    fn of(
        config: &TenantsConfig,
        caches: Vec<Arc<R>>,
        budget: Budget,
        (claims, drives, plans): (
            impl IntoIterator<Item = Arc<Claim>>,
            impl IntoIterator<Item = Drive>,
            Vec<PlacementPlan>,
        ),
        clock: Arc<dyn Clock>,
    ) -> Self {
        assert_eq!(caches.len(), config.tenants.len(), "each has what is its own");
        let names = config.tenants.iter().map(|tenant| tenant.name.clone());
        Self {
            claims: Mutex::new(claims.into_iter().collect()),
            tenants: names.zip(caches).collect(),
            budget,
            drives: drives.into_iter().collect(),
            plans,
            clock,
        }
    }

    /// The cache of a tenant.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if there is no such tenant.
    ///
    /// ```
    /// # use larder::{ErrorKind, RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// block_on(tenants.tenant("photos")?.set(b"bread", b"jpeg", None))?;
    /// let unknown = tenants.tenant("pages").err().map(|error| error.kind());
    /// assert_eq!(unknown, Some(ErrorKind::InvalidInput));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn tenant(&self, name: &str) -> Result<&R, Error> {
        self.find(name).map(|cache| &**cache)
    }

    /// The cache of a tenant, or `None` if there is no tenant of this name.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// assert!(tenants.get("photos").is_some() && tenants.get("pages").is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn get(&self, name: &str) -> Option<&R> {
        self.tenants.iter().find(|(known, _)| known == name).map(|(_, cache)| &**cache)
    }

    /// The cache of a tenant, to be shared with a server. [`Tenants::close`] closes it for all.
    ///
    /// # Errors
    /// As [`Tenants::tenant`].
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// let photos = tenants.tenant_shared("photos")?;
    /// std::thread::spawn(move || block_on(photos.set(b"bread", b"jpeg", None))).join().unwrap()?;
    /// assert!(block_on(tenants.tenant("photos")?.contains(b"bread"))?);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn tenant_shared(&self, name: &str) -> Result<Arc<R>, Error> {
        self.find(name).map(Arc::clone)
    }

    fn find(&self, name: &str) -> Result<&Arc<R>, Error> {
        let found = self.tenants.iter().find(|(known, _)| known == name);
        found.map(|(_, cache)| cache).ok_or_else(|| {
            let known: Vec<&str> = self.iter().map(|(name, _)| name).collect();
            let message = format!("no tenant {name:?}: there are {}", known.join(", "));
            Error::new(ErrorKind::InvalidInput, message)
        })
    }

    /// All tenants with their names, in the order of the configuration.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 60.0), Tenant::new("pages", 40.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// assert!(tenants.iter().map(|(name, _)| name).eq(["photos", "pages"]));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, &R)> {
        self.tenants.iter().map(|(name, cache)| (name.as_str(), &**cache))
    }

    /// Bytes of the devices that no tenant has, plus the space of the tables at their start: room for future tenants,
    /// and growth of the devices. 0 without flash.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 60.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// assert_eq!(tenants.unused_bytes(), 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn unused_bytes(&self) -> u64 {
        let all: u64 = self.drives.iter().map(|drive| drive.device.info().capacity_bytes).sum();
        let part = |cache: &Larder| {
            cache.layout().map_or(0, |layout| layout.usable_bytes + cache.unused_bytes())
        };
        all - self.iter().flat_map(|(_, tenant)| tenant.caches()).map(part).sum::<u64>()
    }

    /// The sum of the counters of all tenants; [`Tenants::tenant`] leads to those of one. With several drives, the
    /// drive life is that of the drive that ends first.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 60.0), Tenant::new("pages", 40.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// for (_, cache) in tenants.iter() {
    ///     block_on(cache.get(b"bread"))?;
    /// }
    /// assert_eq!(tenants.stats().gets, 2);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        let drive_life = self.drive_life();
        Stats { drive_life, ..self.iter().map(|(_, tenant)| Routed::new(tenant).stats()).sum() }
    }

    /// The forecast for the drive that all tenants share, without the cost of [`Tenants::stats`]. With several
    /// drives, for the one that ends first. `None` without [`TenantsConfig::endurance`].
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// assert!(tenants.drive_life().is_none(), "there is no drive");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn drive_life(&self) -> Option<DriveLife> {
        let lives = self.drives.iter().filter_map(|drive| drive.life(&*self.clock));
        lives.min_by_key(|life| (life.days_left.unwrap_or(u64::MAX), life.left_bytes))
    }

    /// Changes [`TenantsConfig::dram_bytes`]: each tenant's share is recomputed, and memory leaves or comes as in
    /// [`Larder::set_dram_bytes`], with the minimum described there for each tenant. With
    /// [`TenantsConfig::memory_bytes`] this does nothing: see [`Tenants::set_memory_bytes`].
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 50.0), Tenant::new("pages", 50.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// tenants.set_dram_bytes(4 << 20);
    /// block_on(tenants.tenant("photos")?.set(b"bread", b"jpeg", None))?;
    /// assert!(tenants.stats().dram_used_bytes <= 4 << 20);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_dram_bytes(&self, bytes: u64) {
        self.budget.set_dram_bytes(bytes, self.iter().map(|(_, tenant)| tenant));
    }

    /// Changes [`TenantsConfig::memory_bytes`], if it is set; else does nothing. Returns whether it is set.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 50.0), Tenant::new("pages", 50.0)];
    /// let config = TenantsConfig { memory_bytes: Some(8 << 20), tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// tenants.set_memory_bytes(4 << 20);
    /// block_on(tenants.tenant("photos")?.set(b"bread", b"jpeg", None))?;
    /// assert!(tenants.stats().dram_used_bytes <= 4 << 20);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_memory_bytes(&self, bytes: u64) -> bool {
        self.budget.set_memory_bytes(bytes)
    }

    /// [`Larder::rebuild`] of every tenant, one after the other.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// assert_eq!(block_on(tenants.rebuild()), 0, "there is no flash");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn rebuild(&self) -> u64 {
        let mut looked_at = 0;
        for (_, tenant) in self.iter() {
            looked_at += Routed::new(tenant).rebuild().await;
        }
        looked_at
    }

    /// [`Larder::send_demotions`] of every tenant, concurrently, until all are closed.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// block_on(tenants.send_demotions()); // there is no flash
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn send_demotions(&self) {
        let each = |(_, tenant)| async move { Routed::new(tenant).send_demotions().await };
        together(self.iter().map(each)).await;
    }

    /// [`Larder::flush`] of every tenant, one after the other.
    ///
    /// # Errors
    /// The first one; the tenants after it were not flushed.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// assert_eq!(block_on(tenants.flush())?.objects, 0, "there is no flash");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn flush(&self) -> Result<Flushed, Error> {
        let mut all = Flushed::default();
        for (name, tenant) in self.iter() {
            let flushed = Routed::new(tenant).flush().await;
            all += flushed.map_err(|error| error.of(&format!("tenant {name:?}")))?;
        }
        Ok(all)
    }

    /// [`Larder::clear`] of every tenant, one after the other.
    ///
    /// # Errors
    /// The first one; the tenants after it were not cleared.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// let photos = tenants.tenant("photos")?;
    /// block_on(photos.set(b"bread", b"jpeg", None))?;
    /// block_on(tenants.clear())?;
    /// assert!(block_on(photos.get(b"bread"))?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn clear(&self) -> Result<(), Error> {
        for (name, tenant) in self.iter() {
            let cleared = Routed::new(tenant).clear().await;
            cleared.map_err(|error| error.of(&format!("tenant {name:?}")))?;
        }
        Ok(())
    }

    /// [`Larder::close`] of every tenant. Returns the sum of their counters.
    ///
    /// # Errors
    /// The first one, after all were closed. A tenant that failed starts empty next time, unless another call
    /// succeeds; the device is free when this is dropped.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// block_on(tenants.tenant("photos")?.set(b"bread", b"jpeg", None))?;
    /// assert_eq!(block_on(tenants.close())?.sets, 1);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn close(&self) -> Result<Stats, Error> {
        let each = |(_, tenant)| async move { Routed::new(tenant).close().await };
        self.closed(together(self.iter().map(each)).await)
    }

    /// [`Larder::close_within`] of every tenant, concurrently. Returns the sum of their counters.
    ///
    /// # Errors
    /// As [`Tenants::close`].
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// let closed = block_on(tenants.close_within(std::time::Duration::from_secs(5)))?;
    /// assert_eq!(closed.left_out_objects, 0);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn close_within(&self, time: Duration) -> Result<Stats, Error> {
        let each = |(_, tenant)| async move { Routed::new(tenant).close_within(time).await };
        self.closed(together(self.iter().map(each)).await)
    }

    fn closed(&self, ended: Vec<Result<Stats, Error>>) -> Result<Stats, Error> {
        let named = self.iter().zip(ended).map(|((name, _), closed)| {
            closed.map_err(|error| error.of(&format!("tenant {name:?}")))
        });
        let closed = named.collect::<Result<Vec<_>, _>>()?;
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(closed.into_iter().sum())
    }
}
