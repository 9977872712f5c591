//! Placement that adapts at run time: small-object buckets that are rewritten often get their own handle.
//!
//! The large-object engine has nothing to separate: its regions are written once and overwritten in order, so all have
//! the same lifetime. The drive's events and statistics are not used, because the cache, which rewrites the buckets,
//! knows more about their lifetime than the drive.
//!
//! A bucket is hot if its recent rewrite intervals are shorter than half of the average bucket's. With identical
//! buckets, chance alone makes about five percent of the writes hot: if `hot_share` is hardly higher, there is nothing
//! to separate.

use super::judge::Checks;
use super::measured::{highest, lowest};
use super::rig::{self, DRIFT, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::Error;
use crate::replay::shared::SharedRun;
use crate::replay::{EngineOptions, Monitor, ReplayOptions};

/// What counts as "minimal", in DLWA.
const MINIMAL: f64 = 0.05;
/// Handles of the small-object engine: its own, and the one of the hot buckets, which comes after the handles of both
/// engines.
const SOC_HANDLE: usize = 1;
const HOT_HANDLE: usize = 3;

pub(super) static DYNAMIC_PLACEMENT: Experiment = Experiment {
    name: "dynamic-placement",
    title: "a handle for hot small-object buckets, against one for each engine",
    reproduces: "FDP paper (EuroSys'25), section 5.5, lesson on dynamic placement: minimal gain \
                 over one handle for each engine (no number is given)",
    criterion: "at each SOC size DLWA falls by at most 0.05 and does not rise by more, and the hit \
                ratio stays the same",
    parameters: &[
        rig::REQUESTS,
        rig::FLASH,
        Parameter {
            name: "soc",
            default: "4,32",
            help: "shares of the cache's flash, percent, separated by commas",
        },
    ],
    metrics: &[
        ("dlwa.static.*", "DLWA with a handle for each engine, by SOC in percent"),
        ("dlwa.dynamic.*", "the same with a third handle, for hot buckets"),
        ("gain.*", "dlwa.static less dlwa.dynamic"),
        ("hit.static.*", "hit ratio of GETs over the whole run, with a handle for each engine"),
        ("hit.dynamic.*", "the same with a third handle"),
        ("alwa.static.*", "host bytes per byte of objects admitted, a handle for each engine"),
        ("alwa.dynamic.*", "the same with a third handle"),
        ("hot_share.*", "share of the SOC's writes that went to hot buckets"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[],
    needs: &[
        "gain.4",
        "gain.32",
        "hit.static.4",
        "hit.dynamic.4",
        "hit.static.32",
        "hit.dynamic.32",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    for soc in settings.list::<f64>("soc")? {
        let options = rig::options("meta-kv", settings, seed)?;
        let options = ReplayOptions { soc_percent: soc, ..options };
        let [(_, dynamic), (_, fixed)] = rig::with_and_without(|dynamic_placement| {
            let engines = EngineOptions { dynamic_placement, ..EngineOptions::default() };
            rig::alone_with(&options, engines, true, monitor)
        })?;
        let point = soc.to_string();
        for (arm, run) in [("static", &fixed), ("dynamic", &dynamic)] {
            rig::note(&mut metrics, arm, &point, run);
            rig::note_cache(&mut metrics, arm, &point, run);
        }
        metrics.insert(format!("gain.{point}"), fixed.drive.dlwa - dynamic.drive.dlwa);
        metrics.insert(format!("hot_share.{point}"), hot_share(&dynamic));
    }
    Ok(metrics)
}

#[allow(clippy::cast_precision_loss)]
fn hot_share(run: &SharedRun) -> f64 {
    let pages = |handle: usize| run.drive.host_pages_by_handle.get(handle).copied();
    let (Some(cold), Some(hot)) = (pages(SOC_HANDLE), pages(HOT_HANDLE)) else { return f64::NAN };
    hot as f64 / (hot + cold) as f64
}

fn judge(summary: &Summary) -> Judgement {
    let gains = summary.series("gain.");
    let means = || gains.iter().map(|(_, gain)| gain.mean);
    let (most, least) = (highest(means()), lowest(means()));
    let apart = gains.iter().map(|(soc, _)| {
        let hit = |arm: &str| summary.mean(&format!("hit.{arm}.{soc}"));
        (hit("static") - hit("dynamic")).abs()
    });
    let apart = highest(apart);
    let list: Vec<_> = gains
        .iter()
        .map(|(soc, gain)| {
            let share = summary.mean(&format!("hot_share.{soc}")) * 100.0;
            format!("SOC {soc} %: {:+.4}, {share:.1} % of its writes are hot", gain.mean)
        })
        .collect();
    Checks::default()
        .exact(most <= MINIMAL, format!("the gain in DLWA is minimal: at most {most:+.4}"))
        .shape(least >= -MINIMAL, format!("DLWA does not rise by more than {MINIMAL}"))
        .shape(apart == 0.0, "the hit ratio is the same")
        .note(format!("gain at {}", list.join("; at ")))
        .judge()
}
