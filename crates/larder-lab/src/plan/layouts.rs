//! Small objects in buckets, which are rewritten, and in pages by set, which are written once.

use larder::SocLayout;
use serde::Serialize;

use super::bill;
use super::measured::Measured;
use super::options::PlanOptions;
use super::theory;
use crate::Error;

/// What it costs to store small objects in one way.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayoutAnswer {
    /// "buckets" or "pages".
    pub layout: String,
    /// Whether the cache chooses it by itself, or it was asked for.
    pub is_recommended: bool,
    /// Share of GETs that found their key.
    pub hit_ratio: f64,
    /// Bytes that the cache writes for a byte of the objects that it admits to flash (ALWA).
    pub alwa: f64,
    /// Bytes written to the drive for each request.
    pub host_bytes_per_request: f64,
    /// Memory for small objects when their flash is full, in bytes, at the size of the drive to buy: their index, and
    /// the pages that are being filled.
    pub memory_bytes: u64,
    /// DLWA with placement.
    pub dlwa_on: f64,
    /// DLWA without.
    pub dlwa_off: f64,
    /// Years until the drive is worn out, with placement.
    pub life_years_on: f64,
    /// The same without.
    pub life_years_off: f64,
}

/// The answers for each layout, given its runs with and without placement; those without runs are left out.
pub(super) fn answers(
    options: &PlanOptions,
    runs: &[Vec<Measured>; 2],
    small_object_bytes: f64,
) -> Result<Vec<LayoutAnswer>, Error> {
    let mut answers = Vec::new();
    for runs in runs {
        if let [on, off] = runs.as_slice() {
            answers.push(answer(options, (on, off), small_object_bytes)?);
        }
    }
    Ok(answers)
}

fn answer(
    options: &PlanOptions,
    (on, off): (&Measured, &Measured),
    small_object_bytes: f64,
) -> Result<LayoutAnswer, Error> {
    let years = |run: &Measured| {
        let (placement, share) = (run.with_placement, run.random_share());
        let theory = theory::dlwa(options, placement, run.utilization, share)?;
        Ok(bill::bill(options, run, theory)?.life_years)
    };
    Ok(LayoutAnswer {
        layout: on.layout.to_string(),
        is_recommended: on.layout == options.layout(),
        hit_ratio: on.hit_ratio,
        alwa: on.alwa,
        host_bytes_per_request: on.host_bytes_per_request,
        memory_bytes: memory_bytes(options, on.layout, small_object_bytes),
        dlwa_on: on.dlwa,
        dlwa_off: off.dlwa,
        life_years_on: years(on)?,
        life_years_off: years(off)?,
    })
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
#[allow(clippy::cast_sign_loss)] // a part of a drive
fn memory_bytes(options: &PlanOptions, layout: SocLayout, small_object_bytes: f64) -> u64 {
    let (flash, dram) = (options.soc_bytes() as f64, options.dram_bytes as f64);
    layout.estimated_memory_bytes(flash, dram, small_object_bytes.max(1.0)) as u64
}
