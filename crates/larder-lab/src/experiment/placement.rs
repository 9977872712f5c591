//! The figures of the FDP paper that vary the workload and the share of the drive in use.

use larder::SocLayout;

use super::judge::{Checks, NEXT_TO_NONE, SAME};
use super::measured::{highest, lowest};
use super::rig::{self, DLWA_OFF, DLWA_ON, DRIFT, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::outcome::Interval;
use crate::replay::shared::SharedRun;
use crate::replay::{Monitor, ReplayOptions};

/// Number of parts in the interval series.
const PARTS: usize = 20;
/// The paper omits the points between 50 and 100 % as "similar to 50 %". We accept at most this factor.
pub(super) const SIMILAR: f64 = 1.25;
/// The metrics that are judged in experiments with half of the drive in use and with all of it.
const HALF_AND_FULL: &[&str] = &["dlwa.on.50", "dlwa.on.100", "dlwa.off.50", "dlwa.off.100"];

pub(super) static DLWA_INTERVAL: Experiment = Experiment {
    name: "dlwa-interval",
    title: "DLWA over time, with half of the drive in use and with all of it",
    reproduces: "FDP paper (EuroSys'25), Figure 5, and Figure 6 at 100 %: KV Cache, SOC 4 %",
    criterion: "on 1 to 1.05 at 50 and 100 %; off, and off / on at 100 %, within 15 % of the paper's",
    parameters: &[rig::REQUESTS_OF_LARGE, rig::LARGE_FLASH],
    metrics: &[
        DLWA_ON,
        DLWA_OFF,
        ("interval.on.50.*", "DLWA of a twentieth of the run, by percent of the requests"),
        ("interval.on.100.*", "the same with all of the drive in use"),
        ("interval.off.50.*", "the same without placement, half of the drive in use"),
        ("interval.off.100.*", "the same without placement, all of the drive in use"),
        (
            "pages_dlwa.*",
            "DLWA with all of the drive in use if small objects are in pages by set, which the paper does not have, \
             with placement (on) and without (off)",
        ),
        (
            "alwa.*",
            "bytes that the cache writes for an admitted byte, with all of the drive in use: buckets, pages",
        ),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("dlwa.on.50", 1.03, "Figure 5"),
        Reference::published("dlwa.off.50", 1.3, "Figure 5"),
        Reference::published("dlwa.on.100", 1.03, "Figure 6"),
        Reference::published("dlwa.off.100", 3.5, "Figure 6"),
    ],
    needs: HALF_AND_FULL,
    measure: measure_intervals,
    judge: judge_intervals,
};

pub(super) static UTILIZATION: Experiment = Experiment {
    name: "utilization",
    title: "DLWA by the share of the drive that the cache uses",
    reproduces: "FDP paper (EuroSys'25), Figure 6: KV Cache, SOC 4 %",
    criterion: "on: 1 to 1.05 at each share; off: monotone within 0.1, within 15 % of the paper's at \
                50 and 100 %, and at 60 to 90 % similar to 50 %, as the paper says: at most 1.25 \
                times as high",
    parameters: &[
        rig::REQUESTS_OF_LARGE,
        rig::LARGE_FLASH,
        Parameter {
            name: "utilization",
            default: "50,60,70,80,90,100",
            help: "shares of the drive, percent, separated by commas",
        },
    ],
    metrics: &[DLWA_ON, DLWA_OFF, SOC_SHARE, DRIVE_WRITES, LOC_WRAPS, DRIFT],
    references: &[
        Reference::published("dlwa.on.100", 1.03, "Figure 6"),
        Reference::published("dlwa.off.100", 3.5, "Figure 6"),
        Reference::published("dlwa.on.50", 1.03, "Figure 5"),
        Reference::published("dlwa.off.50", 1.3, "Figure 5"),
        Reference::published("dlwa.off.90", 1.3, "\"similar to 50 %\""),
    ],
    needs: &[
        "dlwa.on.50",
        "dlwa.on.60",
        "dlwa.on.70",
        "dlwa.on.80",
        "dlwa.on.90",
        "dlwa.on.100",
        "dlwa.off.50",
        "dlwa.off.60",
        "dlwa.off.70",
        "dlwa.off.80",
        "dlwa.off.90",
        "dlwa.off.100",
    ],
    measure: measure_utilization,
    judge: judge_utilization,
};

pub(super) static TWITTER: Experiment = Experiment {
    name: "twitter",
    title: "DLWA of a cache that is mostly written to, with objects that live five minutes",
    reproduces: "FDP paper (EuroSys'25), Figure 7: Twitter cluster 12",
    criterion: "on 1 to 1.05 at 50 and 100 %; off rises from 50 to 100 % and is within 15 % of the \
                KV Cache's at both",
    parameters: &[rig::REQUESTS_OF_TWITTER, rig::FLASH],
    metrics: &[DLWA_ON, DLWA_OFF, SOC_SHARE, DRIVE_WRITES, LOC_WRAPS, DRIFT],
    references: &[
        Reference::published("dlwa.on.50", 1.0, "Figure 7, \"~1\""),
        Reference::published("dlwa.on.100", 1.0, "Figure 7, \"~1\""),
        Reference::published("dlwa.off.50", 1.3, "Figure 7, as the KV Cache"),
        Reference::published("dlwa.off.100", 3.5, "Figure 7, as the KV Cache"),
    ],
    needs: HALF_AND_FULL,
    measure: |settings, seed, monitor| half_and_full("twitter-c12", settings, seed, monitor),
    judge: judge_twitter,
};

pub(super) static WRITE_ONLY: Experiment = Experiment {
    name: "write-only",
    title: "DLWA when the workload is SETs alone",
    reproduces: "FDP paper (EuroSys'25), Figures 8 and 13: WO KV Cache",
    criterion: "on 1 to 1.05 at 50 and 100 %; off within 15 % of the paper's at both, and higher at \
                100 %",
    parameters: &[rig::REQUESTS_OF_LARGE_WRITERS, rig::LARGE_FLASH],
    metrics: &[DLWA_ON, DLWA_OFF, SOC_SHARE, DRIVE_WRITES, LOC_WRAPS, DRIFT],
    references: &[
        Reference::published("dlwa.on.100", 1.0, "Figure 8, \"~1\""),
        Reference::published("dlwa.off.50", 1.3, "Figure 8, as the KV Cache"),
        Reference::published("dlwa.off.100", 3.5, "Figure 13"),
    ],
    needs: HALF_AND_FULL,
    measure: |settings, seed, monitor| half_and_full("meta-kv-write-only", settings, seed, monitor),
    judge: judge_write_only,
};

fn at(
    preset: &str,
    utilization: f64,
    settings: &Settings,
    seed: u64,
) -> Result<ReplayOptions, Error> {
    let options = rig::options(preset, settings, seed)?;
    Ok(ReplayOptions { utilization_percent: utilization, ..options })
}

fn half_and_full(
    preset: &str,
    settings: &Settings,
    seed: u64,
    monitor: &Monitor,
) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    for (utilization, point) in [(50.0, "50"), (100.0, "100")] {
        let options = at(preset, utilization, settings, seed)?;
        rig::note_both(&options, monitor, &mut metrics, point)?;
    }
    Ok(metrics)
}

fn measure_utilization(
    settings: &Settings,
    seed: u64,
    monitor: &Monitor,
) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    for utilization in settings.list::<f64>("utilization")? {
        let options = at("meta-kv", utilization, settings, seed)?;
        rig::note_both(&options, monitor, &mut metrics, &utilization.to_string())?;
    }
    Ok(metrics)
}

fn measure_intervals(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    for (utilization, point) in [(50.0, "50"), (100.0, "100")] {
        let options = at("meta-kv", utilization, settings, seed)?;
        for (placement, run) in rig::note_both(&options, monitor, &mut metrics, point)? {
            let intervals = run.tenants.iter().flat_map(|tenant| &tenant.run.intervals);
            for (percent, dlwa) in parts(&intervals.collect::<Vec<_>>()) {
                metrics.insert(format!("interval.{placement}.{point}.{percent:03}"), dlwa);
            }
            if point == "100" && placement == "on" {
                note_alwa(&mut metrics, "buckets", &run);
            }
        }
    }
    let buckets = at("meta-kv", 100.0, settings, seed)?;
    let pages = ReplayOptions { soc_layout: SocLayout::Pages, ..buckets };
    let runs = rig::with_and_without(|placement| rig::alone(&pages, placement, monitor))?;
    for (placement, run) in &runs {
        metrics.insert(format!("pages_dlwa.{placement}"), run.drive.dlwa);
    }
    note_alwa(&mut metrics, "pages", &runs[0].1);
    Ok(metrics)
}

fn note_alwa(metrics: &mut Metrics, layout: &str, run: &SharedRun) {
    let alwa = run.tenants.first().and_then(|tenant| tenant.run.alwa);
    metrics.insert(format!("alwa.{layout}"), alwa.unwrap_or(f64::NAN));
}

/// DLWA of equal parts of a run, keyed by the percentage of the run at the end of the part.
#[allow(clippy::cast_precision_loss)]
fn parts(intervals: &[&Interval]) -> Vec<(usize, f64)> {
    let dlwa = |part: &[&Interval]| {
        let host = part.iter().map(|interval| interval.host_bytes as f64);
        let media = part.iter().filter_map(|i| Some(i.host_bytes as f64 * i.dlwa?));
        media.sum::<f64>() / host.sum::<f64>()
    };
    let count = intervals.len();
    let ends = (1..=PARTS).map(|part| (part * 100 / PARTS, part * count / PARTS));
    let mut from = 0;
    ends.filter_map(|(percent, to)| {
        let part = intervals.get(std::mem::replace(&mut from, to)..to)?;
        let dlwa = dlwa(part);
        dlwa.is_finite().then_some((percent, dlwa))
    })
    .collect()
}

fn judge_intervals(summary: &Summary) -> Judgement {
    let ratio = summary.mean("dlwa.off.100") / summary.mean("dlwa.on.100");
    let published = 3.5 / 1.03;
    half_and_full_checks(summary, DLWA_INTERVAL.references)
        .exact(
            (ratio / published - 1.0).abs() <= SAME,
            format!("{ratio:.2} times less with placement at 100 %, published {published:.2}"),
        )
        .note(format!(
            "small objects in pages by set instead of buckets: DLWA {:.2} with and {:.2} without placement, and {:.2} \
             bytes written for an admitted byte instead of {:.2}",
            summary.mean("pages_dlwa.on"),
            summary.mean("pages_dlwa.off"),
            summary.mean("alwa.pages"),
            summary.mean("alwa.buckets")
        ))
        .judge()
}

/// Checks both settings, at half of the drive and at all of it, against the published values.
pub(super) fn half_and_full_checks(summary: &Summary, references: &[Reference]) -> Checks {
    let on = ["dlwa.on.50", "dlwa.on.100"].map(|metric| summary.get(metric));
    let (least, most) = (lowest(on.map(|on| on.min)), highest(on.map(|on| on.max)));
    let (half, full) = (summary.mean("dlwa.off.50"), summary.mean("dlwa.off.100"));
    Checks::default()
        .exact(
            NEXT_TO_NONE.contains(&least) && NEXT_TO_NONE.contains(&most),
            format!("on is {least:.3} to {most:.3}"),
        )
        .near("off at 50 %", half, references, "dlwa.off.50", SAME)
        .near("off at 100 %", full, references, "dlwa.off.100", SAME)
        .shape(half < full && most < full, "off rises with utilisation, placement lowers it")
}

fn judge_utilization(summary: &Summary) -> Judgement {
    let on = summary.series("dlwa.on.");
    let off = summary.series("dlwa.off.");
    let on_most = highest(on.iter().map(|(_, spread)| spread.mean));
    let on_least = lowest(on.iter().map(|(_, spread)| spread.mean));
    let rises = off.windows(2).all(|pair| pair[1].1.mean >= pair[0].1.mean - 0.1);
    let half = summary.mean("dlwa.off.50");
    let between = off.iter().filter(|(used, _)| (60.0..=90.0).contains(used));
    let between: Vec<_> = between.map(|(used, spread)| (*used, spread.mean)).collect();
    let most = highest(between.iter().map(|(_, mean)| *mean));
    let list: Vec<_> =
        between.iter().map(|(used, mean)| format!("{mean:.2} at {used} %")).collect();
    half_and_full_checks(summary, UTILIZATION.references)
        .shape(
            NEXT_TO_NONE.contains(&on_least) && NEXT_TO_NONE.contains(&on_most),
            format!("on is flat: {on_least:.3} to {on_most:.3}"),
        )
        .shape(rises, "off rises from point to point")
        .claim(
            most <= SIMILAR * half,
            format!("off at 60 to 90 % is similar to {half:.2} at 50 %: it is {}", list.join(", ")),
        )
        .judge()
}

fn judge_twitter(summary: &Summary) -> Judgement {
    half_and_full_checks(summary, TWITTER.references).judge()
}

fn judge_write_only(summary: &Summary) -> Judgement {
    half_and_full_checks(summary, WRITE_ONLY.references).judge()
}
