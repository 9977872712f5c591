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
//!
//! The host is that of the published configuration, with 36 writers that have one request each under way. What it takes
//! for a request of the drive was measured on a machine of this project, and is fitted to nothing.
//!
//! The write buffer makes the 99th percentile of writes a threshold: if 1 % of them find it full, they wait for
//! programs, and if fewer do, none of that is seen. So a ratio of such percentiles is judged by its whole
//! [range](check_range) over seeds, parts of the run and sizes of the buffer.

use std::sync::Arc;

use larder_device::Device;
use larder_ssd::managed::PAGE_BYTES;
use larder_ssd::timed::{DriveTiming, pm9d3_like};
use larder_workload::Latencies;

use super::judge::Checks;
use super::measured::{highest, lowest};
use super::{Metrics, Parameter, Settings, Summary, rig};
use crate::Error;
use crate::replay::shared::{self, Tenant};
use crate::replay::timed::{self, Host, Load, TenantLatencies, TimedDrive, TimedRun};
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
    help: "capacity of the drive in MiB, 8 to 65536; units of 768 KiB; DRAM is 42 GB of 1880 GB of it",
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
pub(super) const HOST_US: Parameter = Parameter {
    name: "host_us",
    default: "1.4",
    help: "what the host takes for a request of the drive, 0 to 1000: system calls and waking up the thread \
           that waits; measured, see docs/lab-json.md",
};
pub(super) const WRITERS: Parameter = Parameter {
    name: "writers",
    default: "36",
    help: "writes of a cache under way at a time, 1 to 4096: the published configuration has 36 threads for \
           them",
};
pub(super) const DIES: Parameter = Parameter {
    name: "dies",
    default: "16",
    help: "dies of the drive on 8 channels, 8 to 128: 2 TiB are 16 of 1 Tb or 32 of 512 Gb",
};
pub(super) const READ_P99_RATIO_BY: (&str, &str) = (
    "read_p99_ratio_by.*",
    "p99 of reads, off / on, by point and part: the third (q3) and last (q4) quarter of the run, with write \
     buffers of other sizes",
);
pub(super) const WRITE_P99_RATIO_BY: (&str, &str) = ("write_p99_ratio_by.*", "the same of writes");
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

/// The machine of the settings: drive and host.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    timing: DriveTiming,
    host: Host,
}

const CHANNELS: u32 = 8;
/// Stripes of a die that the write buffer holds, where nothing else is said.
const BUFFER_STRIPES: u64 = 2;

impl Machine {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most a million
    pub(super) fn of(settings: &Settings) -> Result<Self, Error> {
        let host_us: f64 = settings.within("host_us", 0.0..=1000.0)?;
        let request_ns = (host_us * 1000.0).round() as u64;
        let writers: usize = settings.within("writers", 1..=4096)?;
        let dies: u32 = settings.within("dies", CHANNELS..=128)?;
        if !dies.is_multiple_of(CHANNELS) {
            let complaint = format!("must be a multiple of the {CHANNELS} channels");
            return Err(settings.refuse("dies", &dies.to_string(), &complaint));
        }
        let timing = DriveTiming { dies_per_channel: dies / CHANNELS, ..pm9d3_like() };
        Ok(Self { timing, host: Host { request_ns, writers } }.with_buffer(BUFFER_STRIPES))
    }

    /// The same with a write buffer of `stripes` stripes for each die.
    pub(super) fn with_buffer(&self, stripes: u64) -> Self {
        let (usual, dies) = (pm9d3_like(), u64::from(self.dies()));
        let stripe_bytes = usual.write_buffer_bytes / (BUFFER_STRIPES * dies_of(&usual));
        let write_buffer_bytes = stripes * dies * stripe_bytes;
        Self { timing: DriveTiming { write_buffer_bytes, ..self.timing.clone() }, ..self.clone() }
    }

    fn dies(&self) -> u32 {
        self.timing.channels * self.timing.dies_per_channel
    }

    /// Its drive, fresh, for the caches of `tenants` tenants.
    pub(super) fn drive(
        &self,
        options: &ReplayOptions,
        placement: bool,
        tenants: usize,
    ) -> Result<TimedDrive, Error> {
        let timing = self.timing.clone();
        TimedDrive::new(options, placement, shared::HANDLES, timing, self.host, tenants)
    }

    /// Requests a second that the drive of `options` sustains without placement, from clients that take [hardly any
    /// time](FASTEST_NS) themselves.
    pub(super) fn capacity(
        &self,
        options: &ReplayOptions,
        settings: &Settings,
        monitor: &Monitor,
    ) -> Result<f64, Error> {
        let load = Load { request_ns: FASTEST_NS, ..load(settings, f64::INFINITY)? };
        Ok(requests_per_s(&self.alone(options, false, load, monitor)?, 0))
    }

    /// Runs a single cache on the timed drive of `options`.
    pub(super) fn alone(
        &self,
        options: &ReplayOptions,
        placement: bool,
        load: Load,
        monitor: &Monitor,
    ) -> Result<TimedRun, Error> {
        let drive = self.drive(options, placement, 1)?;
        let tenant = tenant(options.clone(), drive.for_cache(drive.device()));
        timed::play(&drive, &[tenant], placement, &[load], monitor)
    }

    /// The share of all dies' program time that was used.
    #[allow(clippy::cast_precision_loss)] // some gigabytes
    fn media_load(&self, run: &TimedRun) -> f64 {
        let work = &run.run.drive;
        let programmed = (work.host_pages + work.copied_pages) * PAGE_BYTES;
        programmed as f64 / run.seconds / self.timing.program_bytes_per_s()
    }

    /// Runs the cache of `options` with and without placement under `load`. Records under the point what clients saw
    /// and the drive's latencies.
    pub(super) fn note_both(
        &self,
        metrics: &mut Metrics,
        point: &str,
        options: &ReplayOptions,
        load: Load,
        monitor: &Monitor,
    ) -> Result<(), Error> {
        let runs = rig::with_and_without(|on| self.alone(options, on, load, monitor))?;
        for (placement, run) in &runs {
            rig::note_steadiness(metrics, point, &run.run);
            let made = requests_per_s(run, 0) / 1000.0;
            metrics.insert(format!("kilo_requests_per_s.{placement}.{point}"), made);
            metrics.insert(format!("media_load.{placement}.{point}"), self.media_load(run));
            for tenant in run.run.tenants.iter().filter(|tenant| tenant.run.gets > 0) {
                metrics.insert(format!("hit.{placement}.{point}"), tenant.run.hit_ratio);
            }
            if let Some(seen) = run.seen.first() {
                note_latencies(metrics, placement, point, seen);
            }
        }
        note_ratios(metrics, point);
        note_parts(metrics, point, &runs, 0, ("p99", 0.99));
        Ok(())
    }

    /// Records the ratios of the 99th percentiles alone, with a write buffer of `stripes` stripes a die.
    pub(super) fn note_with_buffer(
        &self,
        metrics: &mut Metrics,
        point: &str,
        stripes: u64,
        options: &ReplayOptions,
        load: Load,
        monitor: &Monitor,
    ) -> Result<(), Error> {
        let machine = self.with_buffer(stripes);
        let runs = rig::with_and_without(|on| machine.alone(options, on, load, monitor))?;
        note_parts(metrics, &format!("{point}.buffer{stripes}"), &runs, 0, ("p99", 0.99));
        Ok(())
    }
}

/// Times that the drive is written over before the requests begin: as often as a drive must be that is judged, for the
/// requests of the KV Cache of Table 2 write little.
const AGE_WRITES: u64 = 12;

/// A cache with `options` on `device`.
pub(super) fn tenant(options: ReplayOptions, device: Arc<dyn Device>) -> Tenant {
    Tenant { age_writes: AGE_WRITES, ..Tenant::new(options, device) }
}

fn dies_of(timing: &DriveTiming) -> u64 {
    u64::from(timing.channels) * u64::from(timing.dies_per_channel)
}

/// Records the ratio of a quantile of reads and writes without placement to that with it, of the third and the last
/// quarter of the run of a cache.
pub(super) fn note_parts(
    metrics: &mut Metrics,
    point: &str,
    [(_, on), (_, off)]: &[(&'static str, TimedRun); 2],
    cache: usize,
    (name, share): (&str, f64),
) {
    for (quarter, part) in [("q3", 0), ("q4", 1)] {
        let of = |run: &TimedRun| {
            let seen = run.by_quarter[part].get(cache);
            let us = |times: &Latencies| times.quantile_us(share).unwrap_or(f64::NAN);
            seen.map_or([f64::NAN; 2], |seen| [us(&seen.reads), us(&seen.writes)])
        };
        let (on, off) = (of(on), of(off));
        for (kind, ratio) in [("read", off[0] / on[0]), ("write", off[1] / on[1])] {
            metrics.insert(format!("{kind}_{name}_ratio_by.{point}.{quarter}"), ratio);
        }
    }
}

/// Checks a ratio of latencies at a point against `wanted`: each of its values, over seeds, parts of the run and write
/// buffers, must be within `factor` of it. The text has the whole range.
pub(super) fn check_range(
    checks: Checks,
    summary: &Summary,
    (metric, point): (&str, &str),
    what: &str,
    (wanted, factor): (f64, f64),
) -> Checks {
    let whole = summary.get(&format!("{metric}.{point}"));
    let prefix = format!("{metric}_by.{point}.");
    let parts = summary.iter().filter(|(name, _)| name.starts_with(&prefix));
    let parts: Vec<_> = parts.map(|(_, spread)| *spread).chain([whole]).collect();
    let least = lowest(parts.iter().map(|spread| spread.min));
    let most = highest(parts.iter().map(|spread| spread.max));
    checks.within(
        [least / wanted, most / wanted],
        factor,
        format!("{what}: {least:.2} to {most:.2} times better, published {wanted}"),
    )
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
