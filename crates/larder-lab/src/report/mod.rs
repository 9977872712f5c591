//! What came out of a command, as a page to look at.
//!
//! [`write()`] turns the [`Outcome`] of a replay into one self-contained `index.html`,
//! [`write_lab`] the results of experiments, [`write_plan`] a purchase: no network, no script, no
//! font of its own. The page is built in memory and appears under its name only when it is whole.
//!
//! | module | what it is |
//! |---|---|
//! | `file` | a page to a directory, whole or not at all |
//! | `page` | what every page has |
//! | `replay` | the page of a replay: the order of things on it |
//! | `finding` | what the numbers say, in a sentence |
//! | `tables` | the summary, the parameters, the command line |
//! | `figures` | which charts a replay has, and what is in them |
//! | `series` | measurements over time, made ready to draw |
//! | [`lab`] | the page of a run of experiments |
//! | `plan` | the page of a purchase |
//! | `figure` | a chart of measured points: lines or bars, spreads, published values |
//! | `chart` | the frame and the axes of a chart, as SVG |
//! | `marks` | what is drawn in it |
//! | `scale` | from values to pixels, and round numbers for the axes |
//! | `units` | the picture of the drive |
//! | `format` | numbers as people read them |
//! | `markup` | tags that always close and text that is always escaped |

mod chart;
mod figure;
mod figures;
mod file;
mod finding;
mod format;
pub mod lab;
mod marks;
mod markup;
mod page;
mod plan;
mod replay;
mod scale;
mod series;
mod tables;
#[cfg(test)]
mod tests;
mod units;

use std::path::{Path, PathBuf};

use crate::Error;
use crate::plan::Plan;
use crate::replay::outcome::Outcome;
pub use file::check_writable;
use lab::LabResult;

/// Writes the report of a replay to `dir`, which is created if missing, and returns the path of the
/// page.
///
/// The page replaces an older one in a single step; after an error the older one is still there,
/// whole.
///
/// # Errors
/// [`Error::Run`] with the path and the cause, when the directory or the page cannot be written.
pub fn write(dir: &Path, outcome: &Outcome) -> Result<PathBuf, Error> {
    file::write_page(dir, &replay::render(outcome))
}

/// Writes the report of experiments to `dir`, on the terms of [`write()`].
///
/// # Errors
/// As [`write()`].
pub fn write_lab(dir: &Path, results: &[LabResult]) -> Result<PathBuf, Error> {
    file::write_page(dir, &lab::render(results))
}

/// Writes the report of a plan to `dir`, on the terms of [`write()`].
///
/// # Errors
/// As [`write()`].
pub fn write_plan(dir: &Path, plan: &Plan) -> Result<PathBuf, Error> {
    file::write_page(dir, &plan::render(plan))
}
