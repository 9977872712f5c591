//! The configurations of the simulated drive and of the cache, from the options.

use larder::config::Demotions;
use larder::{ArrayConfig, Config, CrashSafety, LocConfig, SocConfig};
use larder_device::Isolation;
use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig};

use super::options::{EngineOptions, ReplayOptions};
use crate::Error;

/// The simulated drive with `handles` reclaim unit handles.
pub(super) fn drive_config(
    options: &ReplayOptions,
    placement: bool,
    handles: u16,
) -> Result<ManagedConfig, Error> {
    let unit_bytes = options.resolved_unit_bytes();
    let geometry =
        Geometry::with_overprovisioning(options.drive_bytes(), unit_bytes, options.op_percent)
            .map_err(|error| no_such_drive(&error))?;
    Ok(ManagedConfig {
        handles,
        fdp: placement,
        gc_destination: match options.isolation {
            Isolation::InitiallyIsolated => GcDestination::Shared,
            Isolation::PersistentlyIsolated => GcDestination::PerHandle,
        },
        ..ManagedConfig::new(geometry)
    })
}

pub(super) fn no_such_drive(error: &dyn std::fmt::Display) -> Error {
    Error::usage(format!("--flash, --op, --ru describe no drive that could work: {error}"))
}

/// The region size of the array engine: as the user set it, or else that of `engines`, if the array engine is on.
fn array_region_bytes(options: &ReplayOptions, engines: EngineOptions) -> Option<u32> {
    let is_on = options.array.percent > 0.0;
    options.array.region_bytes.or(engines.region_bytes.filter(|_| is_on))
}

/// The configuration of the cache.
pub(super) fn config(options: &ReplayOptions, engines: EngineOptions, placement: bool) -> Config {
    Config {
        dram_bytes: options.dram_bytes,
        dram_policy: options.dram_policy,
        utilization_percent: options.utilization_percent,
        soc: SocConfig {
            percent: Some(options.soc_percent),
            log_percent: Some(options.soc_log_percent),
            log_threshold: SocConfig::default().log_threshold,
            max_object_bytes: options.soc_max_object_bytes,
            dynamic_placement: engines.dynamic_placement,
            layout: Some(options.soc_layout),
            pages_per_set: None,
            eviction: options.soc_eviction,
        },
        loc: LocConfig {
            region_bytes: engines.region_bytes,
            write_bytes: options.region_write_bytes(),
            eviction: options.region_eviction,
            reinsertion: options.reinsertion,
            ttl_classes: options.ttl_classes.clone(),
            ru_aware_eviction: engines.ru_aware_eviction,
            eager_index_objects: LocConfig::default().eager_index_objects,
        },
        array: ArrayConfig {
            region_bytes: array_region_bytes(options, engines),
            write_bytes: options.region_write_bytes(),
            ..options.array.clone()
        },
        admission: options.admission,
        placement,
        start_empty: true,
        // Makes every run the same.
        demotions: Demotions::Callers,
        // A replay never restarts its cache, and the papers do not count the writes of a tombstone log.
        crash_safety: if engines.tombstones { CrashSafety::Process } else { CrashSafety::Off },
        seed: options.seed,
        // The same keys collide in each run.
        hash_seed: Some(options.seed),
        ..Config::default()
    }
}
