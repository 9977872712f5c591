//! An arbitrary file as a trace. The first byte selects the format, or detection.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use larder_workload::trace::{self, TraceFormat, TraceOptions};
use larder_workload::{Error, Request, RequestSource};
use libfuzzer_sys::fuzz_target;

/// Limit on the requests that are read: four bytes of a trace can ask for 2^32 requests.
const REQUESTS_MAX: usize = 5_000;
/// A caller may continue to read after an error, but the reader must end by itself.
const ERRORS_MAX: usize = 50_000;

/// The readers need a path, so use a file in memory where possible.
static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let dir = if memory.is_dir() { memory } else { std::env::temp_dir() };
    dir.join(format!("larder-fuzz-{}.trace", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, file)) = bytes.split_first() else { return };
    let asked = TraceFormat::ALL.get(usize::from(choice % 8)).copied();
    fs::write(&*PATH, file).unwrap();
    let detected = trace::format_of(&PATH);
    let first = open(asked);
    let second = detected.as_ref().ok().map(|&format| open(Some(format)));
    // An open file can still be read after it is removed, and nothing is left behind.
    fs::remove_file(&*PATH).unwrap();

    assert!(asked.is_some() || detected.is_ok() || first.is_err());
    let first = first.map(drain);
    // A format must read the same whether it was requested or detected.
    if asked.is_none()
        && let Some(second) = second
    {
        assert_eq!(first.ok(), second.ok().map(drain));
    }
});

fn open(format: Option<TraceFormat>) -> Result<Box<dyn RequestSource>, Error> {
    trace::open(&PATH, &TraceOptions { format, ..TraceOptions::default() })
}

/// Reads to the end, past errors, and checks the guarantees of every trace.
fn drain(mut source: Box<dyn RequestSource>) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    let mut errors = 0;
    while requests.len() < REQUESTS_MAX {
        match source.next_request() {
            Ok(Some(request)) => {
                let before = requests.last().map_or(0, |last| last.time_s);
                assert!(request.time_s >= before, "time steps back");
                requests.push(request);
            }
            Ok(None) => break,
            Err(error) => {
                assert!(matches!(error, Error::Run(_)), "{error}");
                assert!(!error.to_string().is_empty());
                errors += 1;
                assert!(errors < ERRORS_MAX, "does not come to an end");
            }
        }
        assert!(source.progress().is_none_or(|part| (0.0..=1.0).contains(&part)));
    }
    requests
}
