//! Runs `fio` on the same file, to measure the device without a cache.

use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The results of `fio`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) mib_per_s: f64,
    pub(crate) per_s: f64,
    /// Processor time for each request, in microseconds.
    pub(crate) cpu_us: f64,
}

/// Runs one pattern (`write`, `randread`) over the first `bytes` of a file.
///
/// # Errors
/// If `fio` is not installed, fails, or does not print JSON.
pub(crate) fn run(
    file: &Path,
    pattern: &str,
    (block_bytes, depth): (u64, usize),
    (bytes, seconds): (u64, u64),
) -> Result<Measured, Box<dyn Error>> {
    let mut command = Command::new("fio");
    command
        .args(["--name=peer", "--direct=1", "--ioengine=io_uring", "--output-format=json"])
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--rw={pattern}"))
        .arg(format!("--bs={block_bytes}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--size={bytes}"));
    if seconds > 0 {
        command.arg(format!("--runtime={seconds}")).arg("--time_based");
    }
    let output = command.output().map_err(|error| format!("fio cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("fio: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let said: Value = serde_json::from_slice(&output.stdout)?;
    let job = &said["jobs"][0];
    let side = &job[if pattern.ends_with("read") { "read" } else { "write" }];
    let number = |value: &Value| value.as_f64().ok_or("fio left something out");
    let per_s = number(&side["iops"])?;
    let cpu_percent = number(&job["usr_cpu"])? + number(&job["sys_cpu"])?;
    Ok(Measured {
        mib_per_s: number(&side["bw_bytes"])? / f64::from(1 << 20),
        per_s,
        cpu_us: cpu_percent / 100.0 / per_s * 1e6,
    })
}
