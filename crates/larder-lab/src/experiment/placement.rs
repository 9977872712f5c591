//! The real cache on the simulated drive, with and without placement: the figures of the FDP paper
//! that vary one parameter of a replay.

use super::judge::Checks;
use super::{Experiment, Judgement, Metrics, PaperValue, Parameter, Settings, Summary};
use crate::Error;
use crate::replay::{self, Monitor, ReplayOptions, Run};

const REQUESTS: Parameter =
    Parameter { name: "requests", default: "10000000", help: "requests of a run" };

pub(super) static UTILIZATION: Experiment = Experiment {
    name: "utilization",
    title: "DLWA by the share of the drive that the cache uses",
    reproduces: "FDP paper (EuroSys'25), Figure 6: KV Cache, SOC 4 %",
    criterion: "on: max - min <= 0.05; off: monotone within 0.1, >= 2.5 at 100 %, 1.05 to 1.5 at 50 %",
    parameters: &[
        REQUESTS,
        Parameter {
            name: "utilization",
            default: "50,60,70,80,90,100",
            help: "shares of the drive, percent, separated by commas",
        },
    ],
    metrics: &[
        ("dlwa.on.*", "DLWA with placement, by utilisation in percent"),
        ("dlwa.off.*", "DLWA without"),
    ],
    paper: &[
        PaperValue { metric: "dlwa.on.100", value: 1.03, source: "Figure 6" },
        PaperValue { metric: "dlwa.off.100", value: 3.5, source: "Figure 6" },
        PaperValue { metric: "dlwa.on.50", value: 1.03, source: "Figure 5" },
        PaperValue { metric: "dlwa.off.50", value: 1.3, source: "Figure 5" },
    ],
    measure: measure_utilization,
    judge: judge_utilization,
};

pub(super) static WRITE_ONLY: Experiment = Experiment {
    name: "write-only",
    title: "DLWA when the workload is SETs alone",
    reproduces: "FDP paper (EuroSys'25), Figures 8 and 13: WO KV Cache",
    criterion: "on <= 1.05 at 50 and 100 %; off at 100 % >= 2.5",
    parameters: &[REQUESTS],
    metrics: &[
        ("dlwa.on.*", "DLWA with placement, by utilisation in percent"),
        ("dlwa.off.*", "DLWA without"),
    ],
    paper: &[
        PaperValue { metric: "dlwa.on.100", value: 1.0, source: "Figure 8, \"~1\"" },
        PaperValue { metric: "dlwa.off.100", value: 3.5, source: "Figure 13" },
    ],
    measure: measure_write_only,
    judge: judge_write_only,
};

fn measure_utilization(
    settings: &Settings,
    seed: u64,
    monitor: &Monitor,
) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    for utilization in settings.list::<f64>("utilization")? {
        let options = ReplayOptions {
            requests: Some(settings.get("requests")?),
            utilization_percent: utilization,
            ..ReplayOptions::of_preset("meta-kv", seed)
        };
        dlwa_of_both(&options, monitor, &mut metrics, &utilization.to_string())?;
    }
    Ok(metrics)
}

fn measure_write_only(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    for utilization in [50.0, 100.0] {
        let options = ReplayOptions {
            requests: Some(settings.get("requests")?),
            utilization_percent: utilization,
            ..ReplayOptions::of_preset("meta-kv-write-only", seed)
        };
        dlwa_of_both(&options, monitor, &mut metrics, &utilization.to_string())?;
    }
    Ok(metrics)
}

/// Runs a replay with and without placement and notes both DLWAs under `point`.
fn dlwa_of_both(
    options: &ReplayOptions,
    monitor: &Monitor,
    metrics: &mut Metrics,
    point: &str,
) -> Result<(), Error> {
    let outcome = replay::replay(options, monitor)?;
    for run in &outcome.runs {
        metrics.insert(format!("dlwa.{}.{point}", run.placement), dlwa(run));
    }
    Ok(())
}

fn dlwa(run: &Run) -> f64 {
    run.dlwa.unwrap_or(f64::NAN)
}

fn judge_utilization(summary: &Summary) -> Judgement {
    let on = summary.series("dlwa.on.");
    let off = summary.series("dlwa.off.");
    let highest = on.iter().map(|(_, spread)| spread.mean).fold(f64::MIN, f64::max);
    let lowest = on.iter().map(|(_, spread)| spread.mean).fold(f64::MAX, f64::min);
    let rises = off.windows(2).all(|pair| pair[1].1.mean >= pair[0].1.mean - 0.1);
    let (half, full) = (summary.mean("dlwa.off.50"), summary.mean("dlwa.off.100"));
    Checks::default()
        .shape(highest - lowest <= 0.05, format!("on is flat: {lowest:.3} to {highest:.3}"))
        .shape(rises, "off rises with utilisation")
        .exact(full >= 2.5, format!("off at 100 %: {full:.2}"))
        .exact((1.05..=1.5).contains(&half), format!("off at 50 %: {half:.2}"))
        .judge()
}

fn judge_write_only(summary: &Summary) -> Judgement {
    let on = summary.max("dlwa.on.50").max(summary.max("dlwa.on.100"));
    let off = summary.mean("dlwa.off.100");
    Checks::default()
        .exact(on <= 1.05, format!("on at most {on:.3}"))
        .exact(off >= 2.5, format!("off at 100 %: {off:.2}"))
        .shape(off > on, "placement lowers DLWA")
        .judge()
}
