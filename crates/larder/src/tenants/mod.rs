//! Several tenants on one device, each with flash, DRAM, keys, statistics and options of its own.
//!
//! A tenant is a whole cache on a part of the device. Nothing is shared but the drive: one tenant's
//! writes evict nothing of another's, and the same key is another item in each. The placement
//! handles of the device are given out to all of them by one [`plan`].

mod config;
mod division;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_device::{Claim, Clock, Device, PlacementHandle, SliceDevice};

use crate::cache::lending::{Lending, Member, part_of};
use crate::cache::{Flushed, Larder};
use crate::config::{Config, DRAM_BYTES_MAX, DRAM_BYTES_MIN};
use crate::endurance::Wear;
use crate::error::{Error, ErrorKind};
use crate::events;
use crate::partition::{self, Part};
use crate::plan::{self, Class, PlacementPlan};
use crate::side_by_side::together;
use crate::stats::Stats;
pub use config::{Tenant, TenantsConfig};
use division::Division;

/// Several tenants on one device, or in DRAM only.
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
pub struct Tenants {
    /// Given back before the device is, and by a close.
    claim: Mutex<Option<Arc<Claim>>>,
    tenants: Vec<(String, Arc<Larder>)>,
    /// If they have one budget of all memory, or somebody may borrow.
    lending: Option<Arc<Lending>>,
    /// Their shares of DRAM.
    percents: Vec<f64>,
    placement: PlacementPlan,
    device: Option<Arc<dyn Device>>,
    wear: Option<Wear>,
    clock: Arc<dyn Clock>,
}

impl Tenants {
    /// Opens all tenants. Each finds what it had; who is new starts empty in a free part of the
    /// device.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for settings that cannot work, do not fit the device, or would cost
    /// tenants that the device has their content; [`ErrorKind::InUse`] if another cache has the device
    /// or a part of it; [`ErrorKind::Foreign`] if the device holds
    /// something else, a cache without tenants for example; [`ErrorKind::Device`] if metadata cannot
    /// be read or written.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::{ErrorKind, RealClock, Tenant, Tenants, TenantsConfig, block_on};
    ///
    /// let tenants = vec![Tenant::new("photos", 60.0), Tenant::new("pages", 50.0)];
    /// let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// let refused = block_on(Tenants::open(config, None, Arc::new(RealClock)));
    /// assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Config));
    /// ```
    pub async fn open(
        config: TenantsConfig,
        device: Option<Arc<dyn Device>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        Self::open_all(config, device, clock).await.inspect_err(events::opening_refused)
    }

    async fn open_all(
        config: TenantsConfig,
        device: Option<Arc<dyn Device>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        config.check()?;
        let claim = device.as_ref().map(Claim::take).transpose()?.map(Arc::new);
        let mut placement = PlacementPlan::default();
        let mut slices = Vec::new();
        if let Some(device) = &device {
            let found = partition::read(device, config.start_empty).await?;
            let division = Division::plan(&config, device.info(), found.as_ref())?;
            placement = plan_placement(&config, device, &division.parts)?;
            slices = config
                .tenants
                .iter()
                .zip(&division.parts)
                .map(|(tenant, part)| slice(device, part, &placement, &tenant.name))
                .collect::<Result<_, _>>()?;
            // First what is given up: its old table must not lead to it once others lie in it.
            for part in division.given_up.iter().chain(&division.new) {
                partition::erase_front(device, part).await?;
            }
            if let Some(table) = &division.table {
                partition::write(device, table).await?;
            }
        }
        let mut slices = slices.into_iter();
        let mut tenants = Vec::new();
        for tenant in &config.tenants {
            let own = tenant.cache_config(config.memory_bytes.unwrap_or(config.dram_bytes));
            let slice = slices.next().map(|slice| Arc::new(slice) as Arc<dyn Device>);
            let placed = Some((placement.of_tenant(&tenant.name), tenant.name.clone()));
            let cache =
                Larder::open_placed(own, slice.zip(claim.clone()), Arc::clone(&clock), placed)
                    .await;
            let cache = cache.map_err(|error| error.of(&format!("tenant {:?}", tenant.name)))?;
            tenants.push((tenant.name.clone(), Arc::new(cache)));
        }
        let wear = config.endurance.zip(device.as_ref());
        let wear = wear.map(|(endurance, device)| Wear::new(endurance, device, clock.now()));
        let lending = lending(&config, &tenants)?;
        let percents = config.tenants.iter().map(|tenant| tenant.dram_percent).collect();
        let claim = Mutex::new(claim);
        Ok(Self { claim, tenants, lending, percents, placement, device, wear, clock })
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
    pub fn tenant(&self, name: &str) -> Result<&Larder, Error> {
        let found = self.iter().find(|(known, _)| *known == name);
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
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Larder)> {
        self.tenants.iter().map(|(name, cache)| (name.as_str(), &**cache))
    }

    /// Which stream of which tenant writes with which placement handle, and why. Empty without flash.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// assert!(tenants.placement().streams().is_empty());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn placement(&self) -> &PlacementPlan {
        &self.placement
    }

    /// Bytes of the device that no tenant has, and some in front that the table takes: for tenants to
    /// come, and what the device has grown by. 0 without flash.
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
        let all = self.device.as_ref().map_or(0, |device| device.info().capacity_bytes);
        let part = |cache: &Larder| {
            cache.layout().map_or(0, |layout| layout.usable_bytes + cache.unused_bytes())
        };
        all - self.iter().map(|(_, cache)| part(cache)).sum::<u64>()
    }

    /// The counters of all tenants together; [`Tenants::tenant`] leads to those of one.
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
        let drive_life = self.wear.as_ref().zip(self.device.as_ref());
        let drive_life = drive_life.map(|(wear, device)| wear.forecast(device, self.clock.now()));
        Stats { drive_life, ..self.iter().map(|(_, cache)| cache.stats()).sum() }
    }

    /// Changes [`TenantsConfig::dram_bytes`]: each tenant's share is that of so many bytes, and leaves or comes as
    /// [`Larder::set_dram_bytes`] says. Less than it says there is taken so, for each tenant. Where there is
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
        let bytes = bytes.min(DRAM_BYTES_MAX);
        match &self.lending {
            Some(lending) if !lending.is_of_all() => lending.set_bytes(bytes),
            Some(_) => {}
            None => self.tenants.iter().zip(&self.percents).for_each(|((_, cache), percent)| {
                cache.set_dram_bytes(part_of(bytes, *percent).max(DRAM_BYTES_MIN));
            }),
        }
    }

    /// Changes [`TenantsConfig::memory_bytes`], where there is one; else this does nothing.
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
    pub fn set_memory_bytes(&self, bytes: u64) {
        if let Some(lending) = self.lending.as_ref().filter(|lending| lending.is_of_all()) {
            lending.set_bytes(bytes.clamp(DRAM_BYTES_MIN, DRAM_BYTES_MAX));
        }
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
        for (_, cache) in self.iter() {
            looked_at += cache.rebuild().await;
        }
        looked_at
    }

    /// [`Larder::send_departures`] of every tenant, all at once, until all are closed.
    ///
    /// ```
    /// # use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// # let tenants = vec![Tenant::new("photos", 100.0)];
    /// # let config = TenantsConfig { tenants, ..TenantsConfig::default() };
    /// # let tenants = block_on(Tenants::open(config, None, std::sync::Arc::new(RealClock)))?;
    /// block_on(tenants.send_departures()); // there is no flash
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn send_departures(&self) {
        together(self.iter().map(|(_, cache)| cache.send_departures())).await;
    }

    /// [`Larder::flush`] of every tenant, one after the other.
    ///
    /// # Errors
    /// The first one; the tenants behind it were not flushed.
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
        for (name, cache) in self.iter() {
            let flushed = cache.flush().await;
            all += flushed.map_err(|error| error.of(&format!("tenant {name:?}")))?;
        }
        Ok(all)
    }

    /// [`Larder::clear`] of every tenant, one after the other.
    ///
    /// # Errors
    /// The first one; the tenants behind it were not cleared.
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
        for (name, cache) in self.iter() {
            let cleared = cache.clear().await;
            cleared.map_err(|error| error.of(&format!("tenant {name:?}")))?;
        }
        Ok(())
    }

    /// [`Larder::close`] of every tenant. Returns their counters together.
    ///
    /// # Errors
    /// The first one, after all were closed. Who failed starts empty next time, unless another call
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
        self.closed(together(self.iter().map(|(_, cache)| cache.close())).await)
    }

    /// [`Larder::close_within`] of every tenant, side by side. Returns their counters together.
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
        self.closed(together(self.iter().map(|(_, cache)| cache.close_within(time))).await)
    }

    fn closed(&self, ended: Vec<Result<Stats, Error>>) -> Result<Stats, Error> {
        let named = self.iter().zip(ended).map(|((name, _), closed)| {
            closed.map_err(|error| error.of(&format!("tenant {name:?}")))
        });
        let closed = named.collect::<Result<Vec<_>, _>>()?;
        drop(self.claim.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(closed.into_iter().sum())
    }
}

impl Tenant {
    fn cache_config(&self, dram_bytes: u64) -> Config {
        Config { dram_bytes: self.dram_bytes(dram_bytes), ..self.config.clone() }
    }
}

/// What these tenants have together of memory, if it is more than fixed parts.
fn lending(
    config: &TenantsConfig,
    caches: &[(String, Arc<Larder>)],
) -> Result<Option<Arc<Lending>>, Error> {
    let may_borrow = config.tenants.iter().any(|tenant| tenant.dram_borrow_max_bytes > 0);
    if config.memory_bytes.is_none() && !may_borrow {
        return Ok(None);
    }
    let bytes = config.memory_bytes.unwrap_or(config.dram_bytes);
    let lending = Lending::new(bytes, config.memory_bytes.is_some());
    let members = config.tenants.iter().zip(caches).map(|(tenant, (_, cache))| Member {
        cache: Arc::downgrade(cache),
        percent: tenant.dram_percent,
        borrow_max: tenant.dram_borrow_max_bytes,
    });
    lending.begin(members.collect())?;
    Ok(Some(lending))
}

/// One plan for the streams of all tenants.
fn plan_placement(
    config: &TenantsConfig,
    device: &Arc<dyn Device>,
    parts: &[Part],
) -> Result<PlacementPlan, Error> {
    let own = config.tenants.iter().zip(parts).map(|(tenant, part)| {
        (tenant.name.as_str(), tenant.cache_config(config.dram_bytes), part.bytes)
    });
    let tenants: Vec<_> = own.collect();
    let plan = plan::plan(&tenants, device.info())?;
    check_groups(&plan, device, parts)?;
    Ok(plan)
}

/// A reclaim group has room for its part of the device only.
fn check_groups(
    plan: &PlacementPlan,
    device: &Arc<dyn Device>,
    parts: &[Part],
) -> Result<(), Error> {
    let placement = &device.info().placement;
    let room = device.info().capacity_bytes / u64::from(placement.groups());
    for group in 0..placement.groups() {
        let is_in = |part: &&Part| {
            let handle = plan.handle_of(&part.name, Class::Metadata);
            handle.index() / placement.handles_per_group() == group
        };
        let members: Vec<&Part> = parts.iter().filter(is_in).collect();
        let bytes: u64 = members.iter().map(|part| part.bytes).sum();
        if bytes > room {
            let names: Vec<&str> = members.iter().map(|part| part.name.as_str()).collect();
            return Err(Error::config(format!(
                "reclaim group {group} of {} has room for {room} bytes, and {} would get {bytes} of it; \
                 use smaller shares, so that tenants spread over its {} groups",
                device.info().name,
                names.join(", "),
                placement.groups()
            )));
        }
    }
    Ok(())
}

/// The part of a tenant, with all handles of the device under their own numbers.
fn slice(
    device: &Arc<dyn Device>,
    part: &Part,
    plan: &PlacementPlan,
    tenant: &str,
) -> Result<SliceDevice<Arc<dyn Device>>, Error> {
    let handles = 1..device.info().placement.handles;
    let handles: Vec<_> = handles.map(PlacementHandle::new).collect();
    let default = plan.handle_of(tenant, Class::Metadata);
    SliceDevice::new(Arc::clone(device), part.range(), &handles)
        .and_then(|slice| slice.defaulting_to(default))
        .map(SliceDevice::counting_its_own)
        .map_err(|error| Error::device(format!("tenant {tenant:?}"), error))
}
