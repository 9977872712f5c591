//! The answer as rows of a table, for both the terminal and the page.

use super::levelling::LevellingGain;
use super::limit::Limit;
use super::measured::{OBJECT_PER_UNIT_MAX, STEADY_DRIVE_WRITES};
use super::outcome::{Answer, Plan};

/// If a drive lives longer than this, wear no longer limits its life.
const YEARS_MAX: f64 = 100.0;
/// Below this share of random writes, a formula for random writes says little.
const RANDOM_SHARE_MIN: f64 = 0.5;

impl Plan {
    /// The rows from top to bottom: a label, and one cell for each answer.
    #[allow(clippy::cast_precision_loss)] // a part of DRAM
    pub fn rows(&self) -> Vec<(String, Vec<String>)> {
        let parameter = |name: &str| {
            self.parameters.get(name).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN)
        };
        let years = trimmed(parameter("years"), 1);
        let limit = trimmed(parameter("dlwa_limit"), 3);
        let row = |label: &str, cell: &dyn Fn(&Answer) -> String| {
            (label.to_owned(), self.answers.iter().map(cell).collect())
        };
        let mut rows = vec![
            row("DLWA, simulated", &|a| trimmed(a.dlwa, 3)),
            row("DLWA, by theory", &|a| trimmed(a.dlwa_theory, 3)),
            row("drive life, years of wear", &|a| life(a.bill.life_years)),
            row("  larger, longer runs find", &|a| {
                format!("{} to {}", life(a.bill.life_years_low), life(a.bill.life_years_high))
            }),
            row(&format!("drives in {years} years"), &|a| format!("{:.2}", a.bill.drives)),
            row("rating for one drive, DWPD", &|a| format!("{:.2}", a.bill.endurance_needed)),
            row("embodied carbon, kg CO2e", &|a| format!("{:.1}", a.bill.embodied_kg)),
            row("  per useful GB", &|a| format!("{:.4}", a.bill.embodied_kg_per_useful_gb)),
            row("operational carbon, kg CO2e", &|a| format!("{:.1}", a.bill.operational_kg)),
            row("both in one sum, kg CO2e", &|a| format!("{:.1}", a.bill.carbon_kg)),
            row("  per useful GB", &|a| format!("{:.4}", a.bill.carbon_kg_per_useful_gb)),
            row("cost of drives and DRAM", &|a| format!("{:.2}", a.bill.cost)),
            row("  per useful GB", &|a| format!("{:.4}", a.bill.cost_per_useful_gb)),
            row(&format!("DLWA passes {limit} at"), &|a| at(&a.limit)),
            row("  by theory", &|a| at(&a.limit_theory)),
        ];
        for layout in &self.layouts {
            let mark = if layout.is_recommended { ", chosen" } else { "" };
            let both = |label: &str, cells: [String; 2]| (label.to_owned(), cells.to_vec());
            let years = [layout.life_years_on, layout.life_years_off].map(life);
            let alwa = trimmed(layout.alwa, 2);
            let memory = format!("{:.3}", layout.memory_bytes as f64 / 1e9);
            rows.push((format!("in {}{mark}: years", layout.layout), years.to_vec()));
            rows.push(both("  DLWA", [layout.dlwa_on, layout.dlwa_off].map(|it| trimmed(it, 3))));
            rows.push(both("  ALWA", [alwa.clone(), alwa]));
            rows.push(both("  memory of it, GB", [memory.clone(), memory]));
        }
        if self.answers.iter().any(|answer| answer.levelling.is_some()) {
            let years = |a: &Answer, of: fn(&LevellingGain) -> f64| {
                a.levelling.as_ref().map_or_else(|| "-".to_owned(), |it| life(of(it)))
            };
            rows.push(row("set of drives, years", &|a| years(a, |it| it.life_years_off)));
            rows.push(row("  with drive_levelling", &|a| years(a, |it| it.life_years_on)));
        }
        rows
    }

    /// Caveats that a careful reader should know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.model.drive_writes_before < STEADY_DRIVE_WRITES {
            notes.push(format!(
                "The model had been written over only {:.1} times when the measurement began, so \
                 its DLWA may not have settled; use more --requests, or a longer trace.",
                self.model.drive_writes_before
            ));
        }
        notes.extend(self.note_on_units());
        notes.extend(self.note_on_layout());
        if self.load.soc_share < RANDOM_SHARE_MIN {
            notes.push(format!(
                "The formula without placement takes all writes for random, but only {:.0} % of \
                 them are: it is far too high here, and the simulation is what counts.",
                self.load.soc_share * 100.0
            ));
        }
        notes
    }

    /// A note if the model has no room for the layout of small objects that the cache takes.
    fn note_on_layout(&self) -> Option<String> {
        let taken = self.parameters.get("soc_layout").and_then(serde_json::Value::as_str)?;
        let simulated = &self.layouts.first()?.layout;
        (simulated != taken).then(|| {
            format!(
                "The cache stores small objects in {taken}, and the model is too small for that at each utilisation, \
                 so it has them in {simulated}; use a larger --simulate."
            )
        })
    }

    /// A note if the model's units are too small for the objects and the drive's are not.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    #[allow(clippy::cast_sign_loss)] // sizes of models, far below 2^53
    fn note_on_units(&self) -> Option<String> {
        let model = &self.model;
        let share = model.large_object_bytes as f64 / model.unit_bytes as f64;
        if share <= OBJECT_PER_UNIT_MAX || model.scale > 0.999 {
            return None;
        }
        let enough = model.flash_bytes as f64 * share / OBJECT_PER_UNIT_MAX;
        let enough = (mebibytes(enough as u64).ceil() as u64).next_power_of_two();
        Some(format!(
            "Large objects take {:.0} % of a reclaim unit of the model, and of a real one next to nothing: \
             so DLWA without placement comes out low, and its range of life reaches down to what theory \
             makes of it. --simulate {enough}MiB would do without.",
            share * 100.0
        ))
    }

    /// The basis of the numbers, one line each.
    pub fn basis(&self) -> Vec<String> {
        let (load, model) = (&self.load, &self.model);
        vec![
            format!(
                "The load is the same with placement and without: hit ratio {:.1} %; {:.0} bytes \
                 written to flash per request, {:.1} % of them by the small-object engine; that is \
                 {:.2} TB or {:.2} drive writes a day.",
                load.hit_ratio * 100.0,
                load.host_bytes_per_request,
                load.soc_share * 100.0,
                load.host_bytes_per_day / 1e12,
                load.drive_writes_per_day
            ),
            format!(
                "Simulated on a drive of {:.0} MiB in {} reclaim units, {}: DLWA depends on the \
                 ratios (DRAM, over-provisioning, engines, units), not on the size.",
                mebibytes(model.flash_bytes),
                model.units,
                scale(model.scale)
            ),
        ]
    }
}

#[allow(clippy::cast_precision_loss)]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn scale(scale: f64) -> String {
    if scale > 0.999 {
        return "its full size".to_owned();
    }
    format!("1/{:.0} of the size", 1.0 / scale)
}

/// The number with at most `decimals` decimals, without trailing zeros.
pub(super) fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

pub(super) fn life(years: f64) -> String {
    if years > YEARS_MAX { format!("over {YEARS_MAX}") } else { format!("{years:.1}") }
}

fn at(limit: &Limit) -> String {
    match (limit.status, limit.utilization) {
        (_, Some(utilization)) => format!("{utilization:.1} % used"),
        ("kept", _) => "never".to_owned(),
        _ => "any use".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(trimmed(1.5, 3), "1.5");
        assert_eq!(trimmed(5.0, 1), "5");
        assert_eq!(trimmed(100.0, 0), "100");
        assert_eq!(life(3.456), "3.5");
        assert_eq!(life(1234.0), "over 100");
        assert_eq!(scale(1.0), "its full size");
        assert_eq!(scale(0.0001), "1/10000 of the size");
        assert_eq!(at(&Limit { status: "kept", utilization: None }), "never");
        assert_eq!(at(&Limit { status: "exceeded", utilization: None }), "any use");
        assert_eq!(at(&Limit { status: "passed", utilization: Some(73.4) }), "73.4 % used");
    }
}
