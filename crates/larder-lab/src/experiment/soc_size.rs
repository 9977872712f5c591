//! The size of the small-object engine: what placement gains, whether Theorem 1 foretells it, and
//! whether the type of isolation matters.

use larder_device::Isolation;
use larder_ssd::analytic::{SpareRatio, dlwa};
use larder_ssd::managed::PAGE_BYTES;

use super::bare;
use super::judge::{Checks, highest};
use super::rig::{self, DLWA_OFF, DLWA_ON, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, PaperValue, Parameter, Settings, Summary};
use crate::Error;
use crate::replay::shared::{self, Tenant};
use crate::replay::{Monitor, ReplayOptions};

/// Handles of the drives that compare types of isolation: the default, SOC and LOC. Each handle of
/// a persistently isolated drive takes an open unit away from the spare ones.
const ISOLATION_HANDLES: u16 = 3;

pub(super) static SOC_SIZE: Experiment = Experiment {
    name: "soc-size",
    title: "DLWA by the size of the small-object engine",
    reproduces: "FDP paper (EuroSys'25), Figure 9: KV Cache, 100 % utilisation",
    criterion: "on: monotone within 0.05, <= 1.1 while the SOC is at most half of the \
                over-provisioning; at 64 %: 1.8 to 3.0 and below off; at 96 %: gain <= 10 %",
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
    ],
    paper: &[
        PaperValue { metric: "dlwa.on.4", value: 1.03, source: "Figure 9" },
        PaperValue { metric: "dlwa.on.64", value: 2.5, source: "Figure 9" },
        PaperValue { metric: "dlwa.off.4", value: 3.5, source: "Figure 6" },
        PaperValue { metric: "dlwa.off.64", value: 3.0, source: "Figure 9: more than 3" },
        PaperValue { metric: "gain.96", value: 0.0, source: "Figure 9: \"no benefit\"" },
    ],
    measure: measure_soc_size,
    judge: judge_soc_size,
};

pub(super) static MODEL_VALIDATION: Experiment = Experiment {
    name: "model-validation",
    title: "Theorem 1 against the drive",
    reproduces: "FDP paper (EuroSys'25), Figure 12: KV Cache with placement by SOC size, 100 %",
    criterion: "|model - sim| / sim <= 16 % for SOC 4 to 64 %; <= 7 % for uniform writes alone",
    parameters: &[
        rig::REQUESTS,
        rig::FLASH,
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
    ],
    paper: &[
        PaperValue { metric: "error.64", value: 0.16, source: "Figure 12: at most, at high SOC" },
        PaperValue { metric: "sim.64", value: 2.5, source: "Figure 9" },
        PaperValue { metric: "sim.4", value: 1.03, source: "Figure 9" },
    ],
    measure: measure_model,
    judge: judge_model,
};

pub(super) static ISOLATION_TYPE: Experiment = Experiment {
    name: "isolation-type",
    title: "initially against persistently isolated handles, and small reclaim units",
    reproduces: "FDP paper (EuroSys'25), lessons in section 5.5: initially isolated is enough; \
                 small units in WARP (FAST'26)",
    criterion: "at SOC 4 % and over-provisioning from 17 % the types differ by at most 0.05; all \
                else is reported",
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
    ],
    paper: &[],
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
            metrics.insert(format!("dlwa.ii.{op}.{soc}"), initially);
            metrics.insert(format!("dlwa.pi.{op}.{soc}"), persistently);
            metrics.insert(format!("difference.{op}.{soc}"), persistently - initially);
            let unit_bytes = Some(small_unit_bytes(&options, small_ru));
            let small = isolated(&ReplayOptions { unit_bytes, ..options }, monitor)?;
            metrics.insert(format!("dlwa.small.{op}.{soc}"), small);
            metrics.insert(format!("small_difference.{op}.{soc}"), small - initially);
        }
    }
    Ok(metrics)
}

/// Whole pages, at least one.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn small_unit_bytes(options: &ReplayOptions, part: f64) -> u64 {
    let pages = options.resolved_unit_bytes() as f64 / part / PAGE_BYTES as f64;
    (pages.round() as u64).max(1) * PAGE_BYTES
}

fn isolated(options: &ReplayOptions, monitor: &Monitor) -> Result<f64, Error> {
    let drive = shared::drive(options, true, ISOLATION_HANDLES)?;
    let device = std::sync::Arc::clone(&drive);
    let tenant = Tenant::new(options.clone(), device);
    Ok(shared::play(&drive, &[tenant], true, &mut |_| Ok(()), monitor)?.drive.dlwa)
}

fn judge_soc_size(summary: &Summary) -> Judgement {
    let on = summary.series("dlwa.on.");
    let rises = on.windows(2).all(|pair| pair[1].1.mean >= pair[0].1.mean - 0.05);
    let half_op = summary.mean("half_op");
    let small = on.iter().filter(|(soc, _)| *soc <= half_op);
    let small = highest(small.map(|(_, spread)| spread.mean));
    let (on_64, off_64) = (summary.mean("dlwa.on.64"), summary.mean("dlwa.off.64"));
    let gain = summary.mean("gain.96");
    let no_gain = summary.series("gain.").into_iter().find(|(_, gain)| gain.mean <= 0.1);
    let crossover = no_gain.map_or("at none of the sizes".to_owned(), |(soc, _)| {
        format!("from SOC {soc} % on, of the sizes measured")
    });
    Checks::default()
        .shape(rises, "on rises with the SOC")
        .exact(small <= 1.1, format!("on at most {small:.3} up to SOC {half_op} %"))
        .exact((1.8..=3.0).contains(&on_64), format!("on at 64 %: {on_64:.2}"))
        .shape(on_64 < off_64, format!("off at 64 %: {off_64:.2}"))
        .exact(gain <= 0.1, format!("gain at 96 %: {:.1} %", gain * 100.0))
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
    Checks::default()
        .exact(error <= 16.0, format!("the model is off by at most {error:.1} %"))
        .exact(uniform <= 7.0, format!("by at most {uniform:.1} % for uniform writes alone"))
        .shape(rises, "DLWA rises with the SOC as in the model")
        .note(format!("weighted with the SOC's share of the bytes, by at most {weighted:.1} %"))
        .judge()
}

/// From which over-provisioning on persistently isolated handles are the better ones.
fn crossover(summary: &Summary) -> String {
    let better = summary.iter().filter_map(|(name, spread)| {
        let (op, soc) = name.strip_prefix("difference.")?.rsplit_once('.')?;
        (spread.mean < 0.0).then(|| format!("OP {op} % SOC {soc} %"))
    });
    match better.collect::<Vec<_>>().as_slice() {
        [] => "persistently isolated handles are better at none of these points".to_owned(),
        points => format!("persistently isolated handles are better at {}", points.join(", ")),
    }
}

fn judge_isolation(summary: &Summary) -> Judgement {
    let ample = summary.iter().filter_map(|(name, spread)| {
        let (op, soc) = name.strip_prefix("difference.")?.rsplit_once('.')?;
        let counts = soc == "4" && op.parse::<f64>().ok()? >= 17.0;
        counts.then(|| spread.mean.abs())
    });
    let largest = highest(ample);
    let list = |prefix: &str| {
        let differences = summary.iter().filter_map(|(name, spread)| {
            let (op, soc) = name.strip_prefix(prefix)?.rsplit_once('.')?;
            Some(format!("OP {op} % SOC {soc} % {:+.3}", spread.mean))
        });
        differences.collect::<Vec<_>>().join(", ")
    };
    Checks::default()
        .exact(largest <= 0.05, format!("at SOC 4 % the types differ by at most {largest:.3}"))
        .note(format!("persistently less initially isolated: {}", list("difference.")))
        .note(crossover(summary))
        .note(format!(
            "small units less usual ones: {}; units that are open or in reserve take less of the \
             over-provisioning where they are small",
            list("small_difference.")
        ))
        .judge()
}
