//! How much slower the first write of a file is than the second, by devices, line size, request size and file length.

use super::counted::{FILES, KINDS, LINE_KIB, LINES, files, lines};
use super::raw::WRITE_KIB;
use super::study::{
    Costs, DRIVE_IO_NS, MEMORY_IO_NS, P5800X, PM9A3, PM863, PMEM, REQUEST_NS, Storage,
};
use super::timed::{Asks, Made, Pair, mb_s};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::{highest, lowest};
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

const FEW_LINES: Parameter = Parameter { default: "4096", ..LINES };
const LONGER_FILES: Parameter = Parameter { default: "75,100,125,150", ..FILES };

const STUDY: &str = "HotStorage'23, figure 3";
const STUDY_LONG: &str = "HotStorage'23, figure 4: about 25 % faster";

/// Cache devices, with a PM9A3 as the core.
const CACHES: [&Storage; 2] = [&PMEM, &P5800X];
/// Cores, with persistent memory as the cache device.
const CORES: [&Storage; 2] = [&PM9A3, &PM863];
/// Largest accepted difference of a loss from the study's, as a fraction of 1.
const OFF_STUDY: f64 = 0.05;
/// Largest accepted difference of the Optane SSD's lead.
const OFF_LEAD: f64 = 0.1;
/// The length of a file that fits, in percent of the cache.
const FITS: u64 = 50;

pub(in crate::experiment) static BLOCK_ACCESS: Experiment = Experiment {
    name: "block-access",
    title: "how much slower the first write of a file is than the second",
    reproduces: "HotStorage'23 study of Open CAS, figures 3 and 4: bandwidth of the first and the second access. The \
                 study's devices are shapes; three numbers of the processor and the writes of persistent memory are \
                 fitted to its losses, so only what the log does is a prediction",
    criterion: "the first access of Open CAS 22 is slower by what the study has, within 5 points, and more so with \
                shorter lines and on the Optane SSD; second writes of 512 KiB are faster on the Optane SSD, by 25 %, \
                within 10 points; second writes fall by a fifth at least where the file is longer than the cache, and \
                more before a slower core; the log's first access is slower by at most 10 %",
    parameters: &[FEW_LINES, LONGER_FILES, REQUEST_NS, MEMORY_IO_NS, DRIVE_IO_NS],
    metrics: &[
        (
            "loss.*",
            "part of the second access's bandwidth that the first lacks: cache device before a PM9A3, layout, KiB of a \
             line and of a write; the file has half of the cache",
        ),
        (
            "mb_s.*",
            "megabytes a second: first or second access, cache device, layout, KiB of a line, KiB of a write",
        ),
        (
            "file_mb_s.*",
            "the same by the length of the file: first or second access, core behind persistent memory, layout, KiB of \
             a line and of a write, percent that the file has of the cache",
        ),
        (
            "optane_lead.*",
            "the Optane SSD's second access by that of persistent memory, lines of 4 KiB: layout, KiB of a write",
        ),
    ],
    references: &[
        Reference::published("loss.pmem.ocf22.4", 0.40, STUDY),
        Reference::published("loss.pmem.ocf22.16", 0.25, STUDY),
        Reference::published("loss.pmem.ocf22.64", 0.14, STUDY),
        Reference::published("loss.p5800x.ocf22.4", 0.48, STUDY),
        Reference::published("optane_lead.ocf22.512", 1.25, STUDY_LONG),
    ],
    needs: &[
        "loss.pmem.ocf22.4",
        "loss.p5800x.ocf22.4",
        "loss.pmem.log.64",
        "optane_lead.ocf22.512",
        "file_mb_s.second.pm9a3.ocf22.4.150",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, _seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let (lines, files, costs) = (lines(settings)?, files(settings)?, Costs::of(settings)?);
    let mut metrics = Metrics::new();
    for (layout, kind) in KINDS {
        for line_kib in LINE_KIB {
            let made = made(kind, line_kib << 10, lines);
            for cache in CACHES {
                for kib in WRITE_KIB.into_iter().filter(|kib| *kib >= u64::from(line_kib)) {
                    let rates =
                        accesses(&made, (cache, &PM9A3), &costs, (FITS, kib << 10), monitor)?;
                    for (pass, rate) in ["first", "second"].into_iter().zip(rates) {
                        let point = format!("mb_s.{pass}.{}.{layout}.{line_kib}.{kib}", cache.key);
                        metrics.insert(point, rate);
                    }
                    if kib == u64::from(line_kib) {
                        let point = format!("loss.{}.{layout}.{kib}", cache.key);
                        metrics.insert(point, 1.0 - rates[0] / rates[1]);
                    }
                }
            }
            for core in CORES {
                for percent in &files {
                    let writes = (*percent, u64::from(line_kib) << 10);
                    let rates = accesses(&made, (&PMEM, core), &costs, writes, monitor)?;
                    for (pass, rate) in ["first", "second"].into_iter().zip(rates) {
                        let point = format!("{pass}.{}.{layout}.{line_kib}.{percent}", core.key);
                        metrics.insert(format!("file_mb_s.{point}"), rate);
                    }
                }
            }
        }
        for kib in WRITE_KIB {
            let of =
                |cache: &Storage| metrics[&format!("mb_s.second.{}.{layout}.4.{kib}", cache.key)];
            let lead = of(&P5800X) / of(&PMEM);
            metrics.insert(format!("optane_lead.{layout}.{kib}"), lead);
        }
    }
    Ok(metrics)
}

fn made(kind: super::counted::Kind, line_bytes: u32, lines: u32) -> Made {
    Made { kind, line_bytes, lines, segment_bytes: (256 << 10).max(16 * line_bytes) }
}

/// Megabytes a second of the first and the second access to a file of `percent` percent of the cache, in writes of the
/// given size.
fn accesses(
    made: &Made,
    devices: (&Storage, &Storage),
    costs: &Costs,
    (percent, bytes): (u64, u64),
    monitor: &Monitor,
) -> Result<[f64; 2], Error> {
    let mut pair = Pair::layout(made, devices, costs)?;
    let writes = made.requests(percent, bytes);
    let first = pair.ask(Asks::writes(bytes), 0..writes, monitor)?;
    let second = pair.ask(Asks::writes(bytes), 0..writes, monitor)?;
    Ok([first, second].map(|run| mb_s(&run)))
}

fn judge(summary: &Summary) -> Judgement {
    let paper = BLOCK_ACCESS.references;
    let loss = |point: &str| summary.mean(&format!("loss.{point}"));
    let mut checks = Checks::default();
    for value in paper {
        let (ours, off) = (summary.mean(value.metric), value.metric.starts_with("optane_lead"));
        let off = if off { OFF_LEAD } else { OFF_STUDY };
        let text = format!("{}: {ours:.3}, published {}", value.metric, value.value);
        checks = checks.exact((ours - value.value).abs() <= off, text);
    }
    let of_lines = LINE_KIB.map(|kib| loss(&format!("pmem.ocf22.{kib}")));
    let of_log =
        ["pmem", "p5800x"].map(|cache| LINE_KIB.map(|kib| loss(&format!("{cache}.log.{kib}"))));
    let most = highest(of_log.concat());
    let second = |core: &Storage, percent: u32| {
        LINE_KIB.map(|kib| {
            summary.mean(&format!("file_mb_s.second.{}.ocf22.{kib}.{percent}", core.key))
        })
    };
    let fall = |core| {
        let (before, after) = (second(core, 75), second(core, 150));
        [0, 1, 2].map(|at| 1.0 - after[at] / before[at])
    };
    let (fast, slow) = (fall(&PM9A3), fall(&PM863));
    checks
        .shape(
            of_lines.is_sorted_by(|a, b| a > b),
            "the shorter lines are, the slower is the first access",
        )
        .shape(
            loss("p5800x.ocf22.4") > of_lines[0],
            "the first access loses more on the Optane SSD than on persistent memory",
        )
        .shape(
            summary.mean("optane_lead.ocf22.512") > 1.0,
            "second writes of 512 KiB are faster on the Optane SSD than on memory as blocks",
        )
        .shape(
            lowest(fast) > 0.2 && lowest([0, 1, 2].map(|at| slow[at] - fast[at])) > 0.0,
            format!(
                "second writes fall beyond the capacity by {} before a PM9A3, by {} before a PM863",
                percents(fast),
                percents(slow)
            ),
        )
        .exact(
            most <= 0.1,
            format!("the log's first access is slower by {:.1} % at most", most * 100.0),
        )
        .judge()
}

fn percents(of: [f64; 3]) -> String {
    let [short, middle, long] = of.map(|part| part * 100.0);
    format!("{short:.0}, {middle:.0} and {long:.0} %")
}
