//! The real cache on the timed drive: the common parts of the experiments that measure time.
//!
//! Clients make the requests of a workload in a closed loop ([`timed`](crate::replay::timed)): each asks the cache,
//! waits for the answer, and makes the next request. The cache is the real one and the drive is the timed SSD model,
//! under virtual time.
//!
//! The drive has the dies of the FDP paper's drive and the same number of units; only the units are small. Dies and
//! timing are those of the field, so loads and clients are not scaled down: the paper's 10 clients drive 16 dies. How
//! near the paper's load came to the drive's capacity is not published: we give loads as fractions of the model's
//! capacity without placement.

use larder_ssd::managed::PAGE_BYTES;
use larder_ssd::timed::pm9d3_like;

use super::{Metrics, Parameter, Settings, rig};
use crate::Error;
use crate::replay::shared::{self, Tenant};
use crate::replay::timed::{self, Load, TenantLatencies, TimedDrive, TimedRun};
use crate::replay::{Monitor, ReplayOptions};

/// A unit is four stripes of 192 KiB, on four dies of the drive: the next four in the order in which a unit of 6 GB
/// uses the dies.
pub(super) const UNIT_BYTES: u64 = 4 * (192 << 10);

/// Smallest time of a request: a lookup in DRAM.
const FASTEST_NS: f64 = 1000.0;
/// Seed of the clients' own times. The workload has its own seed.
const TIMES_SEED: u64 = 1;

pub(super) const FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "216",
    help: "capacity of the drive in MiB, 8 to 65536; units of 768 KiB; DRAM is a 32nd of it",
};
pub(super) const MEDIA_LOAD: (&str, &str) = (
    "media_load.*",
    "share of what the dies can program that they did, with (on) and without placement, by point",
);
pub(super) const READ_P99_RATIO: (&str, &str) = ("read_p99_ratio.*", "p99 of reads, off / on");
pub(super) const WRITE_P99_RATIO: (&str, &str) = ("write_p99_ratio.*", "p99 of writes, off / on");
pub(super) const THROUGHPUT_RATIO: (&str, &str) =
    ("throughput_ratio.*", "requests a second, on / off");
pub(super) const CLIENTS: Parameter = Parameter {
    name: "clients",
    default: "10",
    help: "requests of the workload under way at a time, 1 to 1024: the paper has 10 threads",
};
pub(super) const GET_P50: (&str, &str) = (
    "get_p50_us.*",
    "time of GETs that wait for flash in us, from the client's call to its answer, with (on) and without placement, \
     by point",
);
pub(super) const GET_P99: (&str, &str) = ("get_p99_us.*", "99 % of them take at most so long");
pub(super) const GET_P999: (&str, &str) = ("get_p999_us.*", "99.9 % of them");

/// The load of the settings, at `requests_per_s` requests a second if the drive took no time.
pub(super) fn load(settings: &Settings, requests_per_s: f64) -> Result<Load, Error> {
    let clients = settings.within("clients", 1.0..=1024.0)?;
    let request_ns = clients * 1e9 / requests_per_s;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to 1024
    Ok(Load { clients: clients as usize, request_ns, seed: TIMES_SEED })
}

/// Requests of a cache per second.
#[allow(clippy::cast_precision_loss)]
pub(super) fn requests_per_s(run: &TimedRun, cache: usize) -> f64 {
    run.seen.get(cache).map_or(f64::NAN, |seen| seen.requests as f64 / run.seconds)
}

/// Requests a second that the drive of `options` sustains without placement, from clients that take [hardly any
/// time](FASTEST_NS) themselves.
pub(super) fn capacity(
    options: &ReplayOptions,
    settings: &Settings,
    monitor: &Monitor,
) -> Result<f64, Error> {
    let load = Load { request_ns: FASTEST_NS, ..load(settings, f64::INFINITY)? };
    Ok(requests_per_s(&alone(options, false, load, monitor)?, 0))
}

/// Runs a single cache on the timed drive of `options`.
pub(super) fn alone(
    options: &ReplayOptions,
    placement: bool,
    load: Load,
    monitor: &Monitor,
) -> Result<TimedRun, Error> {
    let drive = drive(options, placement, 1)?;
    let tenant = Tenant::new(options.clone(), drive.device());
    timed::play(&drive, &[tenant], placement, load, monitor)
}

/// The timed drive of `options` for `tenants` tenants.
pub(super) fn drive(
    options: &ReplayOptions,
    placement: bool,
    tenants: usize,
) -> Result<TimedDrive, Error> {
    TimedDrive::new(options, placement, shared::HANDLES, pm9d3_like(), tenants)
}

/// The share of all dies' program time that was used.
#[allow(clippy::cast_precision_loss)] // some gigabytes
fn media_load(run: &TimedRun) -> f64 {
    let work = &run.run.drive;
    let programmed = (work.host_pages + work.copied_pages) * PAGE_BYTES;
    programmed as f64 / run.seconds / pm9d3_like().program_bytes_per_s()
}

/// Runs the cache of `options` with and without placement under `load`. Records under the point what clients saw and
/// the drive's latencies.
pub(super) fn note_both(
    metrics: &mut Metrics,
    point: &str,
    options: &ReplayOptions,
    load: Load,
    monitor: &Monitor,
) -> Result<(), Error> {
    let runs = rig::with_and_without(|placement| alone(options, placement, load, monitor))?;
    for (placement, run) in runs {
        rig::note_steadiness(metrics, point, &run.run);
        let made = requests_per_s(&run, 0) / 1000.0;
        metrics.insert(format!("kilo_requests_per_s.{placement}.{point}"), made);
        metrics.insert(format!("media_load.{placement}.{point}"), media_load(&run));
        for tenant in run.run.tenants.iter().filter(|tenant| tenant.run.gets > 0) {
            metrics.insert(format!("hit.{placement}.{point}"), tenant.run.hit_ratio);
        }
        if let Some(seen) = run.seen.first() {
            note_latencies(metrics, placement, point, seen);
        }
    }
    note_ratios(metrics, point);
    Ok(())
}

/// Records the ratios between placement and no placement at the point.
pub(super) fn note_ratios(metrics: &mut Metrics, point: &str) {
    let ratio = |metric: &str, above: &str, below: &str| {
        metrics[&format!("{metric}.{above}.{point}")]
            / metrics[&format!("{metric}.{below}.{point}")]
    };
    let ratios = [
        ("read_p99_ratio", ratio("read_p99_us", "off", "on")),
        ("write_p99_ratio", ratio("write_p99_us", "off", "on")),
        ("throughput_ratio", ratio("kilo_requests_per_s", "on", "off")),
    ];
    metrics.extend(ratios.map(|(name, value)| (format!("{name}.{point}"), value)));
}

/// Records percentiles of reads, writes and GETs in microseconds under the point.
pub(super) fn note_latencies(
    metrics: &mut Metrics,
    setting: &str,
    point: &str,
    seen: &TenantLatencies,
) {
    let kinds = [("read", &seen.reads), ("write", &seen.writes), ("get", &seen.gets)];
    // A workload of only SETs has no GETs.
    for (kind, times) in
        kinds.into_iter().filter(|(kind, times)| *kind != "get" || times.count() > 0)
    {
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
            let us = times.quantile_us(share).unwrap_or(f64::NAN);
            metrics.insert(format!("{kind}_{name}_us.{setting}.{point}"), us);
        }
    }
}
