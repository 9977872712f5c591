//! Writes a page to a directory, atomically.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// Name of the page in the directory of the report.
const PAGE_NAME: &str = "index.html";

/// How many names to try for the temporary file before giving up.
const TEMPORARY_NAMES: u32 = 100;

/// Writes `html` to `dir`, which is created if missing, and returns the path of the page.
///
/// The page replaces an older one in a single step. After an error the older page is still complete.
///
/// # Errors
/// [`Error::Run`] with the path and the cause, when the directory or the page cannot be written.
pub(super) fn write_page(dir: &Path, html: &str) -> Result<PathBuf, Error> {
    create_dir(dir)?;
    let target = dir.join(PAGE_NAME);
    let (temporary, file) =
        create_temporary(dir).map_err(|cause| failed("create a file in", dir, &cause))?;
    let written = fill(file, html.as_bytes()).and_then(|()| fs::rename(&temporary, &target));
    if let Err(cause) = written {
        // Report the first failure, whether or not the file can be removed.
        let _ = fs::remove_file(&temporary);
        return Err(failed("write", &target, &cause));
    }
    Ok(target)
}

/// Checks, before hours of work, that [`write()`](super::write) to `dir` would not fail for a missing directory or
/// missing permissions.
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
    fs::create_dir_all(dir).map_err(|cause| {
        let error = failed("create directory", dir, &cause);
        if dir.is_file() {
            return Error::run(format!("{error}; it is a file: name a directory, new or old"));
        }
        error
    })
}

/// Creates a new, empty file next to the page, so that a rename stays within one file system.
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
