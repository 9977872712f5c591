//! What a drive will cost with a workload, before it is bought: with placement and without.
//!
//! A drive of a terabyte is not simulated page by page. The plan runs the real cache on a model of the drive that keeps
//! its ratios: DRAM to flash, over-provisioning, share of the small-object engine, about 340 reclaim units.
//! Device-level write amplification (DLWA) depends on these ratios and not on the size (the experiment `full-scale`
//! shows it), as long as a unit is large relative to the large objects. Where it is not, the range of the drive's life
//! says how far DLWA may rise. The formulas of [`larder_ssd::analytic`] turn the measurements into years, kilograms and
//! money.
//!
//! | module | what it is |
//! |---|---|
//! | `options` | the question |
//! | `check` | refuses invalid questions |
//! | `fit` | whether drive and cache of the model can work, and which sizes would |
//! | `model` | the scaled-down drive, and how long it has to run |
//! | `measured` | the measurements of a run, and whether they have settled |
//! | `sweep` | runs over utilisations, with and without placement, on all cores |
//! | `theory` | DLWA by formula |
//! | `bill` | life, carbon, cost |
//! | `layouts` | small objects in buckets and in pages |
//! | `levelling` | the life of a set of drives that wear at different rates |
//! | `limit` | the utilisation at which DLWA passes a limit |
//! | `outcome` | the answer, in its stable JSON form |
//! | `rows` | the answer as rows of a table |
//! | `advice` | the answer in words |
//! | `settings` | the answer as a configuration of the server |

mod advice;
mod bill;
mod check;
mod fit;
mod layouts;
mod levelling;
mod limit;
mod measured;
mod model;
mod options;
mod outcome;
mod rows;
mod settings;
mod sweep;
#[cfg(test)]
mod tests;
mod theory;

use larder::SocLayout;

use crate::Error;
use crate::replay::Monitor;
pub use bill::Bill;
pub use layouts::LayoutAnswer;
pub use levelling::LevellingGain;
pub use limit::Limit;
use measured::Measured;
pub use options::{PlanOptions, Rating};
pub use outcome::{Answer, Load, ModelFacts, Plan, SweepPoint};
pub use sweep::OnRun;

/// Simulates the model and calculates the answer.
///
/// # Errors
/// [`Error::Usage`] for options that cannot be planned; [`Error::Run`] for a bad trace, a workload that writes nothing
/// to flash, or an interruption.
pub fn plan(options: &PlanOptions, monitor: &Monitor, on_run: &OnRun<'_>) -> Result<Plan, Error> {
    options.check()?;
    let model = model::Model::of(options, monitor)?;
    let asked = options.utilization_percent;
    let mut jobs = sweep::jobs(&options.sweep(), model.layout());
    let others = model.other_layout(asked).map(|layout| sweep::jobs(&[asked], layout));
    let of_sweep = jobs.len();
    jobs.extend(others.unwrap_or_default());
    let mut measured = sweep::run(&model, &jobs, monitor, on_run)?;
    let others = measured.split_off(of_sweep);
    let points = measured
        .iter()
        .map(|measured| point(options, measured))
        .collect::<Result<Vec<SweepPoint>, Error>>()?;
    let answers = ["on", "off"]
        .into_iter()
        .filter_map(|placement| answer(options, &points, placement, model.layout()))
        .collect::<Vec<_>>();
    let load = load(options, &measured)?;
    let of_asked: Vec<Measured> =
        measured.iter().filter(|run| run.utilization == asked).copied().collect();
    let layouts = [of_asked, others];
    let layouts = layouts::answers(options, &layouts, model.small_object_bytes())?;
    let mut parameters = options.to_json();
    parameters.insert("requests".to_owned(), model.requests().into());
    let advice = advice::sentences(options, &load, &answers, &layouts);
    Ok(Plan {
        command: "plan",
        parameters,
        seed: options.seed,
        model: model.facts(&measured),
        load,
        answers,
        layouts,
        sweep: points,
        advice,
    })
}

fn point(options: &PlanOptions, measured: &Measured) -> Result<SweepPoint, Error> {
    let utilization = measured.utilization;
    let soc_share = measured.soc_share;
    let dlwa_theory =
        theory::dlwa(options, measured.with_placement, utilization, measured.random_share())?;
    Ok(SweepPoint {
        utilization,
        placement: measured.placement(),
        dlwa: measured.dlwa,
        dlwa_theory,
        hit_ratio: measured.hit_ratio,
        host_bytes_per_request: measured.host_bytes_per_request,
        soc_share,
        bill: bill::bill(options, measured, dlwa_theory)?,
    })
}

/// A column of the table: the requested point, and the limit over all points.
fn answer(
    options: &PlanOptions,
    points: &[SweepPoint],
    placement: &'static str,
    layout: SocLayout,
) -> Option<Answer> {
    let of_placement = || points.iter().filter(|point| point.placement == placement);
    let point = of_placement().find(|point| point.utilization == options.utilization_percent)?;
    let curve: Vec<(f64, f64)> =
        of_placement().map(|point| (point.utilization, point.dlwa)).collect();
    let random_share = measured::random_share(layout, point.soc_share);
    let theory =
        |utilization: f64| theory::dlwa(options, placement == "on", utilization, random_share).ok();
    let range = (curve.first()?.0, curve.last()?.0);
    Some(Answer {
        placement,
        dlwa: point.dlwa,
        dlwa_theory: point.dlwa_theory,
        bill: point.bill,
        levelling: options
            .drive_rates
            .as_deref()
            .map(|rates| levelling::gain(rates, point.bill.life_years, options.years)),
        limit: limit::of_points(&curve, options.dlwa_limit),
        limit_theory: limit::of_function(theory, range, options.dlwa_limit),
    })
}

/// The cache's load on the drive at the requested utilisation. It is the same with and without placement.
fn load(options: &PlanOptions, measured: &[Measured]) -> Result<Load, Error> {
    let asked = measured.iter().find(|run| run.utilization == options.utilization_percent);
    let asked = asked.ok_or_else(|| Error::run("plan: the utilisation was not simulated"))?;
    let host_bytes_per_day = bill::host_bytes_per_day(options, asked);
    #[allow(clippy::cast_precision_loss)] // a drive is far below 2^53 bytes
    let flash_bytes = options.flash_bytes as f64;
    Ok(Load {
        hit_ratio: asked.hit_ratio,
        host_bytes_per_request: asked.host_bytes_per_request,
        soc_share: asked.soc_share,
        host_bytes_per_day,
        drive_writes_per_day: host_bytes_per_day / flash_bytes,
        useful_gb: bill::useful_gb(options, options.utilization_percent),
    })
}
