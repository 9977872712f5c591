//! Whether drive and cache of the model can work, and if not, what would do.
//!
//! What drive and cache say of sizes that are too small is in their own words, of a drive and of settings
//! that nobody who plans has named. Here it is said in those of the command, with the least that would do.

use super::options::PlanOptions;
use crate::Error;
use crate::replay::{ReplayOptions, shared};

/// Percentages that are tried in their turn.
const OP_MAX: u32 = 100;
const SOC_MAX: u32 = 99;
/// The largest model that is tried.
const SIMULATE_MAX: u64 = 1 << 30;

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Misfit {
    Drive(String),
    Cache(String),
}

/// Refuses a drive that could not work, and a cache that does not fit on it, in the words of the command.
pub(super) fn check_fit(asked: &PlanOptions, options: &ReplayOptions) -> Result<(), Error> {
    let Err(misfit) = tried(asked, options) else { return Ok(()) };
    let fits = |changed: PlanOptions| {
        let scaled = changed.scaled();
        tried(&changed, &scaled).is_ok()
    };
    let simulate = std::iter::successors(Some(options.flash_bytes), |bytes| bytes.checked_mul(2))
        .skip(1)
        .take_while(|bytes| *bytes <= SIMULATE_MAX.min(asked.flash_bytes))
        .find(|bytes| fits(PlanOptions { simulated_bytes: *bytes, ..asked.clone() }))
        .map(|bytes| format!("--simulate {bytes}"));
    let (refused, mut would_do) = match misfit {
        Misfit::Drive(cause) => {
            let op = (4..=OP_MAX).map(f64::from).filter(|op| *op > asked.op_percent);
            let mut op = op.map(|op| (op, PlanOptions { op_percent: op, ..asked.clone() }));
            let op = op.find(|(_, changed)| fits(changed.clone()));
            let refused = format!("--op {}: the drive could not work: {cause}", asked.op_percent);
            (refused, op.map(|(op, _)| format!("--op {op}")))
        }
        Misfit::Cache(cause) => {
            let at = |soc: u32| PlanOptions { soc_percent: f64::from(soc), ..asked.clone() };
            let nearest = (1..=SOC_MAX).filter(|soc| fits(at(*soc)));
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
    would_do = match (would_do, simulate) {
        (Some(first), Some(second)) => Some(format!("{first} or {second}")),
        (first, second) => first.or(second),
    };
    let way_out =
        would_do.map_or("use a larger --flash".to_owned(), |least| format!("{least} would do"));
    Err(Error::usage(format!("{refused}; {way_out}")))
}

/// Makes the drive, and opens a cache on as little of it as is going to be simulated.
fn tried(asked: &PlanOptions, options: &ReplayOptions) -> Result<(), Misfit> {
    let drive = shared::drive(options, true, shared::HANDLES);
    let drive = drive.map_err(|error| Misfit::Drive(cause(&error)))?;
    let utilization_percent = asked.least_utilization();
    let options = ReplayOptions { utilization_percent, ..options.clone() };
    shared::opens(&options, drive).map_err(|error| Misfit::Cache(cause(&error)))
}

/// What went wrong, without the names of settings that are not the command's: up to the advice, which
/// speaks of them.
fn cause(error: &Error) -> String {
    let text = error.to_string();
    let text = text.split_once(": --").map_or(text.as_str(), |(before, _)| before);
    let advice = text.find("; use ").unwrap_or(text.len());
    let text = text[..advice]
        .trim_start_matches("--flash, --op, --ru describe no drive that could work: ");
    text.to_owned()
}
