//! The bare FTL model under random writes, against formulas and published simulations. There is no cache.

use larder_ssd::analytic::{SpareRatio, dlwa};
use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig, ManagedSsd};

use super::judge::Checks;
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::{Monitor, shared};

/// Number of full drive writes: in all, before the measurement, and until its middle.
const PASSES: u32 = 10;
const PASSES_BEFORE: u32 = 5;
const PASSES_HALFWAY: u32 = 8;

pub(super) static FTL_UNIFORM: Experiment = Experiment {
    name: "ftl-uniform",
    title: "write amplification of the bare firmware under random writes",
    reproduces: "Desnoyers (SYSTOR'12), greedy collection; event simulations with one frontier",
    criterion: "uniform writes: within 1 % of the formula for the over-provisioning and the unit; of \
                other patterns nothing is published to judge by",
    parameters: &[
        Parameter { name: "op", default: "11", help: "over-provisioning, percent" },
        Parameter { name: "pages_per_unit", default: "64", help: "pages of a reclaim unit" },
        Parameter { name: "units", default: "8000", help: "units of data" },
        Parameter {
            name: "pattern",
            default: "uniform",
            help: "uniform, permutation (each page once a pass) or hot-cold (80 % to a fifth)",
        },
    ],
    metrics: &[
        ("wa", "media pages per host page, over the second half of ten drive writes"),
        ("wa_formula", "the same by Desnoyers' formula; only for uniform writes"),
        ("drift", "share by which wa differs between the halves of the measurement"),
    ],
    references: &[Reference::published("wa", 4.857, "greedy, 64 pages a unit, OP 11 %, uniform")],
    needs: &["wa", "wa_formula", "drift"],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let op = settings.within("op", 1.0..=200.0)?;
    let pages_per_unit: u32 = settings.get("pages_per_unit")?;
    let units: u32 = settings.get("units")?;
    let mut pattern = Pattern::new(settings, u64::from(pages_per_unit) * u64::from(units), seed)?;
    let mut ssd = drive(pages_per_unit, units, op)?;
    let pages = pattern.pages;
    let model = |error: larder_ssd::Error| Error::run(format!("ftl-uniform: {error}"));
    ssd.write(0, pages, 0).map_err(model)?;
    let mut before = ssd.stats().clone();
    let mut halfway = before.clone();
    for pass in 0..PASSES {
        if monitor.is_stopped() {
            return Err(Error::run("interrupted"));
        }
        match pass {
            PASSES_BEFORE => before = ssd.stats().clone(),
            PASSES_HALFWAY => halfway = ssd.stats().clone(),
            _ => {}
        }
        for _ in 0..pages {
            ssd.write(pattern.next(), 1, 0).map_err(model)?;
        }
    }
    let wa = ssd.stats().dlwa_since(&before).unwrap_or(f64::NAN);
    let drift = shared::drift(&before, &halfway, ssd.stats());
    let mut metrics = Metrics::from([("wa".to_owned(), wa), ("drift".to_owned(), drift)]);
    if matches!(pattern.kind, Kind::Uniform) {
        metrics.insert("wa_formula".to_owned(), formula(op, pages_per_unit)?);
    }
    Ok(metrics)
}

fn formula(op_percent: f64, pages_per_unit: u32) -> Result<f64, Error> {
    let wrong = |error: larder_ssd::Error| Error::usage(format!("ftl-uniform: {error}"));
    let spare = SpareRatio::new(op_percent / 100.0).map_err(wrong)?;
    dlwa::greedy(spare, pages_per_unit).map_err(wrong)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // op is at most 200 %
fn drive(pages_per_unit: u32, units: u32, op: f64) -> Result<ManagedSsd, Error> {
    // The four units beyond the spare ones are the write frontier and the reserve, which hold no spare.
    let physical = (f64::from(units) * (1.0 + op / 100.0)).round() as u32 + 4;
    let logical_pages = u64::from(pages_per_unit) * u64::from(units);
    let geometry = Geometry { logical_pages, pages_per_unit, units: physical };
    ManagedSsd::new(ManagedConfig {
        handles: 1,
        gc_destination: GcDestination::HostFrontier,
        gc_reserve_units: 2,
        ..ManagedConfig::new(geometry)
    })
    .map_err(|error| Error::usage(format!("ftl-uniform: {error}")))
}

/// Chooses the next page to write.
struct Pattern {
    pages: u64,
    rng: fastrand::Rng,
    kind: Kind,
}

enum Kind {
    Uniform,
    Permutation { order: Vec<u32>, at: usize },
    HotCold,
}

impl Pattern {
    fn new(settings: &Settings, pages: u64, seed: u64) -> Result<Self, Error> {
        let kind = match settings.text("pattern") {
            "uniform" => Kind::Uniform,
            "permutation" => {
                let pages = u32::try_from(pages)
                    .map_err(|_| settings.refuse("units", settings.text("units"), "too many"))?;
                Kind::Permutation { order: (0..pages).collect(), at: 0 }
            }
            "hot-cold" => Kind::HotCold,
            other => {
                let known = "use uniform, permutation or hot-cold";
                return Err(settings.refuse("pattern", other, known));
            }
        };
        Ok(Self { pages, rng: fastrand::Rng::with_seed(seed), kind })
    }

    fn next(&mut self) -> u64 {
        match &mut self.kind {
            Kind::Uniform => self.rng.u64(..self.pages),
            Kind::Permutation { order, at } => {
                if *at == 0 {
                    self.rng.shuffle(order);
                }
                let page = order[*at];
                *at = (*at + 1) % order.len();
                u64::from(page)
            }
            Kind::HotCold => {
                let hot = self.pages / 5;
                if self.rng.u8(..10) < 8 {
                    self.rng.u64(..hot)
                } else {
                    self.rng.u64(hot..self.pages)
                }
            }
        }
    }
}

fn judge(summary: &Summary) -> Judgement {
    let (wa, formula) = (summary.mean("wa"), summary.mean("wa_formula"));
    let error = (wa / formula - 1.0) * 100.0;
    Checks::default()
        .exact(error.abs() <= 1.0, format!("wa {wa:.3} is {error:+.2} % off {formula:.3}"))
        .shape(wa > 1.0 && error.abs() <= 10.0, "random writes amplify as the formula has it")
        .judge()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For the defaults, the published value is that of the formula.
    #[test]
    fn the_formula_is_the_published_one() {
        assert!((formula(11.0, 64).unwrap() / 4.857 - 1.0).abs() < 0.005);
    }
}
