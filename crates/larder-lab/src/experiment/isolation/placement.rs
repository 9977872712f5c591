//! Placement and own channels, each with and without the other.

use super::drive::SERVICES;
use super::managed_pair::Pair;
use crate::Error;
use crate::experiment::judge::{Checks, NEXT_TO_NONE};
use crate::experiment::measured::{highest, lowest};
use crate::experiment::rig;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

const FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "216",
    help: "capacity of the drive in MiB, 64 to 65536; units of 768 KiB, and half of it is each tenant's",
};
const SOC: Parameter = Parameter {
    name: "soc",
    default: "4",
    help: "percent of the writer's half that are buckets, 1 to 90",
};
const WRITES: Parameter = Parameter {
    name: "writes",
    default: "16",
    help: "writes under way at a time, 1 to 1024; the next comes as soon as one is acknowledged",
};
const READS: Parameter =
    Parameter { name: "reads", default: "4", help: "reads under way at a time, 1 to 1024" };

pub(in crate::experiment) static PLACEMENT_AND_ISOLATION: Experiment = Experiment {
    name: "placement-and-isolation",
    title: "a cache that writes beside one that reads: with and without placement, on shared and on own channels",
    reproduces: "FDP paper (EuroSys'25) and FlashBlox (FAST'17) in one matrix; neither has it",
    criterion: "DLWA at most 1.05 wherever there is placement; dies in order: p99 of the reader at least 2 times \
                shorter with own channels, with placement and without",
    parameters: &[FLASH, rig::OP, SOC, WRITES, READS],
    metrics: &[
        (
            "dlwa.*",
            "DLWA of the drive, with (on) and without placement, on shared and on own channels",
        ),
        (
            "p99_us.*",
            "99 % of the reader's requests take at most so long, by how dies serve, placement, and channels",
        ),
        ("p50_us.*", "half of them"),
        ("mb_s.*", "MB/s of the writer"),
        ("p99_gain.*", "p99 on shared channels by that on own ones"),
        (
            "drive_writes_before.*",
            "times that the writer wrote its half over before the measurement",
        ),
        rig::LOC_WRAPS,
        ("drift.*", "share by which DLWA differs between the halves of the measurement"),
    ],
    references: &[
        Reference::published("dlwa.on.shared", 1.03, "FDP paper, Figure 6, of one cache alone"),
        Reference::published("dlwa.off.shared", 3.5, "FDP paper, Figure 6, of one cache alone"),
        Reference::published(
            "p99_gain.off.in_order",
            3.1,
            "FlashBlox, abstract: up to, against software isolation",
        ),
    ],
    needs: &[
        "dlwa.on.shared",
        "dlwa.on.own",
        "p99_us.in_order.on.shared",
        "p99_us.in_order.on.own",
        "p99_us.in_order.off.shared",
        "p99_us.in_order.off.own",
    ],
    measure,
    judge,
};

/// The four cells of the matrix: placement, own channels, and the name in metrics.
const MATRIX: [(bool, bool, &str); 4] = [
    (false, false, "off.shared"),
    (false, true, "off.own"),
    (true, false, "on.shared"),
    (true, true, "on.own"),
];

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    let depth = |parameter: Parameter| settings.within(parameter.name, 1..=1024);
    let (writes, reads) = (depth(WRITES)?, depth(READS)?);
    for (name, service) in SERVICES {
        for (fdp, own_channels, place) in MATRIX {
            let pair = Pair {
                fdp,
                own_channels,
                service,
                logical_bytes: settings.within(FLASH.name, 64..=65_536)? << 20,
                overprovisioning: settings.within(rig::OP.name, 5.0..=100.0)?,
                soc_share: settings.within(SOC.name, 1.0..=90.0)? / 100.0,
                writes,
                reads,
                seed,
            };
            let seen = pair.measure(monitor)?;
            let us = |share| seen.reads.quantile_us(share).unwrap_or(f64::NAN);
            metrics.insert(format!("p99_us.{name}.{place}"), us(0.99));
            metrics.insert(format!("p50_us.{name}.{place}"), us(0.5));
            metrics.insert(format!("mb_s.{name}.{place}"), seen.write_mb_s);
            // The counts hardly depend on the scheduling of the dies, so one policy is enough.
            if name == SERVICES[0].0 {
                metrics.insert(format!("dlwa.{place}"), seen.dlwa);
                metrics.insert(format!("drive_writes_before.{place}"), seen.writes_before);
                metrics.insert(format!("loc_wraps_before.{place}"), seen.loc_wraps_before);
                metrics.insert(format!("drift.{place}"), seen.drift);
            }
        }
        for placement in ["on", "off"] {
            let p99 = |channels| metrics[&format!("p99_us.{name}.{placement}.{channels}")];
            let gain = p99("shared") / p99("own");
            metrics.insert(format!("p99_gain.{placement}.{name}"), gain);
        }
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let on = ["dlwa.on.shared", "dlwa.on.own"].map(|name| summary.get(name));
    let (least, most) = (lowest(on.map(|on| on.min)), highest(on.map(|on| on.max)));
    let off = ["dlwa.off.shared", "dlwa.off.own"].map(|name| summary.mean(name));
    let mut checks = Checks::default().exact(
        NEXT_TO_NONE.contains(&least) && NEXT_TO_NONE.contains(&most),
        format!(
            "with placement DLWA is {least:.3} to {most:.3}, without {:.2} and {:.2}",
            off[0], off[1]
        ),
    );
    for placement in ["on", "off"] {
        let p99 = |channels: &str| summary.mean(&format!("p99_us.in_order.{placement}.{channels}"));
        let gain = p99("shared") / p99("own");
        checks = checks
            .exact(
                gain >= 2.0,
                format!("placement {placement}: own channels shorten p99 {gain:.1} times"),
            )
            .shape(gain > 1.0, format!("placement {placement}: own channels help"));
    }
    checks.judge()
}
