//! HTML reports of the results of commands.
//!
//! [`write()`] turns the [`Outcome`] of a replay into one self-contained `index.html`, [`write_lab`] the results of
//! experiments, [`write_plan`] a plan: no network, no scripts, no fonts of its own. The page is built in memory and
//! replaces the file atomically.
//!
//! | module | what it is |
//! |---|---|
//! | `file` | writes a page to a directory, atomically |
//! | `page` | the common parts of pages |
//! | `replay` | the page of a replay: its layout |
//! | `finding` | the result in a sentence |
//! | `tables` | the summary, the parameters, the command line |
//! | `figures` | the charts of a replay and their content |
//! | `series` | measurements over time, prepared for drawing |
//! | [`lab`] | the page of a run of experiments |
//! | `plan` | the page of a plan |
//! | `figure` | a chart of measured points: lines or bars, spreads, published values |
//! | `chart` | the frame and the axes of a chart, as SVG |
//! | `marks` | the marks in a chart |
//! | `scale` | from values to pixels, and round numbers for the axes |
//! | `units` | the picture of the drive |
//! | `format` | numbers for people |
//! | `markup` | tags that are always closed and text that is always escaped |

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

/// Writes the report of a replay to `dir`, which is created if missing, and returns the path of the page.
///
/// The page replaces an older one in a single step. After an error the older page is still complete.
///
/// # Errors
/// [`Error::Run`] with the path and the cause, when the directory or the page cannot be written.
pub fn write(dir: &Path, outcome: &Outcome) -> Result<PathBuf, Error> {
    file::write_page(dir, &replay::render(outcome))
}

/// Writes the report of experiments to `dir`, in the same way as [`write()`].
///
/// # Errors
/// As [`write()`].
pub fn write_lab(dir: &Path, results: &[LabResult]) -> Result<PathBuf, Error> {
    file::write_page(dir, &lab::render(results))
}

/// Writes the report of a plan to `dir`, in the same way as [`write()`].
///
/// # Errors
/// As [`write()`].
pub fn write_plan(dir: &Path, plan: &Plan) -> Result<PathBuf, Error> {
    file::write_page(dir, &plan::render(plan))
}
