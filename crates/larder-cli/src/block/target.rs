//! Opens devices to export, or creates them in memory.

use std::sync::Arc;

use indicatif::BinaryBytes;
use larder_device::{
    Device, FileOptions, MemoryDevice, ModelDevice, OpenOptions, Payload, PlacementMode, Target,
    opening, opening::TargetKind,
};
use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_workload::Error;

use crate::args::TargetArg;

/// Over-provisioning of a simulated SSD in percent, as in drives for servers.
const OVERPROVISIONING_PERCENT: f64 = 17.0;
/// Its reclaim units are a 256th of it, but at most this.
const UNIT_BYTES_MAX: u64 = 64 << 20;
/// Smallest reclaim unit; the SSD has at least 4 MiB.
const UNIT_BYTES_MIN: u64 = 16 << 10;

/// Opens or creates the device.
pub(super) fn open(target: &TargetArg) -> Result<Arc<dyn Device>, Error> {
    open_for(target, false)
}

/// The same for reading only: a file or a drive is not opened for writing.
pub(super) fn open_read_only(target: &TargetArg) -> Result<Arc<dyn Device>, Error> {
    open_for(target, true)
}

fn open_for(target: &TargetArg, read_only: bool) -> Result<Arc<dyn Device>, Error> {
    match target {
        // Mappings (`dax:`) are always opened for writing.
        TargetArg::Device(target) => {
            open_device(target, read_only && target.kind != Some(TargetKind::Dax))
        }
        TargetArg::Memory(bytes) => {
            let len = usize::try_from(*bytes)
                .map_err(|_| Error::usage(format!("memory:{bytes}: more than can be addressed")))?;
            let mut memory = Vec::new();
            let reserved = memory.try_reserve_exact(len);
            reserved.map_err(|error| Error::run(format!("memory:{bytes}: {error}")))?;
            memory.resize(len, 0);
            Ok(Arc::new(MemoryDevice::holding(memory)))
        }
        TargetArg::Model(bytes) => {
            let refused = |why: String| Error::usage(format!("model:{bytes}: {why}"));
            let unit = (bytes / 256).next_power_of_two().clamp(UNIT_BYTES_MIN, UNIT_BYTES_MAX);
            let geometry = Geometry::with_overprovisioning(*bytes, unit, OVERPROVISIONING_PERCENT)
                .map_err(|error| refused(error.to_string()))?;
            let model = ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory);
            Ok(Arc::new(model.map_err(|error| refused(error.to_string()))?))
        }
    }
}

/// The same target with an absolute path.
pub(super) fn absolute(target: &TargetArg) -> TargetArg {
    let TargetArg::Device(Target { kind, path }) = target else { return target.clone() };
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    TargetArg::Device(Target { kind: *kind, path })
}

/// Opens a file or a drive, with its content.
fn open_device(target: &Target, read_only: bool) -> Result<Arc<dyn Device>, Error> {
    let file = FileOptions { preallocate: false, read_only, ..FileOptions::default() };
    let options = OpenOptions { placement: PlacementMode::Off, file };
    let opened = opening::open_asking(&target.to_string(), &options, None);
    let fix = if target.path.exists() {
        String::new()
    } else {
        "; there is nothing at that path: is it mistyped, or a device that is not there?".to_owned()
    };
    let opened = opened.map_err(|error| Error::run(format!("{error}{fix}")))?;
    let device = opened.device;
    match opened.notice {
        Some(notice) => eprintln!("note: {notice}"),
        None if target.kind == Some(TargetKind::Dax) => {
            eprintln!(
                "note: {target} is mapped with MAP_SYNC: what was written outlives a loss of power"
            );
        }
        None => {}
    }
    let capacity = device.info().capacity_bytes;
    let there = std::fs::metadata(&target.path).map_or(0, |found| found.len());
    if there > capacity {
        eprintln!(
            "note: {target} has {there} bytes; the last {} fill no block of 4096 and are not exported",
            there - capacity
        );
    }
    Ok(device)
}

/// Describes the device for people.
pub(super) fn describe(target: &TargetArg, device: &dyn Device) -> String {
    let size = BinaryBytes(device.info().capacity_bytes);
    match target {
        TargetArg::Device(target) => format!("{size} of {target}"),
        TargetArg::Memory(_) => format!("{size} of memory"),
        TargetArg::Model(_) => format!("{size} of a simulated SSD"),
    }
}
