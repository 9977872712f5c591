//! The size of the small-object engine: the gain of placement, whether Theorem 1 predicts it, and whether the type of
//! isolation matters.

use larder_device::Isolation;
use larder_ssd::analytic::{SpareRatio, dlwa};
use larder_ssd::managed::PAGE_BYTES;

use super::bare;
use super::judge::{Checks, NEXT_TO_NONE, SAME};
use super::measured::{highest, lowest};
use super::rig::{self, DLWA_OFF, DLWA_ON, DRIFT, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::shared::{self, SharedRun, Tenant};
use crate::replay::{Monitor, ReplayOptions};

/// Handles of the drives that compare types of isolation: the default, SOC and LOC. Each handle of a persistently
/// isolated drive takes an open unit out of the spare space.
const ISOLATION_HANDLES: u16 = 3;
/// A difference of DLWA up to this may be chance.
const CHANCE: f64 = 0.01;

pub(super) static SOC_SIZE: Experiment = Experiment {
    name: "soc-size",
    title: "DLWA by the size of the small-object engine",
    reproduces: "FDP paper (EuroSys'25), Figure 9: KV Cache, 100 % utilisation",
    criterion: "on: monotone within 0.05, 1 to 1.1 while the SOC is at most half of the \
                over-provisioning, within 15 % of the paper's at 4 and 64 %; off within 15 % of it \
                at 4 and 64 %; at 96 % on and off within 10 % of each other",
    parameters: &[
        rig::REQUESTS,
        rig::FLASH,
        rig::OP,
        Parameter {
            name: "soc",
            default: "4,8,16,32,64,90,96",
            help: "shares of the cache's flash, percent, separated by commas",
        },
    ],
    metrics: &[
        DLWA_ON,
        DLWA_OFF,
        ("gain.*", "1 - on / off, by SOC in percent"),
        ("hit.*", "hit ratio of GETs over the whole run; the same with and without placement"),
        ("half_op", "half of the over-provisioning, in percent: the bound of the criterion"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("dlwa.on.4", 1.03, "Figure 9"),
        Reference::published("dlwa.on.64", 2.5, "Figure 9"),
        Reference::published("dlwa.off.4", 3.5, "Figure 6"),
        Reference::published("dlwa.off.64", 3.0, "Figure 9: more than 3"),
        Reference::published("gain.96", 0.0, "Figure 9: \"no benefit\""),
    ],
    needs: &[
        "half_op",
        "dlwa.on.4",
        "dlwa.on.8",
        "dlwa.on.16",
        "dlwa.on.32",
        "dlwa.on.64",
        "dlwa.on.90",
        "dlwa.on.96",
        "dlwa.off.4",
        "dlwa.off.64",
        "gain.96",
    ],
    measure: measure_soc_size,
    judge: judge_soc_size,
};

pub(super) static MODEL_VALIDATION: Experiment = Experiment {
    name: "model-validation",
    title: "Theorem 1 against the drive",
    reproduces: "FDP paper (EuroSys'25), Figure 12: KV Cache with placement by SOC size, 100 %",
    criterion: "|model - sim| / sim <= 16 % at SOC 4, 8, 16, 32 and 64 %, as the paper found; sim \
                within 15 % of the paper's at 4 and 64 %; <= 7 % for uniform writes alone at \
                over-provisioning of 17, 25, 50 and 100 %",
    parameters: &[
        rig::REQUESTS_OF_LARGE,
        rig::LARGE_FLASH,
        rig::OP,
        Parameter {
            name: "soc",
            default: "4,8,16,32,64",
            help: "shares of the cache's flash, percent, separated by commas",
        },
        Parameter {
            name: "uniform_op",
            default: "17,25,50,100",
            help: "over-provisioning of the drive with uniform writes alone, at least 17 %",
        },
    ],
    metrics: &[
        ("sim.*", "DLWA of the real cache on the simulated drive, by SOC in percent"),
        ("model.*", "Theorem 1 as the paper uses it, for all bytes"),
        ("model_weighted.*", "Theorem 1 for the SOC's bytes, 1 for the others"),
        ("error.*", "|model - sim| / sim"),
        ("error_weighted.*", "the same of the weighted model"),
        ("uniform_sim.*", "DLWA of the bare firmware, uniform writes alone, by over-provisioning"),
        ("uniform_model.*", "Theorem 1 for them"),
        ("uniform_error.*", "|model - sim| / sim"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("error.64", 0.16, "Figure 12: at most, at high SOC"),
        Reference::published("sim.64", 2.5, "Figure 9"),
        Reference::published("sim.4", 1.03, "Figure 9"),
    ],
    needs: &[
        "error.4",
        "error.8",
        "error.16",
        "error.32",
        "error.64",
        "sim.4",
        "sim.64",
        "uniform_error.17",
        "uniform_error.25",
        "uniform_error.50",
        "uniform_error.100",
    ],
    measure: measure_model,
    judge: judge_model,
};

pub(super) static ISOLATION_TYPE: Experiment = Experiment {
    name: "isolation-type",
    title: "initially against persistently isolated handles, and small reclaim units",
    reproduces: "FDP paper (EuroSys'25), lessons in section 5.5: initially isolated is enough; \
                 small units in WARP (FAST'26)",
    criterion: "at SOC 4 % and over-provisioning of 17 % DLWA of both types is 1 to 1.05, and from \
                there on they differ by at most 0.05; nowhere do they differ by more than 15 %; \
                initially isolated handles lose ground as over-provisioning grows, as WARP found",
    parameters: &[
        rig::REQUESTS,
        rig::FLASH,
        Parameter { name: "soc", default: "4,64", help: "SOC sizes, percent, by commas" },
        Parameter {
            name: "op",
            default: "10,17,28",
            help: "over-provisioning, percent, by commas",
        },
        Parameter {
            name: "small_ru",
            default: "8",
            help: "small reclaim units that make one of the usual size, 2 to 64",
        },
    ],
    metrics: &[
        ("dlwa.ii.*", "DLWA, initially isolated, by over-provisioning and SOC in percent (10.4)"),
        ("dlwa.pi.*", "the same, persistently isolated"),
        ("difference.*", "persistently less initially isolated"),
        ("dlwa.small.*", "the same as dlwa.ii, with small reclaim units"),
        ("small_difference.*", "small units less usual ones, initially isolated"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("dlwa.ii.17.4", 1.03, "Figure 6"),
        Reference::published("difference.17.4", 0.0, "section 5.5: is enough"),
    ],
    needs: &[
        "dlwa.ii.17.4",
        "dlwa.pi.17.4",
        "difference.10.4",
        "difference.17.4",
        "difference.28.4",
        "difference.10.64",
        "difference.28.64",
    ],
    measure: measure_isolation,
    judge: judge_isolation,
};

fn at(soc: f64, settings: &Settings, seed: u64) -> Result<ReplayOptions, Error> {
    let options = rig::options("meta-kv", settings, seed)?;
    Ok(ReplayOptions { soc_percent: soc, ..options })
}

fn measure_soc_size(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let op_percent = settings.within("op", 1.0..=200.0)?;
    let mut metrics = Metrics::from([("half_op".to_owned(), op_percent / 2.0)]);
    for soc in settings.list::<f64>("soc")? {
        let options = ReplayOptions { op_percent, ..at(soc, settings, seed)? };
        let [(_, on), (_, off)] =
            rig::note_both(&options, monitor, &mut metrics, &soc.to_string())?;
        metrics.insert(format!("gain.{soc}"), 1.0 - on.drive.dlwa / off.drive.dlwa);
        let hits = on.tenants.iter().map(|tenant| tenant.run.hit_ratio);
        metrics.insert(format!("hit.{soc}"), hits.sum());
    }
    Ok(metrics)
}

fn measure_model(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let op_percent = settings.within("op", 1.0..=200.0)?;
    let mut metrics = Metrics::new();
    let wrong = |error: larder_ssd::Error| Error::usage(format!("model-validation: {error}"));
    for soc in settings.list::<f64>("soc")? {
        let options = ReplayOptions { op_percent, ..at(soc, settings, seed)? };
        let run = rig::alone(&options, true, monitor)?;
        let spare = SpareRatio::of_soc_percent(op_percent, soc).map_err(wrong)?;
        let model = dlwa::fifo(spare);
        let weighted = dlwa::device_wide(model, rig::soc_share(&run)).map_err(wrong)?;
        let sim = run.drive.dlwa;
        rig::note_steadiness(&mut metrics, &soc.to_string(), &run);
        metrics.insert(format!("sim.{soc}"), sim);
        metrics.insert(format!("model.{soc}"), model);
        metrics.insert(format!("model_weighted.{soc}"), weighted);
        metrics.insert(format!("error.{soc}"), (model - sim).abs() / sim);
        metrics.insert(format!("error_weighted.{soc}"), (weighted - sim).abs() / sim);
    }
    for op in settings.list::<f64>("uniform_op")? {
        let sim = bare::uniform_dlwa(op, seed, monitor)?;
        let model = dlwa::fifo(SpareRatio::of_soc_percent(op, 100.0).map_err(wrong)?);
        metrics.insert(format!("uniform_sim.{op}"), sim);
        metrics.insert(format!("uniform_model.{op}"), model);
        metrics.insert(format!("uniform_error.{op}"), (model - sim).abs() / sim);
    }
    Ok(metrics)
}

fn measure_isolation(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let small_ru = settings.within("small_ru", 2.0..=64.0)?;
    let mut metrics = Metrics::new();
    for op in settings.list::<f64>("op")? {
        for soc in settings.list::<f64>("soc")? {
            let options = ReplayOptions { op_percent: op, ..at(soc, settings, seed)? };
            let [(_, initially), (_, persistently)] = rig::with_and_without(|initially| {
                let isolation = match initially {
                    true => Isolation::InitiallyIsolated,
                    false => Isolation::PersistentlyIsolated,
                };
                isolated(&ReplayOptions { isolation, ..options.clone() }, monitor)
            })?;
            let unit_bytes = Some(small_unit_bytes(&options, small_ru));
            let small = isolated(&ReplayOptions { unit_bytes, ..options }, monitor)?;
            let point = format!("{op}.{soc}");
            for (kind, run) in [("ii", &initially), ("pi", &persistently), ("small", &small)] {
                rig::note(&mut metrics, kind, &point, run);
            }
            let more = |run: &SharedRun| run.drive.dlwa - initially.drive.dlwa;
            metrics.insert(format!("difference.{point}"), more(&persistently));
            metrics.insert(format!("small_difference.{point}"), more(&small));
        }
    }
    Ok(metrics)
}

/// The unit size of small units: whole pages, at least one.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn small_unit_bytes(options: &ReplayOptions, part: f64) -> u64 {
    let pages = options.resolved_unit_bytes() as f64 / part / PAGE_BYTES as f64;
    (pages.round() as u64).max(1) * PAGE_BYTES
}

fn isolated(options: &ReplayOptions, monitor: &Monitor) -> Result<SharedRun, Error> {
    let drive = shared::drive(options, true, ISOLATION_HANDLES)?;
    let device = std::sync::Arc::clone(&drive);
    let tenant = Tenant::new(options.clone(), device);
    shared::play(&drive, &[tenant], true, &mut |_| Ok(()), monitor)
}

fn judge_soc_size(summary: &Summary) -> Judgement {
    let on = summary.series("dlwa.on.");
    let rises = on.windows(2).all(|pair| pair[1].1.mean >= pair[0].1.mean - 0.05);
    let half_op = summary.mean("half_op");
    let small = on.iter().filter(|(soc, _)| *soc <= half_op);
    let small: Vec<f64> = small.map(|(_, spread)| spread.mean).collect();
    let (least, most) = (lowest(small.iter().copied()), highest(small));
    let at = |metric: &str| summary.mean(metric);
    let paper = SOC_SIZE.references;
    let gain = summary.mean("gain.96");
    let no_gain = summary.series("gain.").into_iter().find(|(_, gain)| gain.mean <= 0.1);
    let crossover = no_gain.map_or("at none of the sizes".to_owned(), |(soc, _)| {
        format!("from SOC {soc} % on, of the sizes measured")
    });
    Checks::default()
        .shape(rises, "on rises with the SOC")
        .shape(at("dlwa.on.64") < at("dlwa.off.64"), "placement lowers DLWA at 64 %")
        .exact(
            least >= 1.0 && most <= 1.1,
            format!("on is {least:.3} to {most:.3} up to SOC {half_op} %"),
        )
        .near("on at 4 %", at("dlwa.on.4"), paper, "dlwa.on.4", SAME)
        .near("on at 64 %", at("dlwa.on.64"), paper, "dlwa.on.64", SAME)
        .near("off at 4 %", at("dlwa.off.4"), paper, "dlwa.off.4", SAME)
        .near("off at 64 %", at("dlwa.off.64"), paper, "dlwa.off.64", SAME)
        .exact(gain.abs() <= 0.1, format!("gain at 96 %: {:.1} %", gain * 100.0))
        .note(format!("placement gains at most 10 % {crossover}"))
        .judge()
}

fn judge_model(summary: &Summary) -> Judgement {
    let largest = |prefix: &str| {
        highest(summary.series(prefix).into_iter().map(|(_, spread)| spread.mean)) * 100.0
    };
    let (error, weighted) = (largest("error."), largest("error_weighted."));
    let uniform = largest("uniform_error.");
    let sim = summary.series("sim.");
    let rises = sim.windows(2).all(|pair| pair[1].1.mean >= pair[0].1.mean - 0.05);
    let at = |metric: &str| summary.mean(metric);
    let paper = MODEL_VALIDATION.references;
    Checks::default()
        .near("sim at 4 %", at("sim.4"), paper, "sim.4", SAME)
        .near("sim at 64 %", at("sim.64"), paper, "sim.64", SAME)
        .exact(error <= 16.0, format!("the model is off by at most {error:.1} %"))
        .exact(uniform <= 7.0, format!("by at most {uniform:.1} % for uniform writes alone"))
        .shape(rises, "DLWA rises with the SOC as in the model")
        .note(format!("weighted with the SOC's share of the bytes, by at most {weighted:.1} %"))
        .judge()
}

/// Describes the points where persistently isolated handles are better.
fn crossover(summary: &Summary) -> String {
    let better = points(summary, "difference.").into_iter();
    let better = better.filter(|(.., difference)| *difference < 0.0);
    match better.map(|(op, soc, _)| format!("OP {op} % SOC {soc} %")).collect::<Vec<_>>().as_slice()
    {
        [] => "persistently isolated handles are better at none of these points".to_owned(),
        points => format!("persistently isolated handles are better at {}", points.join(", ")),
    }
}

fn judge_isolation(summary: &Summary) -> Judgement {
    let at = |metric: &str| summary.mean(metric);
    let ample = points(summary, "difference.").into_iter();
    let ample =
        ample.filter(|(op, soc, _)| soc == "4" && op.parse::<f64>().is_ok_and(|op| op >= 17.0));
    let largest = highest(ample.map(|(.., difference)| difference.abs()));
    let apart = points(summary, "dlwa.pi.").into_iter().map(|(op, soc, persistently)| {
        (persistently / at(&format!("dlwa.ii.{op}.{soc}")) - 1.0).abs()
    });
    let apart = highest(apart);
    let both = ["dlwa.ii.17.4", "dlwa.pi.17.4"].map(at);
    let loses = |soc: &str| {
        at(&format!("difference.28.{soc}")) <= at(&format!("difference.10.{soc}")) + CHANCE
    };
    let list = |prefix: &str| {
        let points = points(summary, prefix).into_iter();
        let each = points.map(|(op, soc, by)| format!("OP {op} % SOC {soc} % {by:+.3}"));
        each.collect::<Vec<_>>().join(", ")
    };
    Checks::default()
        .exact(largest <= 0.05, format!("at SOC 4 % the types differ by at most {largest:.3}"))
        .exact(
            both.iter().all(|dlwa| NEXT_TO_NONE.contains(dlwa)),
            format!(
                "at OP 17 % SOC 4 %: {:.3} initially, {:.3} persistently isolated",
                both[0], both[1]
            ),
        )
        .exact(
            ["4", "64"].into_iter().all(loses),
            "initially isolated handles lose ground from OP 10 to 28 %",
        )
        .shape(
            apart <= SAME,
            format!(
                "initially isolated is enough: the types differ by at most {:.1} %",
                apart * 100.0
            ),
        )
        .note(format!("persistently less initially isolated: {}", list("difference.")))
        .note(crossover(summary))
        .note(format!(
            "small units less usual ones: {}; units that are open or in reserve take less of the \
             over-provisioning where they are small",
            list("small_difference.")
        ))
        .judge()
}

/// The means of a series by over-provisioning and SOC size.
fn points(summary: &Summary, prefix: &str) -> Vec<(String, String, f64)> {
    let of_series = summary.iter().filter_map(|(name, spread)| {
        let (op, soc) = name.strip_prefix(prefix)?.rsplit_once('.')?;
        Some((op.to_owned(), soc.to_owned(), spread.mean))
    });
    of_series.collect()
}
