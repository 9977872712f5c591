//! Opens the caches of all tenants on the parts of one device, with one plan for its placement handles.

use std::sync::Arc;

use larder_device::{Claim, Clock, Device, DeviceInfo, PlacementHandle, SliceDevice};

use super::config::{Tenant, TenantsConfig};
use crate::base::error::Error;
use crate::cache::Larder;
use crate::cache::memory::check_before;
use crate::config::Config;
use crate::dram::versions::Versions;
use crate::flash::plan::{self, Class, PlacementPlan};
use crate::fleet::partition::{Part, ShardNumber};
use crate::fleet::shards::alone::config_of;
use crate::fleet::shards::tenancy::ShardDevice;

/// The tenants' shares of one of their devices.
pub(super) struct Shares<'a> {
    pub(super) config: &'a TenantsConfig,
    /// Number of devices.
    pub(super) devices: u64,
}

impl Shares<'_> {
    /// The configuration of a tenant's cache. Its DRAM budget is only the initial one if there is a budget of all
    /// memory.
    pub(super) fn config_of(&self, tenant: &Tenant, shard: Option<ShardNumber>) -> Config {
        let all = self.config.memory_bytes.unwrap_or(self.config.dram_bytes);
        let part = |bytes: u64| bytes / self.devices;
        let config = Config {
            dram_bytes: part(tenant.dram_bytes(all)),
            demoting_bytes_max: tenant.config.demoting_bytes_max.map(part),
            ..tenant.config.clone()
        };
        shard.map_or(config.clone(), |shard| config_of(&config, shard))
    }

    /// One plan for the streams of all tenants on a device.
    ///
    /// # Errors
    /// If their options cannot work with their parts, or their parts with the device's reclaim groups.
    pub(super) fn plan(&self, info: &DeviceInfo, parts: &[Part]) -> Result<PlacementPlan, Error> {
        let tenants = self.config.tenants.iter();
        let own = tenants
            .zip(parts)
            .map(|(tenant, part)| (tenant.name.as_str(), self.config_of(tenant, None), part.bytes));
        let tenants: Vec<_> = own.collect();
        let plan = plan::plan(&tenants, info)?;
        let caches = tenants.iter().map(|(_, config, capacity_bytes)| {
            (config, DeviceInfo { capacity_bytes: *capacity_bytes, ..info.clone() })
        });
        check_before(self.config.memory_bytes, caches, "flash of all tenants")?;
        check_groups(&plan, info, parts)?;
        Ok(plan)
    }

    /// Opens a cache for each tenant: on its part of the device, or in DRAM. `versions` are the version counters that
    /// each tenant's caches on other devices use, if there are any.
    pub(super) async fn open(
        &self,
        shard: Option<ShardNumber>,
        on: Option<(ShardDevice<'_>, &PlacementPlan)>,
        clock: &Arc<dyn Clock>,
        versions: &[Arc<Versions>],
    ) -> Result<Vec<Larder>, Error> {
        let mut caches = Vec::new();
        let sharing = self.config.sharing(clock);
        for (at, tenant) in self.config.tenants.iter().enumerate() {
            let whose = |error: Error| error.of(&format!("tenant {:?}", tenant.name));
            let slice = on.map(|(on, plan)| slice(&on, &on.parts[at], plan, tenant));
            let slice = slice.transpose().map_err(whose)?;
            let slice = slice
                .map(|(device, claim)| (self.config.shared(sharing.as_ref(), at, device), claim));
            let placed = on.map(|(_, plan)| (plan.of_tenant(&tenant.name), tenant.name.clone()));
            let config = self.config_of(tenant, shard);
            let (clock, versions) = (Arc::clone(clock), versions.get(at).cloned());
            let cache = Larder::open_placed(config, slice, clock, placed, versions).await;
            caches.push(cache.map_err(whose)?);
        }
        Ok(caches)
    }
}

/// Checks that each reclaim group has room for the parts that are placed in it.
fn check_groups(plan: &PlacementPlan, info: &DeviceInfo, parts: &[Part]) -> Result<(), Error> {
    let placement = &info.placement;
    let room = info.capacity_bytes / u64::from(placement.groups());
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
                info.name,
                names.join(", "),
                placement.groups()
            )));
        }
    }
    Ok(())
}

/// The part of a tenant as a device, with all placement handles under their own numbers, and the claim of the device.
fn slice(
    on: &ShardDevice<'_>,
    part: &Part,
    plan: &PlacementPlan,
    tenant: &Tenant,
) -> Result<(Arc<dyn Device>, Arc<Claim>), Error> {
    debug_assert_eq!(part.name, tenant.name, "parts are in the order of tenants");
    let handles = 1..on.device.info().placement.handles;
    let handles: Vec<_> = handles.map(PlacementHandle::new).collect();
    let default = plan.handle_of(&tenant.name, Class::Metadata);
    let slice = SliceDevice::new(Arc::clone(on.device), part.range(), &handles)
        .and_then(|slice| slice.defaulting_to(default))
        .map_err(|error| Error::device("its part", error))?;
    Ok((Arc::new(slice.counting_its_own()), Arc::clone(on.claim)))
}
