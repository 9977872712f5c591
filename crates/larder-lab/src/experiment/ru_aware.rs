//! A large-object engine that evicts by whole reclaim units and deallocates them.
//!
//! Regions in the field are a few hundredths of a percent of a unit. Here a unit holds only a few regions, because the
//! drive is scaled down and an object must still fit into a region. Both arms have the same regions. The large-object
//! engine shares no units, so for the drive the option only changes how early the last unit of a round is found dead.
//!
//! The paper's KV Cache writes a few percent of its bytes to the large-object engine, which does not even wrap around
//! once in a run: no client asks for evicted objects. So the cost of the option in hits can only be measured on a
//! workload with more large objects.

use larder_ssd::managed::PAGE_BYTES;

use super::judge::Checks;
use super::measured::{highest, lowest};
use super::rig::{self, DRIFT, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::Error;
use crate::replay::shared::SharedRun;
use crate::replay::{EngineOptions, Monitor, ReplayOptions};

/// The measured points: name, workload, and whether units are small.
const POINTS: [(&str, &str, bool); 3] =
    [("kv", "meta-kv", false), ("document", "document", false), ("small", "document", true)];
/// What counts as "minimal", in DLWA.
const MINIMAL: f64 = 0.05;

pub(super) static RU_AWARE_EVICTION: Experiment = Experiment {
    name: "ru-aware-eviction",
    title: "DLWA and hit ratio when large objects are evicted by whole reclaim units",
    reproduces: "FDP paper (EuroSys'25), section 5.5, lesson on eviction that knows the reclaim \
                 unit: minimal gain (no number is given), perhaps more with small units",
    criterion: "with units of the usual size DLWA falls by at most 0.05 and does not rise by more; \
                all else is reported",
    parameters: &[
        Parameter {
            name: "requests",
            default: "3000000",
            help: "requests of a run; those with the workload document make two thirds of them",
        },
        rig::FLASH,
        Parameter {
            name: "regions",
            default: "8",
            help: "regions that share a reclaim unit of the usual size, 2 to 64",
        },
        Parameter {
            name: "small",
            default: "2",
            help: "regions of the same size that share a small reclaim unit, 1 to 64",
        },
    ],
    metrics: &[
        (
            "dlwa.region.*",
            "DLWA with placement, evicting region by region: kv (meta-kv), document (the workload \
             of that name), small (document on small units)",
        ),
        ("dlwa.unit.*", "the same, evicting by whole units"),
        ("gain.*", "dlwa.region less dlwa.unit"),
        ("hit.region.*", "hit ratio of GETs over the whole run, evicting region by region"),
        ("hit.unit.*", "the same, evicting by whole units"),
        ("alwa.region.*", "host bytes per byte of objects admitted, evicting region by region"),
        ("alwa.unit.*", "the same, evicting by whole units"),
        ("deallocated_bytes.region.*", "bytes in use that the host deallocated: none"),
        ("deallocated_bytes.unit.*", "the same, evicting by whole units"),
        ("unit_bytes.*", "size of the reclaim unit"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[],
    needs: &[
        "gain.kv",
        "gain.document",
        "hit.region.document",
        "hit.unit.document",
        "deallocated_bytes.region.kv",
        "deallocated_bytes.unit.kv",
        "deallocated_bytes.region.document",
        "deallocated_bytes.unit.document",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let usual = regions_in_unit(settings, "regions", 2)?;
    let small = regions_in_unit(settings, "small", 1)?;
    let mut metrics = Metrics::new();
    for (point, workload, is_small) in POINTS {
        let options = rig::options(workload, settings, seed)?;
        let region_bytes = options.resolved_unit_bytes() / usual / PAGE_BYTES * PAGE_BYTES;
        if region_bytes == 0 {
            let complaint = "more regions than a unit of this drive has pages";
            return Err(settings.refuse("regions", settings.text("regions"), complaint));
        }
        let unit_bytes = region_bytes * if is_small { small } else { usual };
        let requests = options.requests.map(|requests| match workload {
            // It writes more per request; fewer requests write the drive over the same number of times.
            "document" => requests / 3 * 2,
            _ => requests,
        });
        let options = ReplayOptions { unit_bytes: Some(unit_bytes), requests, ..options };
        let runs = rig::with_and_without(|ru_aware_eviction| {
            let region_bytes = u32::try_from(region_bytes).ok();
            let engines =
                EngineOptions { region_bytes, ru_aware_eviction, ..EngineOptions::default() };
            rig::alone_with(&options, engines, true, monitor)
        })?;
        let [(_, by_unit), (_, by_region)] = &runs;
        for (arm, run) in [("unit", by_unit), ("region", by_region)] {
            note(&mut metrics, arm, point, run);
        }
        metrics.insert(format!("gain.{point}"), by_region.drive.dlwa - by_unit.drive.dlwa);
        #[allow(clippy::cast_precision_loss)]
        metrics.insert(format!("unit_bytes.{point}"), unit_bytes as f64);
    }
    Ok(metrics)
}

/// Number of regions in a unit.
fn regions_in_unit(settings: &Settings, name: &str, least: u64) -> Result<u64, Error> {
    let regions: u64 = settings.get(name)?;
    if (least..=64).contains(&regions) {
        return Ok(regions);
    }
    Err(settings.refuse(name, settings.text(name), &format!("must be {least} to 64")))
}

fn note(metrics: &mut Metrics, arm: &str, point: &str, run: &SharedRun) {
    rig::note(metrics, arm, point, run);
    rig::note_cache(metrics, arm, point, run);
    #[allow(clippy::cast_precision_loss)]
    let deallocated = (run.drive.deallocated_pages * PAGE_BYTES) as f64;
    metrics.insert(format!("deallocated_bytes.{arm}.{point}"), deallocated);
}

fn judge(summary: &Summary) -> Judgement {
    let mean = |name: &str, point: &str| summary.mean(&format!("{name}.{point}"));
    let usual = ["kv", "document"];
    let gains = usual.map(|point| mean("gain", point));
    let deallocated =
        |arm: &str| usual.map(|point| mean(&format!("deallocated_bytes.{arm}"), point));
    let (by_region, by_unit) = (highest(deallocated("region")), lowest(deallocated("unit")));
    let list = POINTS.map(|(point, ..)| {
        let hit = |arm: &str| mean(&format!("hit.{arm}"), point) * 100.0;
        format!(
            "{point}: gain {:+.4}, hit ratio {:.3} % by regions, {:.3} % by units",
            mean("gain", point),
            hit("region"),
            hit("unit")
        )
    });
    Checks::default()
        .exact(
            highest(gains) <= MINIMAL,
            format!("the gain in DLWA is minimal: at most {:+.4}", highest(gains)),
        )
        .shape(lowest(gains) >= -MINIMAL, format!("DLWA does not rise by more than {MINIMAL}"))
        .shape(by_unit > 0.0 && by_region == 0.0, "only the option deallocates")
        .note(list.join("; "))
        .judge()
}
