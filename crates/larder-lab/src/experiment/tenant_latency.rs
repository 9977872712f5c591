//! How two tenants affect each other's latency by garbage collection, on the timed drive.

use std::sync::Arc;

use larder_device::{PlacementHandle, SliceDevice};
use larder_ssd::managed::PAGE_BYTES;

use super::judge::Checks;
use super::rig::{self, SOC_SHARE};
use super::timed_rig;
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::shared::Tenant;
use crate::replay::timed::{self, Load, TimedRun};
use crate::replay::{Monitor, ReplayOptions};

/// Largest accepted factor between a ratio of latencies and that of the slides, in either direction.
const FACTOR: f64 = 2.0;
/// In the slides, throughput is 1 to 1.08 times that without placement.
const THROUGHPUT: std::ops::RangeInclusive<f64> = 0.92..=1.08;

pub(super) static TENANT_LATENCY: Experiment = Experiment {
    name: "tenant-latency",
    title: "p99.9 and throughput of two tenants on the timed drive",
    reproduces: "the slides of the FDP paper's authors: two tenants with KV Cache, each on half of the \
                 drive",
    criterion: "of both tenants p99.9 off / on of reads and writes half to twice the slides', and \
                requests a second on / off 0.92 to 1.08",
    parameters: &[
        Parameter {
            name: "requests",
            default: "5000000",
            help: "requests of both tenants together",
        },
        timed_rig::FLASH,
        Parameter {
            name: "load",
            default: "75",
            help: "percent of what the drive takes without placement, 1 to 1000",
        },
        timed_rig::CLIENTS,
    ],
    metrics: &[
        (
            "kilo_requests_per_s.on.*",
            "thousands of requests a second of tenant 1 and 2, with placement",
        ),
        ("kilo_requests_per_s.off.*", "the same without"),
        ("read_p50_us.*", "latency of reads in us, with (on) and without placement, by tenant"),
        ("read_p99_us.*", "99 % of them are at most so long"),
        ("read_p999_us.*", "99.9 % of them"),
        ("write_p50_us.*", "latency of writes in us, with (on) and without placement, by tenant"),
        ("write_p99_us.*", "99 % of them are at most so long"),
        ("write_p999_us.*", "99.9 % of them"),
        timed_rig::GET_P50,
        timed_rig::GET_P99,
        timed_rig::GET_P999,
        ("read_p999_ratio.*", "p99.9 of reads, off / on, by tenant"),
        ("write_p999_ratio.*", "p99.9 of writes, off / on, by tenant"),
        ("throughput_ratio.*", "requests a second, on / off, by tenant"),
        SOC_SHARE,
        rig::DRIVE_WRITES,
        rig::LOC_WRAPS,
        rig::DRIFT,
    ],
    references: &[
        Reference::derived("read_p999_ratio.1", 3.139, "slides: 1422 / 453 us"),
        Reference::derived("read_p999_ratio.2", 4.04, "slides: 1670 / 413 us"),
        Reference::derived("write_p999_ratio.1", 4.15, "slides: 606 / 146 us"),
        Reference::derived("write_p999_ratio.2", 4.18, "slides: 639 / 153 us"),
        Reference::derived("throughput_ratio.1", 1.025, "slides: 441.3 / 430.6 K"),
        Reference::derived("throughput_ratio.2", 1.012, "slides: 441.9 / 436.8 K"),
    ],
    needs: &[
        "read_p999_ratio.1",
        "read_p999_ratio.2",
        "write_p999_ratio.1",
        "write_p999_ratio.2",
        "throughput_ratio.1",
        "throughput_ratio.2",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let percent = settings.within("load", 1.0..=1000.0)?;
    let whole = rig::options("meta-kv", settings, seed)?;
    let whole = ReplayOptions { unit_bytes: Some(timed_rig::UNIT_BYTES), ..whole };
    let capacity = timed_rig::capacity(&whole, settings, monitor)?;
    // Each tenant makes half of the requests, with its own clients and writers.
    let load = timed_rig::load(settings, capacity / 2.0 * percent / 100.0)?;
    let mut metrics = Metrics::new();
    for (placement, run) in
        rig::with_and_without(|placement| pair(&whole, placement, load, monitor))?
    {
        rig::note_steadiness(&mut metrics, "pair", &run.run);
        for cache in 0..2 {
            let tenant = (cache + 1).to_string();
            let made = timed_rig::requests_per_s(&run, cache) / 1000.0;
            metrics.insert(format!("kilo_requests_per_s.{placement}.{tenant}"), made);
            timed_rig::note_latencies(&mut metrics, placement, &tenant, &run.seen[cache]);
        }
    }
    for tenant in ["1", "2"] {
        let ratio = |metric: &str, above: &str, below: &str| {
            metrics[&format!("{metric}.{above}.{tenant}")]
                / metrics[&format!("{metric}.{below}.{tenant}")]
        };
        let ratios = [
            ("read_p999_ratio", ratio("read_p999_us", "off", "on")),
            ("write_p999_ratio", ratio("write_p999_us", "off", "on")),
            ("throughput_ratio", ratio("kilo_requests_per_s", "on", "off")),
        ];
        metrics.extend(ratios.map(|(name, value)| (format!("{name}.{tenant}"), value)));
    }
    Ok(metrics)
}

/// Runs two caches on the halves of a drive, with two handles each.
fn pair(
    whole: &ReplayOptions,
    placement: bool,
    load: Load,
    monitor: &Monitor,
) -> Result<TimedRun, Error> {
    let drive = timed_rig::drive(whole, placement, 2)?;
    let part = whole.flash_bytes / 2 / PAGE_BYTES * PAGE_BYTES;
    let tenant = |number: usize| {
        let first = u16::try_from(number * 2 + 1).unwrap_or(0);
        // Without placement the drive has only the default handle.
        let own =
            |handle| if placement { PlacementHandle::new(handle) } else { Default::default() };
        let handles = [first, first + 1].map(own);
        let start = part * number as u64;
        let device = SliceDevice::new(drive.device(), start..start + part, &handles)
            .map_err(|error| Error::run(error.to_string()))?;
        let options = ReplayOptions {
            requests: whole.requests.map(|requests| (requests / 2).max(1)),
            flash_bytes: part,
            dram_bytes: whole.dram_bytes / 2,
            seed: whole.seed + number as u64,
            ..whole.clone()
        };
        Ok(Tenant::new(options, Arc::new(device)))
    };
    let tenants = [tenant(0)?, tenant(1)?];
    timed::play(&drive, &tenants, placement, load, monitor)
}

fn judge(summary: &Summary) -> Judgement {
    let mut checks = Checks::default();
    for tenant in ["1", "2"] {
        for kind in ["read", "write"] {
            let metric = format!("{kind}_p999_ratio.{tenant}");
            let ratio = summary.mean(&metric);
            let wanted = super::judge::published(TENANT_LATENCY.references, &metric);
            checks = checks
                .exact(
                    (wanted / FACTOR..=wanted * FACTOR).contains(&ratio),
                    format!(
                        "p99.9 of {kind}s of {tenant}: {ratio:.2} times better, published {wanted}"
                    ),
                )
                .shape(ratio >= 0.95, format!("p99.9 of {kind}s of {tenant} is no worse"));
        }
        let ratio = summary.mean(&format!("throughput_ratio.{tenant}"));
        checks = checks.exact(
            THROUGHPUT.contains(&ratio),
            format!("throughput of {tenant}: {ratio:.3} times that without placement"),
        );
    }
    checks.judge()
}
