//! Throughput, tail latency and hit ratio of the real cache on the timed drive, by the share of the drive in use.

use super::judge::Checks;
use super::measured::highest;
use super::rig::{self, SOC_SHARE};
use super::timed_rig::{self, Machine};
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::{Monitor, ReplayOptions};

/// The measured points: name, percent of the drive in use, and percent of that for small objects.
const POINTS: [(&str, f64, f64); 4] =
    [("used50", 50.0, 4.0), ("used90", 90.0, 4.0), ("used100", 100.0, 4.0), ("soc64", 100.0, 64.0)];
/// Largest difference of throughput that counts as unchanged: the authors' slides show up to 8 % less without
/// placement.
const UNCHANGED: f64 = 0.08;
/// Largest difference of hit ratios that counts as equal. The timing of requests, and so what is evicted, depends on
/// the drive.
const SAME_HITS: f64 = 0.005;
/// Largest accepted factor between a ratio of latencies and the paper's, in either direction.
const FACTOR: f64 = 2.0;

pub(super) static PERFORMANCE: Experiment = Experiment {
    name: "performance",
    title: "throughput, p99 and hit ratio by utilisation and SOC size, on the timed drive",
    reproduces: "FDP paper (EuroSys'25), Figures 6, 9 and 13: throughput and hit ratio do not change with \
                 placement; p99 of WO KV Cache at 100 %",
    criterion: "at each point throughput with and without placement within 8 % and the hit ratio the \
                same to half a point; p99 off / on of WO KV Cache half to twice the paper's, with each seed \
                and in each half of the measurement",
    parameters: &[
        Parameter {
            name: "requests",
            default: "5000000",
            help: "requests of a run; WO KV Cache makes half",
        },
        timed_rig::FLASH,
        Parameter {
            name: "load",
            default: "75",
            help: "percent of what the drive takes without placement at 100 % utilisation, 1 to 1000",
        },
        timed_rig::CLIENTS,
        timed_rig::HOST_US,
        timed_rig::WRITERS,
        timed_rig::DIES,
    ],
    metrics: &[
        (
            "kilo_requests_per_s.on.*",
            "thousands of requests a second with placement: used50, used90 and \
           used100 (percent of the drive, SOC 4 %), soc64 (SOC 64 %), wo (WO KV Cache, 100 %)",
        ),
        ("kilo_requests_per_s.off.*", "the same without"),
        ("hit.on.*", "hit ratio of GETs over the whole run, with placement"),
        ("hit.off.*", "the same without"),
        ("read_p50_us.*", "latency of reads in us, with (on) and without placement, by point"),
        ("read_p99_us.*", "99 % of them are at most so long"),
        ("read_p999_us.*", "99.9 % of them"),
        ("write_p50_us.*", "latency of writes in us, with (on) and without placement, by point"),
        ("write_p99_us.*", "99 % of them are at most so long"),
        ("write_p999_us.*", "99.9 % of them"),
        timed_rig::GET_P50,
        timed_rig::GET_P99,
        timed_rig::GET_P999,
        timed_rig::THROUGHPUT_RATIO,
        timed_rig::READ_P99_RATIO,
        timed_rig::WRITE_P99_RATIO,
        timed_rig::READ_P99_RATIO_BY,
        timed_rig::WRITE_P99_RATIO_BY,
        timed_rig::MEDIA_LOAD,
        SOC_SHARE,
        rig::DRIVE_WRITES,
        rig::LOC_WRAPS,
        rig::DRIFT,
    ],
    references: &[
        Reference::published("throughput_ratio.used50", 1.0, "Figure 6: unchanged"),
        Reference::published("throughput_ratio.used100", 1.0, "Figure 6: unchanged"),
        Reference::published("throughput_ratio.soc64", 1.0, "Figure 9: unchanged"),
        Reference::published("read_p99_ratio.wo", 2.2, "Figure 13"),
        Reference::published("write_p99_ratio.wo", 9.5, "Figure 13"),
    ],
    needs: &[
        "throughput_ratio.used50",
        "throughput_ratio.used90",
        "throughput_ratio.used100",
        "throughput_ratio.soc64",
        "hit.on.used50",
        "hit.on.used90",
        "hit.on.used100",
        "hit.on.soc64",
        "hit.off.used50",
        "hit.off.used90",
        "hit.off.used100",
        "hit.off.soc64",
        "read_p99_ratio.wo",
        "write_p99_ratio.wo",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let percent = settings.within("load", 1.0..=1000.0)?;
    let usual = rig::table_2(settings, seed, rig::TABLE_2_DRAM_GB)?;
    let usual = ReplayOptions { unit_bytes: Some(timed_rig::UNIT_BYTES), ..usual };
    let write_only = ReplayOptions {
        requests: usual.requests.map(|requests| (requests / 2).max(1)),
        unit_bytes: usual.unit_bytes,
        dram_bytes: usual.dram_bytes,
        ..rig::options("meta-kv-write-only", settings, seed)?
    };
    let machine = Machine::of(settings)?;
    let mut metrics = Metrics::new();
    let load = |options: &ReplayOptions| {
        let capacity = machine.capacity(options, settings, monitor)?;
        timed_rig::load(settings, capacity * percent / 100.0)
    };
    let of_usual = load(&usual)?;
    for (point, utilization_percent, soc_percent) in POINTS {
        let options = ReplayOptions { utilization_percent, soc_percent, ..usual.clone() };
        machine.note_both(&mut metrics, point, &options, of_usual, monitor)?;
    }
    machine.note_both(&mut metrics, "wo", &write_only, load(&write_only)?, monitor)?;
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let at = |metric: &str, point: &str| summary.mean(&format!("{metric}.{point}"));
    let apart = POINTS.map(|(point, ..)| (at("hit.on", point) - at("hit.off", point)).abs());
    let apart = highest(apart);
    let mut checks = Checks::default()
        .shape(apart <= SAME_HITS, format!("hit ratios are the same: {apart:.4} apart"));
    for (point, ..) in POINTS {
        let ratio = at("throughput_ratio", point);
        checks = checks.exact(
            (1.0 - UNCHANGED..=1.0 + UNCHANGED).contains(&ratio),
            format!("throughput at {point}: {ratio:.3} times that without placement"),
        );
    }
    for kind in ["read", "write"] {
        let metric = format!("{kind}_p99_ratio.wo");
        let (ratio, wanted) =
            (summary.mean(&metric), super::judge::published(PERFORMANCE.references, &metric));
        let what = format!("p99 of {kind}s of WO KV Cache");
        let name = format!("{kind}_p99_ratio");
        checks = timed_rig::check_range(checks, summary, (&name, "wo"), &what, (wanted, FACTOR))
            .shape(ratio >= 1.0, format!("{what} is no worse with placement"));
    }
    checks.judge()
}
