//! Checks whether drive and cache of the model can work, and if not, finds sizes that would.
//!
//! The errors of drive and cache about small sizes mention settings that the user of the command did not name. This
//! module reports them in terms of the command's options, with the least size that would do.

use larder::SocLayout;

use super::options::{DRAM_MIN, FLASH_MIN, PlanOptions};
use crate::Error;
use crate::replay::{ReplayOptions, shared};

/// Largest percentages that are tried.
const OP_MAX: u32 = 100;
const SOC_MAX: u32 = 99;
/// The largest model that is tried.
const SIMULATE_MAX: u64 = 1 << 30;
/// The largest drive that is tried: a pebibyte.
const FLASH_MAX: u64 = 1 << 50;
/// Granularity of the sizes that the errors suggest.
const STEP: u64 = 1 << 20;

/// What does not fit, with the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Misfit {
    Drive(String),
    Cache(String),
}

/// Refuses a drive that could not work and a cache that does not fit on it, in terms of the command's options.
pub(super) fn check_fit(asked: &PlanOptions, options: &ReplayOptions) -> Result<(), Error> {
    let Err(misfit) = tried(asked, options) else { return Ok(()) };
    let size = larger(asked);
    let (refused, mut would_do) = match misfit {
        Misfit::Drive(cause) => {
            let op = (4..=OP_MAX).map(f64::from).filter(|op| *op > asked.op_percent);
            let mut op = op.map(|op| (op, PlanOptions { op_percent: op, ..asked.clone() }));
            let op = op.find(|(_, changed)| fits(changed));
            let refused = format!("--op {}: the drive could not work: {cause}", asked.op_percent);
            (refused, op.map(|(op, _)| format!("--op {op}")))
        }
        Misfit::Cache(cause) => {
            let at = |soc: u32| PlanOptions { soc_percent: f64::from(soc), ..asked.clone() };
            let nearest = (1..=SOC_MAX).filter(|soc| fits(&at(*soc)));
            let distance = |soc: &u32| (f64::from(*soc) - asked.soc_percent).abs();
            let nearest = nearest.min_by(|a, b| distance(a).total_cmp(&distance(b)));
            let least = asked.least_utilization();
            let refused = format!(
                "--soc {}: the engines of the model do not fit when {least} % of it is used: {cause}",
                asked.soc_percent
            );
            (refused, nearest.map(|soc| format!("--soc {soc}")))
        }
    };
    would_do = match (would_do, size) {
        (Some(first), Some(second)) => Some(format!("{first} or {second}")),
        (first, second) => first.or(second),
    };
    let way_out = would_do.map_or("no larger --flash would do either".to_owned(), |least| {
        format!("{least} would do")
    });
    Err(Error::usage(format!("{refused}; {way_out}")))
}

/// The least size above the requested one that would do: of the model, or of the drive if no model of it would do.
fn larger(asked: &PlanOptions) -> Option<String> {
    if let Some(bytes) = least_simulated(asked) {
        return Some(format!("--simulate {}", size(bytes)));
    }
    least_flash(asked)
}

/// The least drive size above the requested one that would do, in whole steps. If none would do alone, a larger model
/// is tried too.
pub(super) fn least_flash(asked: &PlanOptions) -> Option<String> {
    let from = FLASH_MIN.max(asked.dram_bytes).max(asked.flash_bytes + 1);
    let drive = |bytes| PlanOptions { flash_bytes: bytes, ..asked.clone() };
    if let Some(bytes) = least(from, FLASH_MAX, drive) {
        return Some(format!("--flash {}", size(bytes)));
    }
    let from = from.max(asked.simulated_bytes);
    let both = |bytes| PlanOptions { simulated_bytes: bytes, ..drive(bytes) };
    let bytes = size(least(from, SIMULATE_MAX, both)?);
    Some(format!("--flash {bytes} --simulate {bytes}"))
}

/// The least model size above the requested one that would do, in whole steps.
pub(super) fn least_simulated(asked: &PlanOptions) -> Option<u64> {
    let from = FLASH_MIN.max(asked.simulated_bytes + 1);
    least(from, SIMULATE_MAX.min(asked.flash_bytes), |bytes| PlanOptions {
        simulated_bytes: bytes,
        ..asked.clone()
    })
}

/// The least size of at least `from` that fits while one step less does not. Doubles the size until it fits, then
/// bisects.
fn least(from: u64, most: u64, of: impl Fn(u64) -> PlanOptions) -> Option<u64> {
    let from = from.next_multiple_of(STEP);
    let fits = |bytes: u64| fits(&of(bytes));
    let doubling = std::iter::successors(Some(from), |bytes| bytes.checked_mul(2));
    let mut fitting = doubling.take_while(|bytes| *bytes <= most).find(|bytes| fits(*bytes))?;
    if fitting == from {
        return Some(from);
    }
    let mut refused = fitting / 2;
    while fitting - refused > STEP {
        let middle = u64::midpoint(refused, fitting).next_multiple_of(STEP);
        if fits(middle) {
            fitting = middle;
        } else {
            refused = middle;
        }
    }
    Some(fitting)
}

/// A size in the form of the command line.
pub(super) fn size(bytes: u64) -> String {
    format!("{}MiB", bytes / STEP)
}

/// Whether the sizes of this plan are accepted.
fn fits(asked: &PlanOptions) -> bool {
    let scaled = asked.scaled();
    asked.check_proportions().is_ok()
        && scaled.dram_bytes >= DRAM_MIN
        && tried(asked, &scaled).is_ok()
}

/// Whether a cache with this layout of small objects opens at this utilisation.
pub(super) fn fits_with(
    utilization_percent: f64,
    options: &ReplayOptions,
    soc_layout: SocLayout,
) -> bool {
    let options = ReplayOptions { utilization_percent, soc_layout, ..options.clone() };
    let drive = shared::drive(&options, true, shared::HANDLES);
    drive.is_ok_and(|drive| shared::opens(&options, drive).is_ok())
}

/// Makes the drive, and opens a cache on the smallest part of it that will be simulated.
fn tried(asked: &PlanOptions, options: &ReplayOptions) -> Result<(), Misfit> {
    let drive = shared::drive(options, true, shared::HANDLES);
    let drive = drive.map_err(|error| Misfit::Drive(cause(&error)))?;
    let utilization_percent = asked.least_utilization();
    let options = ReplayOptions { utilization_percent, ..options.clone() };
    shared::opens(&options, drive).map_err(|error| Misfit::Cache(cause(&error)))
}

/// The cause of an error. The advice at its end is cut off, because it names settings that the command does not have.
fn cause(error: &Error) -> String {
    let text = error.to_string();
    let text = text.split_once(": --").map_or(text.as_str(), |(before, _)| before);
    let advice = text.find("; use ").unwrap_or(text.len());
    let text = text[..advice]
        .trim_start_matches("--flash, --op, --ru describe no drive that could work: ");
    text.to_owned()
}
