//! The answer. Its JSON form is stable and documented in `docs/plan-json.md`.

use serde::Serialize;

use super::bill::Bill;
use super::layouts::LayoutAnswer;
use super::levelling::LevellingGain;
use super::limit::Limit;

/// Everything about one plan.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Plan {
    /// Always "plan".
    pub command: &'static str,
    /// The parameters as resolved, defaults included.
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The simulated model.
    pub model: ModelFacts,
    /// The cache's load on the drive, the same with and without placement.
    pub load: Load,
    /// The answers with placement, and without.
    pub answers: Vec<Answer>,
    /// Ways to store small objects at the requested utilisation: the simulated one first, and the other one if the
    /// model has room for it.
    pub layouts: Vec<LayoutAnswer>,
    /// All simulated points, by utilisation, with placement first.
    pub sweep: Vec<SweepPoint>,
    /// The answer in words, the most important sentence first.
    pub advice: Vec<String>,
}

/// The drive that was simulated in place of the one to buy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModelFacts {
    /// Its size as a fraction of the drive to buy; DRAM is scaled alike.
    pub scale: f64,
    /// Its logical capacity.
    pub flash_bytes: u64,
    /// DRAM of the cache on it.
    pub dram_bytes: u64,
    /// Size of its reclaim units.
    pub unit_bytes: u64,
    /// Number of its reclaim units.
    pub units: u64,
    /// Requests of each run.
    pub requests: u64,
    /// Size of the large object that the average byte of large objects belongs to.
    pub large_object_bytes: u64,
    /// Times that it was written over before the measurement, in the run with the fewest.
    pub drive_writes_before: f64,
}

/// The cache's load at the requested utilisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Load {
    /// Share of GETs that found their key.
    pub hit_ratio: f64,
    /// Bytes written to the drive for each request.
    pub host_bytes_per_request: f64,
    /// Share of these bytes that the small-object engine wrote.
    pub soc_share: f64,
    /// Bytes written to the drive in a day.
    pub host_bytes_per_day: f64,
    /// The same in multiples of the drive's capacity.
    pub drive_writes_per_day: f64,
    /// Flash in which the cache keeps objects: capacity times utilisation, in GB.
    pub useful_gb: f64,
}

/// One column of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Answer {
    /// "on" or "off".
    pub placement: &'static str,
    /// Simulated DLWA.
    pub dlwa: f64,
    /// DLWA by formula.
    pub dlwa_theory: f64,
    /// Life, carbon and cost.
    #[serde(flatten)]
    pub bill: Bill,
    /// What levelling across the drives of a set gains; `null` if their rates were not given.
    pub levelling: Option<LevellingGain>,
    /// Where the simulated DLWA exceeds the limit.
    pub limit: Limit,
    /// Where DLWA by formula exceeds the limit.
    pub limit_theory: Limit,
}

/// One simulated point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SweepPoint {
    /// Share of the drive that the cache used, percent.
    pub utilization: f64,
    /// "on" or "off".
    pub placement: &'static str,
    /// Simulated DLWA.
    pub dlwa: f64,
    /// DLWA by formula.
    pub dlwa_theory: f64,
    /// Share of GETs that found their key.
    pub hit_ratio: f64,
    /// Bytes written to the drive for each request.
    pub host_bytes_per_request: f64,
    /// Share of these bytes that the small-object engine wrote.
    pub soc_share: f64,
    /// Life, carbon and cost.
    #[serde(flatten)]
    pub bill: Bill,
}

#[cfg(test)]
mod tests {
    use larder_json_page::{Table, check};

    use super::*;

    #[test]
    fn the_page_has_the_types() {
        let tables = [
            ("## Result", Table::of::<Plan>()),
            ("## Model", Table::of::<ModelFacts>()),
            ("## Load", Table::of::<Load>()),
            ("## Answer", Table::of::<Answer>()),
            ("## Layout", Table::of::<LayoutAnswer>()),
            ("## Levelling", Table::of::<LevellingGain>()),
            ("## Limit", Table::of::<Limit>()),
            ("## Point", Table::of::<SweepPoint>()),
        ];
        check("plan-json.md", "-p larder-lab --lib the_page_has_the_types", &tables);
    }
}
