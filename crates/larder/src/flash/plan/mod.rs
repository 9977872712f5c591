//! The placement plan of caches: their streams, and the plan that `larder-device` computes for them.

mod streams;

use larder_device::DeviceInfo;

pub use larder_device::plan::{Assignment, Class, PlacementPlan, Why};

use crate::base::error::Error;
use crate::base::layout::Layout;
use crate::config::Config;
pub(crate) use larder_device::plan::{Stream, solve};
pub(crate) use streams::streams_of;

/// The plan for several tenants on one device: their names, options and bytes of the device. It assumes that a tenant's
/// writes are proportional to its part. [`Tenants`](crate::Tenants) follows this plan.
///
/// # Errors
/// [`ErrorKind::Config`](crate::ErrorKind::Config) if a tenant's options cannot work with its part.
///
/// ```
/// use larder::{Config, plan};
/// use larder_device::{Device, ModelDevice, Payload};
/// use larder_ssd::managed::{Geometry, ManagedConfig};
///
/// let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 20.0).unwrap();
/// let drive = ModelDevice::new(ManagedConfig::new(geometry), Payload::None).unwrap();
/// let tenants = [("photos", Config::default(), 40 << 20), ("pages", Config::default(), 20 << 20)];
/// let plan = plan::plan(&tenants, drive.info())?;
/// assert_eq!(plan.handle_of("pages", plan::Class::Loc).index(), 2);
/// # Ok::<(), larder::Error>(())
/// ```
pub fn plan(tenants: &[(&str, Config, u64)], device: &DeviceInfo) -> Result<PlacementPlan, Error> {
    let mut streams = Vec::new();
    for (tenant, config, bytes) in tenants {
        let info = DeviceInfo { capacity_bytes: *bytes, ..device.clone() };
        let own = checked_streams(tenant, config, &info);
        let own = own.map_err(|error| error.of(&format!("tenant {tenant:?}")))?.into_iter();
        let share = part_of(*bytes, device.capacity_bytes);
        streams.extend(own.map(|one| Stream { write_share: one.write_share * share, ..one }));
    }
    Ok(solve(&streams, &device.placement))
}

/// The plan of a tenant that has `device` to itself.
pub(crate) fn of_one(
    tenant: &str,
    config: &Config,
    device: &DeviceInfo,
) -> Result<PlacementPlan, Error> {
    Ok(solve(&checked_streams(tenant, config, device)?, &device.placement))
}

fn checked_streams(tenant: &str, config: &Config, on: &DeviceInfo) -> Result<Vec<Stream>, Error> {
    config.check()?;
    Ok(streams_of(config, &Layout::plan(config, on)?, tenant))
}

#[allow(clippy::cast_precision_loss)] // an estimate
fn part_of(bytes: u64, whole: u64) -> f64 {
    bytes as f64 / whole.max(1) as f64
}
