//! The kernel's counters of this process.

use std::fs;

/// Ticks in a second in `/proc/self/stat`: Linux reports this rate to user space everywhere.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds of all threads, in user space and in the kernel.
pub(crate) fn cpu_seconds() -> Result<f64, String> {
    let text = read("/proc/self/stat")?;
    // The name of the program may contain anything, but the later fields contain no parenthesis.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks: Option<Vec<u64>> =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse().ok()).collect();
    match ticks.as_deref() {
        Some([user, kernel]) => Ok((user + kernel) as f64 / TICKS_PER_SECOND),
        _ => Err("/proc/self/stat: no CPU times in it".to_owned()),
    }
}

/// The peak resident memory so far, in bytes.
pub(crate) fn peak_rss_bytes() -> Result<u64, String> {
    Ok(field("/proc/self/status", "VmHWM:")? << 10)
}

/// The current resident memory, in bytes.
pub(crate) fn resident_bytes() -> Result<u64, String> {
    Ok(field("/proc/self/status", "VmRSS:")? << 10)
}

/// The load average of the last minute.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// Bytes that this process sent to block devices, by any call and any thread, including io_uring.
pub(crate) fn written_bytes() -> Result<u64, String> {
    field("/proc/self/io", "write_bytes:")
}

fn field(path: &str, name: &str) -> Result<u64, String> {
    let text = read(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("{path}: no {name} in it"))
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path)
        .map_err(|cause| format!("{path}: {cause}; the benchmark needs Linux with /proc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        assert!(cpu_seconds().unwrap() >= 0.0);
        assert!(peak_rss_bytes().unwrap() > 1 << 18);
        assert!(written_bytes().is_ok());
    }
}
