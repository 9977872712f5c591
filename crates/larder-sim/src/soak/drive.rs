//! The drives of the test.

use std::sync::Arc;

use larder_device::{FaultPlan, ModelDevice, Payload};
use larder_ssd::managed::{Geometry, ManagedConfig};

use super::device::StagedDevice;
use super::plan::{DRIVE_BYTES, Plan, UNIT_BYTES};

/// Spare space of the drive, in percent.
const OVERPROVISIONING_PERCENT: f64 = 60.0;

/// An unwritten drive.
pub(super) fn fresh_device(
    name: String,
    plan: &Plan,
    rng: &mut fastrand::Rng,
) -> Arc<StagedDevice> {
    let geometry =
        Geometry::with_overprovisioning(DRIVE_BYTES, UNIT_BYTES, OVERPROVISIONING_PERCENT);
    let geometry = geometry.expect("the geometry is ours");
    let config = ManagedConfig { fdp: plan.fdp, ..ManagedConfig::new(geometry) };
    let model = ModelDevice::new(config, Payload::Memory).expect("the drive is ours");
    let mut faults = FaultPlan::new(rng.u64(..))
        .volatile_writes(if plan.volatile { plan.unflushed_writes } else { 0 })
        .volatile_cache(!plan.keeps_without_power);
    if let Some(bytes) = plan.atomic_write_bytes {
        faults = faults.atomic_write_bytes(bytes);
    }
    Arc::new(StagedDevice::new((name, model), &faults, plan.delays, rng.u64(..)))
}
