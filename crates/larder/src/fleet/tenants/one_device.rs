//! Tenants on parts of one device, or in DRAM: a cache for each.

use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{Claim, Clock, Device};

use super::budget::Budget;
use super::caches::Shares;
use super::config::TenantsConfig;
use super::division::divide;
use super::{Drive, Tenants};
use crate::base::error::{Error, ErrorKind};
use crate::cache::Larder;
use crate::flash::plan::PlacementPlan;
use crate::fleet::partition::{self, Division, PartitionTable};
use crate::fleet::shards::tenancy::ShardDevice;
use crate::observe::events;

impl Tenants {
    /// Opens all tenants. Each finds its old content; a new tenant starts empty in a free part of the device.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for settings that cannot work, do not fit the device, or would cost existing tenants
    /// their content; [`ErrorKind::InUse`] if another cache uses the device or a part of it; [`ErrorKind::Foreign`]
    /// if the device holds other data, for example a cache without tenants; [`ErrorKind::Device`] if metadata cannot
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
        let shares = Shares { config: &config, devices: 1 };
        let (caches, plan) = match device.as_ref().zip(claim.as_ref()) {
            Some((device, claim)) => {
                let (parts, plan) = prepare(&shares, device).await?;
                let on = ShardDevice { device, claim, parts: &parts };
                (shares.open(None, Some((on, &plan)), &clock, &[]).await?, plan)
            }
            None => (shares.open(None, None, &clock, &[]).await?, PlacementPlan::default()),
        };
        let caches: Vec<Arc<Larder>> = caches.into_iter().map(Arc::new).collect();
        let budget = Budget::divide(&config, caches.iter().map(|cache| vec![Arc::clone(cache)]))?;
        let drives = device.map(|device| Drive::new(device, &config, &*clock));
        Ok(Self::of(&config, caches, budget, (claim, drives, vec![plan]), clock))
    }

    /// The placement handle of each write stream of each tenant, with the reason. Empty without flash. If each tenant
    /// has a device of its own, the handles are those of that device.
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
        &self.plans[0]
    }
}

/// Divides the device, and makes one plan for its handles.
async fn prepare(
    shares: &Shares<'_>,
    device: &Arc<dyn Device>,
) -> Result<(Vec<partition::Part>, PlacementPlan), Error> {
    let found = partition::read(device, shares.config.start_empty).await?;
    if found.as_ref().is_some_and(|table| table.membership.is_some()) {
        let message = format!(
            "{} is a shard of a set; open it as Shards, or with Tenants::open_sharded, or erase its first 128 KiB",
            device.info().name
        );
        return Err(Error::new(ErrorKind::Foreign, message));
    }
    let division = divide(shares.config, device.info(), found.as_ref())?;
    let plan = shares.plan(device.info(), &division.parts)?;
    partition::erase(device, &division).await?;
    if division.is_changed {
        let (generation, uuid) =
            found.map_or_else(|| (0, Uuid::draw()), |table| (table.generation, table.uuid));
        let (generation, parts) = (generation + 1, division.parts.clone());
        let table = PartitionTable { uuid, generation, membership: None, parts };
        partition::write(device, &table).await?;
    }
    let Division { parts, .. } = division;
    Ok((parts, plan))
}
