//! The cost of metadata: a file is written twice in succession, by its length.

use super::counted::{
    BESIDE, COUNTED_22, COUNTED_26, Counted, DAX, FILES, KINDS, LINE_KIB, LINES, files, lines, note,
};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::{highest, lowest};
use crate::experiment::{Experiment, Judgement, Metrics, Reference, Settings, Summary};
use crate::replay::Monitor;

const STUDY: &str = "HotStorage'23: a page of 4 KiB beside each line that was not dirty";

pub(in crate::experiment) static BLOCK_METADATA: Experiment = Experiment {
    name: "block-metadata",
    title: "bytes that a block cache writes for the first and the second write of a file",
    reproduces: "HotStorage'23 study of Open CAS, figure 3, as bytes: writes of a line each, first and second access",
    criterion: "within 2 % of what was counted of Open CAS 26, 5 % of 22 beyond the capacity; its second writes reach \
                the core only beyond the capacity; the log writes at most 1.15, 1.04 and 1.01 times by lines, in \
                memory at most 1.03, 1.01 and 1.003, with its headers in the metadata of blocks of 4 KiB at most 1.02, \
                1.02 and 1.005",
    parameters: &[LINES, FILES],
    metrics: &[
        (
            "cw.*",
            "bytes written to the cache device by bytes that users wrote; first or second pass, layout, KiB of a line \
             and of a write, percent that the file has of the cache",
        ),
        ("md.*", "of these: what only says where data are"),
        ("cr.*", "bytes read from the cache device, by the same"),
        ("kw.*", "bytes written to the core, by the same"),
    ],
    references: &[
        Reference::published("cw.first.ocf22.4.50", 2.0, STUDY),
        Reference::published("cw.first.ocf22.16.50", 1.25, STUDY),
        Reference::published("cw.first.ocf22.64.50", 1.0625, STUDY),
        Reference::ours("cw.first.ocf26.4.50", 2.0, COUNTED_26),
        Reference::ours("cw.first.ocf26.16.50", 1.25, COUNTED_26),
        Reference::ours("cw.first.ocf26.64.50", 1.0625, COUNTED_26),
        Reference::ours("cw.first.ocf26.4.150", 1.991, COUNTED_26),
        Reference::ours("cw.first.ocf26.16.150", 1.24, COUNTED_26),
        Reference::ours("cw.first.ocf26.64.150", 1.053, COUNTED_26),
        Reference::ours("cw.first.ocf22.4.150", 2.061, COUNTED_22),
        Reference::ours("cw.first.ocf22.16.150", 1.265, COUNTED_22),
        Reference::ours("cw.first.ocf22.64.150", 1.063, COUNTED_22),
    ],
    needs: &[
        "cw.first.ocf26.4.50",
        "cw.first.ocf26.4.150",
        "cw.first.log.4.50",
        "cw.first.dax.4.50",
        "cw.first.beside.4.50",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, _seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let lines = lines(settings)?;
    let files = files(settings)?;
    let mut metrics = Metrics::new();
    for (layout, kind) in KINDS.into_iter().chain([DAX, BESIDE]) {
        for kib in LINE_KIB {
            for percent in &files {
                let mut cache = Counted::new(kind, kib << 10, lines)?;
                let bytes = u64::from(kib) << 10;
                let writes = cache.writes(*percent, bytes);
                for pass in ["first", "second"] {
                    let counts = cache.write(bytes, 0..writes, monitor)?;
                    note(&mut metrics, &format!("{pass}.{layout}.{kib}.{percent}"), &counts);
                }
            }
        }
    }
    Ok(metrics)
}

fn judge(summary: &Summary) -> Judgement {
    let mean = |name: String| summary.mean(&name);
    let mut checks = Checks::default();
    for value in BLOCK_METADATA.references {
        let is_of_22 = value.metric.contains("ocf22") && value.metric.ends_with(".150");
        let tolerance = if is_of_22 { 0.05 } else { 0.02 };
        let ours = summary.mean(value.metric);
        checks =
            checks.near(value.metric, ours, BLOCK_METADATA.references, value.metric, tolerance);
    }
    let versions = ["ocf22", "ocf26"];
    let of_core = |percent: u32| {
        versions.map(|of| LINE_KIB.map(|kib| mean(format!("kw.second.{of}.{kib}.{percent}"))))
    };
    let again =
        versions.map(|of| LINE_KIB.map(|kib| mean(format!("cw.second.{of}.{kib}.50")) - 1.0));
    let more = versions.map(|of| LINE_KIB.map(|kib| mean(format!("cw.first.{of}.{kib}.50"))));
    let limits = [1.15, 1.04, 1.01];
    let of_log = LINE_KIB.map(|kib| mean(format!("cw.first.log.{kib}.50")));
    let of_dax = LINE_KIB.map(|kib| mean(format!("cw.first.dax.{kib}.50")));
    let beside = LINE_KIB.map(|kib| mean(format!("cw.first.beside.{kib}.50")));
    let is_less = of_log.iter().zip(more[1]).all(|(log, lines)| *log < lines);
    checks
        .exact(highest(again.concat()).abs() < 1e-9, "what is dirty is written again at no cost")
        .shape(
            more.iter().all(|of| of.is_sorted_by(|a, b| a > b)),
            "metadata cost more, the shorter lines are",
        )
        .shape(
            highest(of_core(75).concat()) < 0.01 && lowest(of_core(150).concat()) > 0.95,
            "second writes reach the core beyond the capacity, all of them",
        )
        .shape(is_less, "the log writes less than either")
        .exact(
            of_log.iter().zip(limits).all(|(log, limit)| *log <= limit),
            format!("the log writes {:.3}, {:.3} and {:.3} times", of_log[0], of_log[1], of_log[2]),
        )
        .exact(
            of_dax.iter().zip([1.03, 1.01, 1.003]).all(|(dax, limit)| *dax <= limit),
            format!("in memory {:.3}, {:.3} and {:.3} times", of_dax[0], of_dax[1], of_dax[2]),
        )
        .exact(
            beside.iter().zip([1.02, 1.02, 1.005]).all(|(beside, limit)| *beside <= limit),
            format!(
                "beside metadata {:.3}, {:.3} and {:.3} times",
                beside[0], beside[1], beside[2]
            ),
        )
        .judge()
}
