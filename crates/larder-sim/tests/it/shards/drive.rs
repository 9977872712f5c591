//! Drives in virtual time that fail, or are slow, on demand.

use std::sync::Arc;

use larder_device::model::virtual_time::{Shape, ShapedStorage, VirtualTimeDevice};
use larder_device::{Clock, DegradedDevice, Payload, VirtualClock};

pub(super) type Drive = Arc<DegradedDevice<VirtualTimeDevice<ShapedStorage>>>;

/// An empty drive of 8 MiB.
pub(super) fn drive(shape: Shape, clock: &Arc<VirtualClock>) -> Drive {
    let storage = ShapedStorage::new(shape, 8 << 20).unwrap();
    let timed = VirtualTimeDevice::new(storage, Payload::Memory, Arc::clone(clock)).unwrap();
    Arc::new(DegradedDevice::new(timed, Arc::clone(clock) as Arc<dyn Clock>))
}
