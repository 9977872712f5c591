//! What came out of an experiment, as a page to look at.
//!
//! [`write()`] turns an [`Outcome`] into one self-contained `index.html`: no network, no script, no
//! font of its own. The page is built in memory by `page` and appears under its name only when it
//! is whole.
//!
//! | module | what it is |
//! |---|---|
//! | `page` | the order of things on the page |
//! | `finding` | what the numbers say, in a sentence |
//! | `tables` | the summary, the parameters, the command line |
//! | `figures` | which charts there are, and what is in them |
//! | `series` | measurements over time, made ready to draw |
//! | `chart` | axes, lines and areas as SVG |
//! | `scale` | from values to pixels, and round numbers for the axes |
//! | `units` | the picture of the drive |
//! | `format` | numbers as people read them |
//! | `markup` | tags that always close and text that is always escaped |

mod chart;
mod figures;
mod finding;
mod format;
mod markup;
mod page;
mod scale;
mod series;
mod tables;
#[cfg(test)]
mod tests;
mod units;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::replay::outcome::Outcome;

/// Name of the page in the directory of the report.
const PAGE_NAME: &str = "index.html";

/// How many names to try for the temporary file before giving up.
const TEMPORARY_NAMES: u32 = 100;

/// Writes the report of `outcome` to `dir`, which is created if missing, and returns the path of
/// the page.
///
/// The page replaces an older one in a single step; after an error the older one is still there,
/// whole.
///
/// # Errors
/// [`Error::Run`] with the path and the cause, when the directory or the page cannot be written.
pub fn write(dir: &Path, outcome: &Outcome) -> Result<PathBuf, Error> {
    let html = page::render(outcome);
    create_dir(dir)?;
    let target = dir.join(PAGE_NAME);
    let (temporary, file) =
        create_temporary(dir).map_err(|cause| failed("create a file in", dir, &cause))?;
    let written = fill(file, html.as_bytes()).and_then(|()| fs::rename(&temporary, &target));
    if let Err(cause) = written {
        // The first failure is the one to report; a file that cannot be removed changes nothing
        // about it.
        let _ = fs::remove_file(&temporary);
        return Err(failed("write", &target, &cause));
    }
    Ok(target)
}

/// Makes sure, before hours of work, that [`write()`] to `dir` would not fail for lack of a
/// directory or of rights.
///
/// # Errors
/// [`Error::Run`] with the path and the cause.
pub fn check_writable(dir: &Path) -> Result<(), Error> {
    create_dir(dir)?;
    let target = dir.join(PAGE_NAME);
    if target.is_dir() {
        let cause = io::Error::from(io::ErrorKind::IsADirectory);
        return Err(failed("write", &target, &cause));
    }
    let (temporary, _file) =
        create_temporary(dir).map_err(|cause| failed("create a file in", dir, &cause))?;
    fs::remove_file(&temporary).map_err(|cause| failed("remove", &temporary, &cause))
}

fn create_dir(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(|cause| failed("create directory", dir, &cause))
}

/// Creates a new, empty file beside the page, so that a rename stays within one file system.
fn create_temporary(dir: &Path) -> io::Result<(PathBuf, File)> {
    let process = std::process::id();
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..TEMPORARY_NAMES {
        let path = dir.join(format!(".{PAGE_NAME}.{process}.{attempt}.tmp"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => last = cause,
            Err(cause) => return Err(cause),
        }
    }
    Err(last)
}

fn fill(mut file: File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_all()
}

fn failed(what: &str, path: &Path, cause: &io::Error) -> Error {
    Error::run(format!("report: cannot {what} {}: {cause}", path.display()))
}
