//! Common output of all benches: the machine, and rates with their spread.

use std::time::Instant;

/// Times `work`, which does `count` operations. Returns millions of operations per second.
#[allow(clippy::cast_precision_loss)] // counts of operations
pub(crate) fn rate(count: u64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Prints the median of `rates`, in millions of `unit` per second, and their spread.
pub(crate) fn print_rates(name: &str, unit: &str, rates: &mut [f64], note: &str) {
    rates.sort_by(f64::total_cmp);
    let (median, least, most) = (rates[rates.len() / 2], rates[0], rates[rates.len() - 1]);
    println!("{name:44} {median:7.2} M {unit}/s (min {least:.2}, max {most:.2})  {note}");
}

/// The model of the processor and the number of cores.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", model.map_or("unknown CPU", |(_, name)| name))
}
