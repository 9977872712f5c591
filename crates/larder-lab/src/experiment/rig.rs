//! The common parts of the experiments with the real cache: the size of the drive, how a run is made, and the metrics.
//!
//! The drive is that of `larder replay`: 128 MiB in about 340 units, as many as a drive of 1.88 TB has, of 112 pages
//! each. It must not be smaller. A large object is written in one piece. If it is large relative to a unit, the unit
//! holds nothing else and dies as a whole. Then DLWA without placement is lower than on a real drive, whose units hold
//! thousands of objects. The KV cache on a full drive without placement has a DLWA of 1.7 on 16 MiB, 2.0 on 32, 2.8 on
//! 64, 3.3 on 128, 3.5 on 256 and 3.6 on 512. With objects of some kilobytes (Twitter's, `document`) it is the same on
//! 16 MiB as on larger drives.
//!
//! Each run ages the drive first (see [`shared`]), and the first half of its requests is also warm-up. Before the
//! measurement begins, the drive has been written over at least 12 times and the large-object engine has wrapped around
//! 3 times. Both numbers are among the metrics.

use super::measured::{highest, lowest};
use super::{Metrics, Parameter, Settings};
use crate::Error;
use crate::replay::shared::{self, SharedRun, Tenant};
use crate::replay::{EngineOptions, Monitor, ReplayOptions};

pub(super) const REQUESTS: Parameter =
    Parameter { name: "requests", default: "4000000", help: "requests of a run" };
/// Enough for a workload of only SETs, which writes twice as much per request.
pub(super) const REQUESTS_OF_WRITERS: Parameter =
    Parameter { name: "requests", default: "2000000", help: "requests of a run" };
/// Enough for Twitter's workload, which writes five times as much again.
pub(super) const REQUESTS_OF_TWITTER: Parameter =
    Parameter { name: "requests", default: "1000000", help: "requests of a run" };
pub(super) const FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "128",
    help: "capacity of the drive in MiB, 8 to 65536; DRAM is a 32nd of it",
};
/// As [`FLASH`], with the DRAM of Table 2 of the FDP paper: see [`table_2`].
pub(super) const TABLE_2_FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "128",
    help: "capacity of the drive in MiB, 8 to 65536; DRAM is 42 GB of 1880 GB of it",
};
/// For DLWA without placement on a drive with free room. Units must be large relative to the large objects of the KV
/// cache, whose average byte belongs to an object of a quarter of a mebibyte. Objects that fill a unit alone leave
/// nothing to copy (half of a drive of 128 MiB: DLWA 1.03; of 512 MiB: 1.26).
pub(super) const LARGE_FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "512",
    help: "capacity of the drive in MiB, 8 to 65536; DRAM is a 32nd of it; units must be large beside \
           the large objects",
};
pub(super) const REQUESTS_OF_LARGE: Parameter =
    Parameter { name: "requests", default: "8000000", help: "requests of a run" };
pub(super) const REQUESTS_OF_LARGE_WRITERS: Parameter =
    Parameter { name: "requests", default: "4000000", help: "requests of a run" };
pub(super) const OP: Parameter = Parameter {
    name: "op",
    default: "17",
    help: "over-provisioning, percent of the logical capacity (17 is fitted)",
};

pub(super) const DLWA_ON: (&str, &str) = ("dlwa.on.*", "DLWA with placement, by point");
pub(super) const DLWA_OFF: (&str, &str) = ("dlwa.off.*", "DLWA without placement, by point");
pub(super) const SOC_SHARE: (&str, &str) =
    ("soc_share.*", "share of the host's bytes that the small-object engine wrote");
pub(super) const DRIVE_WRITES: (&str, &str) =
    ("drive_writes_before.*", "times that the drive was written over before the measurement");
pub(super) const LOC_WRAPS: (&str, &str) =
    ("loc_wraps_before.*", "rounds of the large-object engine before the measurement");
pub(super) const DRIFT: (&str, &str) = (
    "drift.*",
    "share by which DLWA differs between the halves of the measurement, in the run with most of it",
);

/// The replay options of a preset on the drive of the experiments.
pub(super) fn options(
    preset: &str,
    settings: &Settings,
    seed: u64,
) -> Result<ReplayOptions, Error> {
    let flash_mib: u64 = settings.get("flash_mib")?;
    if !(8..=65_536).contains(&flash_mib) {
        let complaint = "must be 8 to 65536";
        return Err(settings.refuse("flash_mib", &flash_mib.to_string(), complaint));
    }
    let flash_bytes = flash_mib << 20;
    let options = ReplayOptions {
        requests: Some(settings.get("requests")?),
        flash_bytes,
        dram_bytes: flash_bytes / 32,
        ..ReplayOptions::of_preset(preset, seed)
    };
    // Fixed here, so that parts of the drive have the same unit size.
    Ok(ReplayOptions { unit_bytes: Some(options.resolved_unit_bytes()), ..options })
}

/// Flash of the FDP paper's drive, and DRAM of its KV Cache, in GB. Table 2 has less DRAM too.
const TABLE_2_FLASH_GB: f64 = 1880.0;
pub(super) const TABLE_2_DRAM_GB: f64 = 42.0;

/// The replay options of the FDP paper's KV Cache on a full drive, with `dram_gb` GB of DRAM beside its 1880 GB of
/// flash: the workload that is fitted to Table 2, in the proportions of Table 2.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
#[allow(clippy::cast_sign_loss)] // a part of the drive's size
pub(super) fn table_2(
    settings: &Settings,
    seed: u64,
    dram_gb: f64,
) -> Result<ReplayOptions, Error> {
    let options = options("meta-kv-table2", settings, seed)?;
    let dram_bytes = (options.flash_bytes as f64 * dram_gb / TABLE_2_FLASH_GB) as u64;
    Ok(ReplayOptions { dram_bytes, ..options })
}

/// Runs a single cache on a drive.
pub(super) fn alone(
    options: &ReplayOptions,
    placement: bool,
    monitor: &Monitor,
) -> Result<SharedRun, Error> {
    alone_with(options, EngineOptions::default(), placement, monitor)
}

/// Runs a single cache on a drive, with special engine options.
pub(super) fn alone_with(
    options: &ReplayOptions,
    engines: EngineOptions,
    placement: bool,
    monitor: &Monitor,
) -> Result<SharedRun, Error> {
    let drive = shared::drive(options, placement, shared::HANDLES)?;
    let device = std::sync::Arc::clone(&drive);
    let tenant = Tenant { engines, ..Tenant::new(options.clone(), device) };
    shared::play(&drive, &[tenant], placement, &mut |_| Ok(()), monitor)
}

/// Runs with and without placement on two threads. With an odd number of seeds this keeps two cores busier than
/// sequential runs.
pub(super) fn with_and_without<T: Send>(
    run: impl Fn(bool) -> Result<T, Error> + Sync,
) -> Result<[(&'static str, T); 2], Error> {
    std::thread::scope(|scope| {
        let off = scope.spawn(|| run(false));
        let on = run(true);
        let off = off.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok([("on", on?), ("off", off?)])
    })
}

/// Runs `options` with and without placement and records both under `point`.
pub(super) fn note_both(
    options: &ReplayOptions,
    monitor: &Monitor,
    metrics: &mut Metrics,
    point: &str,
) -> Result<[(&'static str, SharedRun); 2], Error> {
    let runs = with_and_without(|placement| alone(options, placement, monitor))?;
    for (placement, run) in &runs {
        note(metrics, placement, point, run);
    }
    Ok(runs)
}

/// Records DLWA under the setting and the point, and the drive's steadiness under the point.
pub(super) fn note(metrics: &mut Metrics, setting: &str, point: &str, run: &SharedRun) {
    metrics.insert(format!("dlwa.{setting}.{point}"), run.drive.dlwa);
    note_steadiness(metrics, point, run);
}

/// Records the hit ratio under the setting and the point, and ALWA if anything was admitted.
pub(super) fn note_cache(metrics: &mut Metrics, setting: &str, point: &str, run: &SharedRun) {
    for tenant in &run.tenants {
        metrics.insert(format!("hit.{setting}.{point}"), tenant.run.hit_ratio);
        metrics.insert(format!("alwa.{setting}.{point}"), tenant.run.alwa.unwrap_or(f64::NAN));
    }
}

/// Records the steadiness of the drive under the point; of several runs, the worst.
pub(super) fn note_steadiness(metrics: &mut Metrics, point: &str, run: &SharedRun) {
    let wraps = lowest(run.tenants.iter().map(|tenant| tenant.loc_wraps_before));
    let mut note = |name: &str, value: f64, worse: fn([f64; 2]) -> f64| {
        let noted = metrics.entry(format!("{name}.{point}")).or_insert(value);
        *noted = worse([*noted, value]);
    };
    note("drive_writes_before", run.drive.drive_writes_before, lowest);
    note("loc_wraps_before", wraps, lowest);
    note("drift", run.drive.drift, highest);
    metrics.insert(format!("soc_share.{point}"), soc_share(run));
}

/// Share of the host's bytes that the small-object engines wrote.
#[allow(clippy::cast_precision_loss)]
pub(super) fn soc_share(run: &SharedRun) -> f64 {
    let runs = || run.tenants.iter().map(|tenant| &tenant.run);
    let soc: u64 = runs().map(|run| run.soc_bytes).sum();
    let all: u64 = runs()
        .map(|run| run.soc_bytes + run.loc_bytes + run.array_bytes + run.metadata_bytes)
        .sum();
    soc as f64 / all as f64
}
