//! GETs a second by the amount of DRAM that the cache has, on the timed drive.
//!
//! The time of a request outside the drive is calibrated so that GETs with all of the DRAM are as fast as the paper's.
//! The slowdown with less DRAM then comes from waiting for flash.

use super::judge::Checks;
use super::rig::{self, SOC_SHARE};
use super::timed_rig::{self, Machine};
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::{Monitor, ReplayOptions};

/// DRAM in Table 2: what it is called here, roughly the percentage of the usual DRAM, and GB. The first one is used for
/// calibration.
const POINTS: [(u64, f64); 3] = [(100, rig::TABLE_2_DRAM_GB), (50, 20.0), (10, 4.0)];
/// Largest accepted relative difference of a throughput ratio from the paper's.
const SAME_RATIO: f64 = 0.1;

pub(super) static DRAM_THROUGHPUT: Experiment = Experiment {
    name: "dram-throughput",
    title: "GETs a second with less DRAM, on the timed drive",
    reproduces: "FDP paper (EuroSys'25), Table 2: KGET/s with 42, 20 and 4 GB of DRAM",
    criterion: "GETs a second by those with all of the DRAM within 10 % of Table 2's with half and a tenth; \
                with and without placement within 10 % of each other, as there",
    parameters: &[
        Parameter { name: "requests", default: "5000000", help: "requests of a run" },
        timed_rig::FLASH,
        Parameter {
            name: "request_us",
            default: "12.5",
            help: "what a request takes beside the drive, 0.1 to 1000; fitted to the paper's GETs a \
                   second with all of the DRAM",
        },
        timed_rig::CLIENTS,
        timed_rig::HOST_US,
        timed_rig::WRITERS,
        timed_rig::DIES,
    ],
    metrics: &[
        (
            "kget_per_s.on.*",
            "thousands of GETs a second with placement, by DRAM in percent of the usual",
        ),
        ("kget_per_s.off.*", "the same without"),
        ("kget_ratio.on.*", "kget_per_s.on by that with all of the DRAM"),
        ("kget_ratio.off.*", "kget_per_s.off by that with all of the DRAM"),
        ("kget_per_client.on.*", "kget_per_s.on by the number of clients"),
        ("placement_gain.*", "kget_per_s with placement by that without"),
        SOC_SHARE,
        rig::DRIVE_WRITES,
        rig::LOC_WRAPS,
        rig::DRIFT,
    ],
    references: &[
        Reference::derived("kget_ratio.on.50", 0.924, "Table 2: 412.2 / 445.9"),
        Reference::derived("kget_ratio.on.10", 0.680, "Table 2: 303.1 / 445.9"),
        Reference::derived("kget_ratio.off.50", 0.919, "Table 2: 399.1 / 434.4"),
        Reference::derived("kget_ratio.off.10", 0.688, "Table 2: 298.8 / 434.4"),
        Reference::fitted(
            "kget_per_client.on.100",
            44.59,
            "Table 2: 445.9 K, 10 threads; request_us is fitted to it",
        ),
        Reference::derived("placement_gain.100", 1.026, "Table 2: 445.9 / 434.4"),
        Reference::derived("placement_gain.50", 1.033, "Table 2: 412.2 / 399.1"),
        Reference::derived("placement_gain.10", 1.014, "Table 2: 303.1 / 298.8"),
    ],
    needs: &[
        "kget_ratio.on.50",
        "kget_ratio.on.10",
        "kget_ratio.off.50",
        "kget_ratio.off.10",
        "placement_gain.100",
        "placement_gain.50",
        "placement_gain.10",
    ],
    measure,
    judge,
};

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let request_us = settings.within("request_us", 0.1..=1000.0)?;
    let clients = settings.within("clients", 1.0..=1024.0)?;
    let load = timed_rig::load(settings, clients * 1e6 / request_us)?;
    let machine = Machine::of(settings)?;
    let mut metrics = Metrics::new();
    for (percent, dram_gb) in POINTS {
        let usual = rig::table_2(settings, seed, dram_gb)?;
        let options = ReplayOptions { unit_bytes: Some(timed_rig::UNIT_BYTES), ..usual };
        let runs =
            rig::with_and_without(|placement| machine.alone(&options, placement, load, monitor))?;
        for (placement, run) in &runs {
            rig::note_steadiness(&mut metrics, &percent.to_string(), &run.run);
            let tenants = run.run.tenants.iter().map(|tenant| &tenant.run);
            let gets: f64 = tenants.map(|run| run.gets as f64 / run.requests as f64).sum();
            let kget = timed_rig::requests_per_s(run, 0) * gets / 1000.0;
            metrics.insert(format!("kget_per_s.{placement}.{percent}"), kget);
            let all = metrics[&format!("kget_per_s.{placement}.100")];
            metrics.insert(format!("kget_ratio.{placement}.{percent}"), kget / all);
        }
        let on = metrics[&format!("kget_per_s.on.{percent}")];
        let off = metrics[&format!("kget_per_s.off.{percent}")];
        metrics.insert(format!("placement_gain.{percent}"), on / off);
        metrics.insert(format!("kget_per_client.on.{percent}"), on / clients);
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let mean = |metric: &str| summary.mean(metric);
    let paper = DRAM_THROUGHPUT.references;
    let mut checks = Checks::default().shape(
        mean("kget_ratio.on.10") < mean("kget_ratio.on.50") && mean("kget_ratio.on.50") < 1.0,
        "less DRAM makes fewer GETs a second",
    );
    for metric in ["kget_ratio.on.50", "kget_ratio.on.10", "kget_ratio.off.50", "kget_ratio.off.10"]
    {
        checks = checks.near(metric, mean(metric), paper, metric, SAME_RATIO);
    }
    for (percent, _) in POINTS {
        let metric = format!("placement_gain.{percent}");
        checks = checks.near(&metric, mean(&metric), paper, &metric, SAME_RATIO);
    }
    let each = mean("kget_per_client.on.100");
    checks
        .note(format!(
            "request_us is fitted: a client makes {each:.1} thousand GETs a second with all DRAM, the \
             paper's 44.6"
        ))
        .judge()
}
