//! The machine on which numbers were measured.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

/// Ticks of `/proc/self/stat` in a second: Linux reports this number to user space on all architectures.
const TICKS_PER_SECOND: f64 = 100.0;

/// Words of four bytes in a line of the processor's caches.
const WORDS_A_LINE: usize = 16;
/// Lines in 64 MiB: more than the caches of most processors hold.
const MEMORY_LINES: u32 = 1 << 20;

/// Lines `name: text` about this machine and the disk under `dir`. A fact that cannot be found is "unknown".
pub fn describe(dir: &Path) -> Vec<String> {
    vec![
        format!("cpu: {}, {} cores", cpu_model(), cores()),
        format!("memory: {}", memory()),
        format!("kernel: {}", first_line("/proc/sys/kernel/osrelease")),
        format!("disk: {}", disk(dir)),
        format!("load average at the start: {}", first_line("/proc/loadavg")),
    ]
}

/// A line about the latency of memory: the time of a load whose address the load before it has found. Where it is long,
/// memory decides how fast a cache in DRAM is; where it is short, the work of the processor does. Takes some 0.2 s and
/// 64 MiB.
pub fn describe_memory_latency() -> String {
    let loads = dependent_loads(MEMORY_LINES);
    format!("memory latency: {} ns a dependent load, in 64 MiB at random", loads.as_nanos())
}

/// The mean time of a dependent load from `lines` lines of 64 bytes, in the order of a random cycle.
fn dependent_loads(lines: u32) -> Duration {
    let mut next: Vec<u32> = (0..lines).collect();
    let mut random = fastrand::Rng::with_seed(1);
    // Sattolo's shuffle makes one cycle of all.
    for at in (1..next.len()).rev() {
        next.swap(at, random.usize(..at));
    }
    let mut memory = vec![[0_u32; WORDS_A_LINE]; next.len()];
    for (line, next) in memory.iter_mut().zip(next) {
        line[0] = next;
    }
    let begun = Instant::now();
    let mut at = 0;
    for _ in 0..lines {
        at = memory[at as usize][0];
    }
    let took = begun.elapsed();
    assert_eq!(std::hint::black_box(at), 0, "a cycle ends where it began");
    took / lines.max(1)
}

/// Resident memory of this process, in bytes.
///
/// # Errors
/// If there is no `/proc/self/status` with a line `VmRSS`.
pub fn resident_bytes() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<u64> = kib.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let missing = || io::Error::other("/proc/self/status: no VmRSS in it");
    kib.map(|kib| kib << 10).ok_or_else(missing)
}

/// Processor time that this process has used on all processors together, in user space and in the kernel, in seconds.
///
/// # Errors
/// If there is no `/proc/self/stat` with these numbers.
pub fn cpu_seconds() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the program may contain anything, but no field after it contains a parenthesis.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
    match ticks.collect::<Result<Vec<_>, _>>().as_deref() {
        Ok([user, kernel]) => Ok((f64::from(*user) + f64::from(*kernel)) / TICKS_PER_SECOND),
        _ => Err(io::Error::other("/proc/self/stat: no CPU times in it")),
    }
}

/// Time that a thread has spent on a processor, to the nanosecond. `thread` is `/proc/thread-self` or a folder in
/// `/proc/N/task`.
///
/// # Errors
/// If it has no `schedstat`.
pub fn thread_cpu(thread: impl AsRef<Path>) -> io::Result<Duration> {
    let stat = fs::read_to_string(thread.as_ref().join("schedstat"))?;
    let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok());
    ns.map(Duration::from_nanos).ok_or_else(|| io::Error::other("schedstat: no time in it"))
}

/// The same for all present threads of a process, together: `process` is `/proc/N` or `/proc/self`. Threads that have
/// ended are missing.
///
/// # Errors
/// If there is no such process.
pub fn threads_cpu(process: impl AsRef<Path>) -> io::Result<Duration> {
    let threads = fs::read_dir(process.as_ref().join("task"))?.flatten();
    // A thread may end between the listing and the reading.
    Ok(threads.filter_map(|thread| thread_cpu(thread.path()).ok()).sum())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, std::num::NonZero::get)
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim());
    model.unwrap_or("unknown").to_owned()
}

fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> = kib.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{} MiB", kib >> 10))
}

/// The mount that holds `dir`: the one with the longest path above it.
fn disk(dir: &Path) -> String {
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (device, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        dir.starts_with(at).then_some((at.len(), device, kind))
    });
    let Some((_, device, kind)) = above.max_by_key(|(length, ..)| *length) else {
        return "unknown".to_owned();
    };
    let name = device.rsplit('/').next().unwrap_or_default();
    let queue = Path::new("/sys/block").join(name).join("queue");
    let rotational = fs::read_to_string(queue.join("rotational")).unwrap_or_default();
    let spins = match rotational.trim() {
        "1" => ", says that it rotates",
        "0" => ", says that it does not rotate",
        _ => "",
    };
    format!("{kind} on {name}{spins}")
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_takes_time_and_more_of_it_outside_the_caches() {
        let (near, far) = (dependent_loads(1 << 8), dependent_loads(1 << 19));
        assert!(far > near && far < Duration::from_micros(20), "{near:?}, {far:?}");
        assert!(describe_memory_latency().starts_with("memory latency: "));
    }
}
