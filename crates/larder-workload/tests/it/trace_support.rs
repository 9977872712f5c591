//! Helpers of the trace tests: files, and readers driven to their end.

use std::io::Write;
use std::path::{Path, PathBuf};

use larder_workload::trace::{self, TraceFormat, TraceOptions};
use larder_workload::{Error, Request, RequestSource};

/// A file of the shared data; if the data is not present, prints a line that says so and returns `None`. The folder is
/// `LARDER_DATA`, or `../shared/data` from the root of the workspace.
pub(crate) fn data(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("LARDER_DATA").map_or(beside, PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is not there", path.display());
    None
}

/// A file with this content, which is deleted when the returned value is dropped.
pub(crate) fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    file
}

pub(crate) fn options(format: impl Into<Option<TraceFormat>>) -> TraceOptions {
    TraceOptions { format: format.into(), ..TraceOptions::default() }
}

/// The first requests of a source: a hostile file may stand for billions.
pub(crate) fn drain(source: &mut dyn RequestSource, max: usize) -> Result<Vec<Request>, Error> {
    let mut requests = Vec::new();
    while requests.len() < max {
        match source.next_request()? {
            Some(request) => requests.push(request),
            None => break,
        }
    }
    Ok(requests)
}

/// The requests of a trace with this content.
pub(crate) fn read(content: &[u8], options: &TraceOptions) -> Result<Vec<Request>, Error> {
    let file = file(content);
    drain(&mut *trace::open(file.path(), options)?, 100_000)
}

/// The error message of reading this content.
pub(crate) fn message(content: &[u8], format: impl Into<Option<TraceFormat>>) -> String {
    match read(content, &options(format)) {
        Ok(requests) => panic!("read {} requests, expected an error", requests.len()),
        Err(Error::Run(message)) => message,
        Err(other) => panic!("not an error of the file: {other}"),
    }
}
