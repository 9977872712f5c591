//! Tenants with a device each: their own drives, or virtual SSDs of one array.

use std::sync::Arc;

use larder_device::{Claim, Clock, Device};

use super::budget::Budget;
use super::caches::Shares;
use super::config::{Tenant, TenantsConfig};
use super::{Drive, Tenants};
use crate::base::error::Error;
use crate::cache::Larder;
use crate::flash::plan::{self, PlacementPlan};
use crate::observe::events;

impl Tenants {
    /// Opens each tenant on a device of its own, all of which it uses: there is no partition table, and
    /// [`Larder::open`] can open the device as well. A failure of one device does not affect tenants on others. DRAM
    /// is divided as in [`Tenants::open`].
    ///
    /// `config.tenants` must be empty, because each tenant comes with its device. [`Tenant::flash_percent`],
    /// [`TenantsConfig::drop_others`] and [`TenantsConfig::on_change`] are not used. [`TenantsConfig::start_empty`]
    /// applies to all, in addition to each tenant's own [`Tenant::config`]. [`TenantsConfig::endurance`] is the
    /// rating of each device. With [`TenantsConfig::device_depth`] the devices are taken for parts of one drive, whose
    /// time the tenants share.
    ///
    /// # Errors
    /// As [`Larder::open`], with the name of the tenant; [`ErrorKind::Config`](crate::ErrorKind::Config) also for
    /// tenants in `config`, [`ErrorKind::InUse`](crate::ErrorKind::InUse) also if the ranges of two of the devices
    /// overlap.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::{Device, RealClock, Tenant, Tenants, TenantsConfig, block_on};
    /// use larder_device::MemoryDevice;
    ///
    /// let device = || -> Arc<dyn Device> { Arc::new(MemoryDevice::holding(vec![0; 64 << 20])) };
    /// let config = TenantsConfig { dram_bytes: 8 << 20, ..TenantsConfig::default() };
    /// let tenants = vec![(Tenant::new("photos", 60.0), device()), (Tenant::new("pages", 40.0), device())];
    /// let tenants = block_on(Tenants::open_on(config, tenants, Arc::new(RealClock)))?;
    /// block_on(tenants.tenant("photos")?.set(b"bread", b"jpeg", None))?;
    /// assert!(block_on(tenants.tenant("pages")?.get(b"bread"))?.is_none());
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn open_on(
        config: TenantsConfig,
        tenants: Vec<(Tenant, Arc<dyn Device>)>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        Self::open_each(config, tenants, clock).await.inspect_err(events::opening_refused)
    }

    async fn open_each(
        config: TenantsConfig,
        tenants: Vec<(Tenant, Arc<dyn Device>)>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        if !config.tenants.is_empty() {
            return Err(Error::config(format!(
                "tenants: {} of them have no device: leave the list empty, and bring each with its device",
                config.tenants.len()
            )));
        }
        let (tenants, devices) = owners_of_all(tenants, config.start_empty);
        let config = TenantsConfig { tenants, ..config };
        config.check()?;
        let shares = Shares { config: &config, devices: 1 };
        let sharing = config.sharing(&clock);
        let (mut caches, mut claims) = (Vec::new(), Vec::new());
        let mut plan = PlacementPlan::default();
        for (at, (tenant, device)) in config.tenants.iter().zip(&devices).enumerate() {
            let device = config.shared(sharing.as_ref(), at, Arc::clone(device));
            let opened = open_one(&shares, tenant, &device, &clock).await;
            let (cache, claim, own) =
                opened.map_err(|error| error.of(&format!("tenant {:?}", tenant.name)))?;
            caches.push(Arc::new(cache));
            claims.push(claim);
            plan = plan.beside(own);
        }
        let budget = Budget::divide(&config, caches.iter().map(|cache| vec![Arc::clone(cache)]))?;
        let drives = devices.into_iter().map(|device| Drive::new(device, &config, &*clock));
        let drives: Vec<Drive> = drives.collect();
        Ok(Self::of(&config, caches, budget, (claims, drives, vec![plan]), clock))
    }
}

/// The tenants, each with all of its device.
fn owners_of_all(
    tenants: Vec<(Tenant, Arc<dyn Device>)>,
    start_empty: bool,
) -> (Vec<Tenant>, Vec<Arc<dyn Device>>) {
    #[allow(clippy::cast_precision_loss)] // few
    let flash_percent = 100.0 / tenants.len().max(1) as f64;
    let own = |(mut tenant, device): (Tenant, Arc<dyn Device>)| {
        tenant.config.start_empty |= start_empty;
        (Tenant { flash_percent, ..tenant }, device)
    };
    tenants.into_iter().map(own).unzip()
}

async fn open_one(
    shares: &Shares<'_>,
    tenant: &Tenant,
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
) -> Result<(Larder, Arc<Claim>, PlacementPlan), Error> {
    let claim = Arc::new(Claim::take(device)?);
    let config = shares.config_of(tenant, None);
    let info = device.info();
    let plan = plan::of_one(&tenant.name, &config, info)?;
    let on = Some((Arc::clone(device), Arc::clone(&claim)));
    let placed = Some((plan.clone(), tenant.name.clone()));
    let cache = Larder::open_placed(config, on, Arc::clone(clock), placed, None).await?;
    Ok((cache, claim, plan))
}
