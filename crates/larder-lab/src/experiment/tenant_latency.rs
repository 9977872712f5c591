//! How two tenants affect each other's latency by garbage collection, on the timed drive.

use std::sync::Arc;

use larder_device::{PlacementHandle, SliceDevice};
use larder_ssd::managed::PAGE_BYTES;

use super::judge::{Checks, published};
use super::rig::{self, SOC_SHARE};
use super::timed_rig::{self, Machine};
use super::{Experiment, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::timed::{self, Load, TimedRun};
use crate::replay::{Monitor, ReplayOptions, Workload};

/// Largest accepted factor between a latency, or a ratio of latencies, and that of the slides, in either direction.
const FACTOR: f64 = 2.0;
/// In the slides, throughput is 1 to 1.08 times that without placement. Largest accepted relative difference from it.
const SAME_THROUGHPUT: f64 = 0.08;
/// Twitter's requests by those of the KV Cache beside it: 25 and 387 thousand a second in the slides, without
/// placement.
const TWITTER_REQUESTS: f64 = 25.0 / 387.0;
/// DRAM of Twitter's cache in GB (Figure 7).
const TWITTER_DRAM_GB: f64 = 16.0;

/// What two tenants do, each on half of the drive.
struct Pair {
    /// Workload of the second; the first has the KV Cache of Table 2.
    second: &'static str,
    /// GB of DRAM of both, beside 1880 GB of flash.
    dram_gb: [f64; 2],
    /// Requests of the second by those of the first.
    requests: f64,
}

const KV_AND_KV: Pair = Pair {
    second: "meta-kv-table2",
    dram_gb: [rig::TABLE_2_DRAM_GB, rig::TABLE_2_DRAM_GB],
    requests: 1.0,
};
const KV_AND_TWITTER: Pair = Pair {
    second: "twitter-c12",
    dram_gb: [rig::TABLE_2_DRAM_GB, TWITTER_DRAM_GB],
    requests: TWITTER_REQUESTS,
};

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "requests", default: "5000000", help: "requests of both tenants together" },
    Parameter {
        name: "flash_mib",
        default: "216",
        help: "capacity of the drive in MiB, 8 to 65536; units of 768 KiB; DRAM of a tenant with the KV Cache \
               is 42 GB of 1880 GB of it, with Twitter's workload 16 GB",
    },
    Parameter {
        name: "load",
        default: "75",
        help: "percent of what the drive takes without placement, 1 to 1000; of the KV Cache alone, half of \
               it for each tenant with that",
    },
    timed_rig::CLIENTS,
    timed_rig::HOST_US,
    timed_rig::WRITERS,
    timed_rig::DIES,
];

const METRICS: &[(&str, &str)] = &[
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
    (
        "read_p999_ratio_by.*",
        "read_p999_ratio by tenant and part: the third (q3) and the last (q4) quarter of the run",
    ),
    ("write_p999_ratio_by.*", "the same of writes"),
    ("throughput_ratio.*", "requests a second, on / off, by tenant"),
    SOC_SHARE,
    rig::DRIVE_WRITES,
    rig::LOC_WRAPS,
    rig::DRIFT,
];

/// The metrics that are judged, of both experiments.
const NEEDS: &[&str] = &[
    "read_p999_ratio.1",
    "read_p999_ratio.2",
    "write_p999_ratio.1",
    "write_p999_ratio.2",
    "read_p999_us.off.1",
    "read_p999_us.off.2",
    "read_p999_us.on.1",
    "read_p999_us.on.2",
    "write_p999_us.off.1",
    "write_p999_us.off.2",
    "write_p999_us.on.1",
    "write_p999_us.on.2",
    "throughput_ratio.1",
    "throughput_ratio.2",
];

const CRITERION: &str = "of both tenants p99.9 off / on of reads and writes half to twice the slides', with \
                         each seed and in each half of the measurement; each p99.9 in us half to twice the \
                         slides'; requests a second on / off within 8 % of theirs";

pub(super) static TENANT_LATENCY: Experiment = Experiment {
    name: "tenant-latency",
    title: "p99.9 and throughput of two tenants on the timed drive",
    reproduces: "the slides of the FDP paper's authors: two tenants with KV Cache, each on half of the \
                 drive",
    criterion: CRITERION,
    parameters: PARAMETERS,
    metrics: METRICS,
    references: &[
        Reference::derived("read_p999_ratio.1", 3.139, "slides: 1422 / 453 us"),
        Reference::derived("read_p999_ratio.2", 4.04, "slides: 1670 / 413 us"),
        Reference::derived("write_p999_ratio.1", 4.15, "slides: 606 / 146 us"),
        Reference::derived("write_p999_ratio.2", 4.18, "slides: 639 / 153 us"),
        Reference::derived("throughput_ratio.1", 1.025, "slides: 441.3 / 430.6 K"),
        Reference::derived("throughput_ratio.2", 1.012, "slides: 441.9 / 436.8 K"),
        Reference::published("read_p999_us.off.1", 1422.0, "slides"),
        Reference::published("read_p999_us.off.2", 1670.0, "slides"),
        Reference::published("read_p999_us.on.1", 453.0, "slides"),
        Reference::published("read_p999_us.on.2", 413.0, "slides"),
        Reference::published("write_p999_us.off.1", 606.0, "slides"),
        Reference::published("write_p999_us.off.2", 639.0, "slides"),
        Reference::published("write_p999_us.on.1", 146.0, "slides"),
        Reference::published("write_p999_us.on.2", 153.0, "slides"),
    ],
    needs: NEEDS,
    measure: |settings, seed, monitor| measure(&KV_AND_KV, settings, seed, monitor),
    judge: |summary| judge(summary, TENANT_LATENCY.references).judge(),
};

pub(super) static TENANT_MIX_LATENCY: Experiment = Experiment {
    name: "tenant-mix-latency",
    title: "p99.9 and throughput of a KV Cache and Twitter's workload on one timed drive",
    reproduces: "the slides of the FDP paper's authors: a tenant with KV Cache (1) and one with Twitter's \
                 cluster 12 (2), each on half of the drive",
    criterion: CRITERION,
    parameters: PARAMETERS,
    metrics: METRICS,
    references: &[
        Reference::derived("read_p999_ratio.1", 1.477, "slides: 542 / 367 us"),
        Reference::derived("read_p999_ratio.2", 1.645, "slides: 653 / 397 us"),
        Reference::derived("write_p999_ratio.1", 9.24, "slides: 1294 / 140 us"),
        Reference::derived("write_p999_ratio.2", 15.9, "slides: 1464 / 92 us"),
        Reference::derived("throughput_ratio.1", 1.08, "slides: 418 / 387 K"),
        Reference::derived("throughput_ratio.2", 1.0, "slides: 25 / 25 K"),
        Reference::published("read_p999_us.off.1", 542.0, "slides"),
        Reference::published("read_p999_us.off.2", 653.0, "slides"),
        Reference::published("read_p999_us.on.1", 367.0, "slides"),
        Reference::published("read_p999_us.on.2", 397.0, "slides"),
        Reference::published("write_p999_us.off.1", 1294.0, "slides"),
        Reference::published("write_p999_us.off.2", 1464.0, "slides"),
        Reference::published("write_p999_us.on.1", 140.0, "slides"),
        Reference::published("write_p999_us.on.2", 92.0, "slides"),
    ],
    needs: NEEDS,
    measure: |settings, seed, monitor| measure(&KV_AND_TWITTER, settings, seed, monitor),
    judge: |summary| {
        judge(summary, TENANT_MIX_LATENCY.references)
            .note(
                "Twitter's requests by those of the KV Cache are the slides' 25 to 387 thousand a second, and \
                 given, not measured",
            )
            .judge()
    },
};

fn measure(
    pair: &Pair,
    settings: &Settings,
    seed: u64,
    monitor: &Monitor,
) -> Result<Metrics, Error> {
    let percent = settings.within("load", 1.0..=1000.0)?;
    let whole = rig::table_2(settings, seed, rig::TABLE_2_DRAM_GB)?;
    let whole = ReplayOptions { unit_bytes: Some(timed_rig::UNIT_BYTES), ..whole };
    let machine = Machine::of(settings)?;
    let capacity = machine.capacity(&whole, settings, monitor)?;
    // A tenant with the KV Cache makes half of the requests, with its own clients and writers.
    let first = capacity / 2.0 * percent / 100.0;
    let loads =
        [timed_rig::load(settings, first)?, timed_rig::load(settings, first * pair.requests)?];
    let runs = rig::with_and_without(|on| pair.run(&machine, &whole, on, &loads, monitor))?;
    let mut metrics = Metrics::new();
    for (placement, run) in &runs {
        rig::note_steadiness(&mut metrics, "pair", &run.run);
        for cache in 0..2 {
            let tenant = (cache + 1).to_string();
            let made = timed_rig::requests_per_s(run, cache) / 1000.0;
            metrics.insert(format!("kilo_requests_per_s.{placement}.{tenant}"), made);
            timed_rig::note_latencies(&mut metrics, placement, &tenant, &run.seen[cache]);
        }
    }
    for (cache, tenant) in ["1", "2"].into_iter().enumerate() {
        timed_rig::note_parts(&mut metrics, tenant, &runs, cache, ("p999", 0.999));
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

impl Pair {
    /// Runs two caches on the halves of a drive, with two handles each.
    fn run(
        &self,
        machine: &Machine,
        whole: &ReplayOptions,
        placement: bool,
        loads: &[Load; 2],
        monitor: &Monitor,
    ) -> Result<TimedRun, Error> {
        let drive = machine.drive(whole, placement, 2)?;
        let part = whole.flash_bytes / 2 / PAGE_BYTES * PAGE_BYTES;
        let tenant = |number: usize| {
            let first = u16::try_from(number * 2 + 1).unwrap_or(0);
            // Without placement the drive has only the default handle.
            let own = |handle| {
                if placement { PlacementHandle::new(handle) } else { Default::default() }
            };
            let handles = [first, first + 1].map(own);
            let start = part * number as u64;
            let device = SliceDevice::new(drive.device(), start..start + part, &handles)
                .map_err(|error| Error::run(error.to_string()))?;
            let options = ReplayOptions { flash_bytes: part, ..self.options(whole, number) };
            Ok(timed_rig::tenant(options, drive.for_cache(Arc::new(device))))
        };
        let tenants = [tenant(0)?, tenant(1)?];
        timed::play(&drive, &tenants, placement, loads, monitor)
    }

    /// What a tenant has of the options of `whole`, which are those of the first alone.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    #[allow(clippy::cast_sign_loss)] // parts of sizes and counts
    fn options(&self, whole: &ReplayOptions, number: usize) -> ReplayOptions {
        let dram = whole.dram_bytes as f64 * self.dram_gb[number] / rig::TABLE_2_DRAM_GB;
        let of_all = [1.0, self.requests][number] / (1.0 + self.requests);
        let requests = |all: u64| ((all as f64 * of_all).round() as u64).max(1);
        let second = || Workload::Preset(self.second.to_owned());
        ReplayOptions {
            workload: if number == 0 { whole.workload.clone() } else { second() },
            requests: whole.requests.map(requests),
            dram_bytes: dram as u64,
            seed: whole.seed + number as u64,
            ..whole.clone()
        }
    }
}

fn judge(summary: &Summary, slides: &[Reference]) -> Checks {
    let mut checks = Checks::default();
    for tenant in ["1", "2"] {
        for kind in ["read", "write"] {
            let name = format!("{kind}_p999_ratio");
            let metric = format!("{name}.{tenant}");
            let what = format!("p99.9 of {kind}s of {tenant}");
            let wanted = (published(slides, &metric), FACTOR);
            checks = timed_rig::check_range(checks, summary, (&name, tenant), &what, wanted)
                .shape(summary.mean(&metric) >= 0.95, format!("{what} is no worse"));
            for placement in ["off", "on"] {
                let metric = format!("{kind}_p999_us.{placement}.{tenant}");
                let (us, wanted) = (summary.mean(&metric), published(slides, &metric));
                checks = checks.exact(
                    (wanted / FACTOR..=wanted * FACTOR).contains(&us),
                    format!("{what}, {placement}: {us:.0} us, published {wanted}"),
                );
            }
        }
        let metric = format!("throughput_ratio.{tenant}");
        let what = format!("throughput of {tenant}, on / off");
        checks = checks.near(&what, summary.mean(&metric), slides, &metric, SAME_THROUGHPUT);
    }
    checks
}
