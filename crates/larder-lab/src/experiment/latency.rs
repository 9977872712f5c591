//! How long reads and writes of the real cache take on the timed drive.
//!
//! A wrapper around the cache's device sends every request to a timed drive too, as a load generator
//! does that is limited in rate: requests come at random moments with the same mean rate in both runs,
//! but no client has more than one under way, so a drive that cannot follow slows its clients down.
//! The cache itself knows no time and does the same as ever.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{CheckedIo, Device, DeviceInfo, DeviceStats, Io, IoFuture};
use larder_ssd::managed::PAGE_BYTES;
use larder_ssd::timed::{self, TimedSsd};

use super::judge::Checks;
use super::rig::{self, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, PaperValue, Parameter, Settings, Summary};
use crate::Error;
use crate::replay::shared::{self, Tenant};
use crate::replay::{Monitor, ReplayOptions};

/// A unit is one block on each of the four dies of the drive, of one stripe of 192 KiB.
const UNIT_BYTES: u64 = 4 * (192 << 10);

pub(super) static LATENCY: Experiment = Experiment {
    name: "latency",
    title: "latency of the cache's reads and writes on the timed drive, at the same rate",
    reproduces: "FDP paper (EuroSys'25), Figure 6: p99 latency at 100 % utilisation",
    criterion: "p99 off / on of reads and writes within half of the paper's (microseconds are the \
                model's)",
    parameters: &[
        rig::REQUESTS,
        Parameter {
            name: "flash_mib",
            default: "216",
            help: "capacity of the drive in MiB, 8 to 65536; units of 768 KiB; DRAM is a 32nd of it",
        },
        Parameter {
            name: "rate",
            default: "14000",
            help: "mean requests of the device per second, 1 to 10000000",
        },
        Parameter { name: "clients", default: "16", help: "requests under way at most, 1 to 1024" },
    ],
    metrics: &[
        ("read_us.on.*", "latency of reads with placement in us, by percentile"),
        ("read_us.off.*", "the same without"),
        ("write_us.on.*", "latency of writes with placement in us, by percentile"),
        ("write_us.off.*", "the same without"),
        ("ios_per_s.on", "requests of the device per second of its clock, with placement"),
        ("ios_per_s.off", "the same without"),
        ("read_p99_ratio", "p99 of reads, off / on"),
        ("write_p99_ratio", "p99 of writes, off / on"),
        ("read_p99.9_ratio", "p99.9 of reads, off / on"),
        ("write_p99.9_ratio", "p99.9 of writes, off / on"),
        SOC_SHARE,
        rig::DRIVE_WRITES,
        rig::LOC_WRAPS,
        rig::DRIFT,
    ],
    paper: &[
        PaperValue { metric: "read_p99_ratio", value: 1.75, source: "Figure 6" },
        PaperValue { metric: "write_p99_ratio", value: 10.0, source: "Figure 6" },
    ],
    needs: &["read_p99_ratio", "write_p99_ratio", "read_p99.9_ratio", "write_p99.9_ratio"],
    measure,
    judge,
};

const PERCENTILES: [(&str, f64); 3] = [("50", 0.5), ("99", 0.99), ("99.9", 0.999)];

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let rate = settings.within("rate", 1.0..=10_000_000.0)?;
    let clients = settings.within("clients", 1.0..=1024.0)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to 1024
    let load = Load { mean_gap_ns: 1e9 / rate, clients: clients as usize };
    let options =
        ReplayOptions { unit_bytes: Some(UNIT_BYTES), ..rig::options("meta-kv", settings, seed)? };
    let mut metrics = Metrics::new();
    let runs = rig::with_and_without(|placement| run(&options, placement, load, monitor))?;
    for (placement, (run, latencies)) in &runs {
        rig::note_steadiness(&mut metrics, "100", run);
        for (kind, sorted) in [("read", &latencies.reads), ("write", &latencies.writes)] {
            for (name, share) in PERCENTILES {
                metrics.insert(format!("{kind}_us.{placement}.{name}"), percentile(sorted, share));
            }
        }
        metrics.insert(format!("ios_per_s.{placement}"), latencies.ios_per_s);
    }
    for kind in ["read", "write"] {
        for tail in ["99", "99.9"] {
            let of = |placement: &str| metrics[&format!("{kind}_us.{placement}.{tail}")];
            let ratio = of("off") / of("on");
            metrics.insert(format!("{kind}_p{tail}_ratio"), ratio);
        }
    }
    Ok(metrics)
}

fn run(
    options: &ReplayOptions,
    placement: bool,
    load: Load,
    monitor: &Monitor,
) -> Result<(shared::SharedRun, Latencies), Error> {
    let drive = shared::drive(options, placement, shared::HANDLES)?;
    let config = drive.with_ssd(|ssd| ssd.config().clone());
    let ssd = TimedSsd::new(config, timed::small())
        .map_err(|error| Error::run(format!("latency: {error}")))?;
    let rng = fastrand::Rng::with_seed(options.seed);
    let timing = Timing { ssd, rng, load, busy: BinaryHeap::new(), now: 0, samples: Vec::new() };
    let device = Arc::new(Timed { device: Arc::clone(&drive), timing: Mutex::new(timing) });
    let wrapped: Arc<dyn Device> = Arc::clone(&device) as _;
    let tenant = Tenant::new(options.clone(), wrapped);
    let run = shared::play(&drive, &[tenant], placement, &mut |_| Ok(()), monitor)?;
    let latencies = device.lock().latencies();
    Ok((run, latencies))
}

/// How hard the clients drive.
#[derive(Clone, Copy)]
struct Load {
    mean_gap_ns: f64,
    clients: usize,
}

/// A device whose requests are also timed.
struct Timed<D> {
    device: D,
    timing: Mutex<Timing>,
}

/// The timed drive and the moments of its requests.
struct Timing {
    ssd: TimedSsd,
    rng: fastrand::Rng,
    load: Load,
    /// When the requests under way end.
    busy: BinaryHeap<Reverse<u64>>,
    now: u64,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy)]
struct Sample {
    is_read: bool,
    begin_ns: u64,
    took_ns: u32,
}

/// Sorted latencies in nanoseconds of the later half of a run: the drive is aged before.
struct Latencies {
    reads: Vec<u32>,
    writes: Vec<u32>,
    ios_per_s: f64,
}

impl<D> Timed<D> {
    fn lock(&self) -> MutexGuard<'_, Timing> {
        self.timing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Device for Timed<D> {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        self.lock().book(io.get());
        self.device.submit(io.into_inner())
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

impl Timing {
    fn book(&mut self, io: &Io) {
        self.now += self.gap_ns();
        if self.busy.len() == self.load.clients
            && let Some(Reverse(end)) = self.busy.pop()
        {
            self.now = self.now.max(end);
        }
        let (_, offset, bytes) = io.extent();
        let (lpn, pages) = (offset / PAGE_BYTES, bytes / PAGE_BYTES);
        let ended = match io {
            Io::Read { .. } => self.ssd.read(self.now, lpn, pages),
            Io::Write { handle, .. } => self.ssd.write(self.now, lpn, pages, handle.index()),
            Io::Deallocate { .. } => self.ssd.deallocate(self.now, lpn, pages),
            Io::Flush => return,
        };
        // What the drive refuses, the cache's own device refuses too, and reports.
        let Ok(end) = ended else { return };
        self.busy.push(Reverse(end));
        let took_ns = u32::try_from(end - self.now).unwrap_or(u32::MAX);
        let is_read = matches!(io, Io::Read { .. });
        self.samples.push(Sample { is_read, begin_ns: self.now, took_ns });
    }

    /// Exponentially distributed: requests come independently of each other.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive number
    fn gap_ns(&mut self) -> u64 {
        (-(1.0 - self.rng.f64()).ln() * self.load.mean_gap_ns) as u64
    }

    #[allow(clippy::cast_precision_loss)]
    fn latencies(&self) -> Latencies {
        let later = self.samples.get(self.samples.len() / 2..).unwrap_or(&[]);
        let sorted = |reads: bool| {
            let chosen = later.iter().filter(|sample| sample.is_read == reads);
            let mut times: Vec<u32> = chosen.map(|sample| sample.took_ns).collect();
            times.sort_unstable();
            times
        };
        let begin = later.first().map_or(self.now, |sample| sample.begin_ns);
        let seconds = (self.now - begin) as f64 / 1e9;
        let ios_per_s = later.len() as f64 / seconds;
        Latencies { reads: sorted(true), writes: sorted(false), ios_per_s }
    }
}

/// In microseconds; NaN without samples.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn percentile(sorted: &[u32], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    let found = sorted.get(at.min(sorted.len().saturating_sub(1)));
    found.map_or(f64::NAN, |ns| f64::from(*ns) / 1000.0)
}

fn judge(summary: &Summary) -> Judgement {
    let ratio = |name: &str| summary.mean(name);
    let (reads, writes) = (ratio("read_p99_ratio"), ratio("write_p99_ratio"));
    let (reads_later, writes_later) = (ratio("read_p99.9_ratio"), ratio("write_p99.9_ratio"));
    Checks::default()
        .near("p99 of reads, times better", reads, LATENCY.paper, "read_p99_ratio", 0.5)
        .near("p99 of writes, times better", writes, LATENCY.paper, "write_p99_ratio", 0.5)
        .shape(
            reads >= 1.0 && writes >= 1.0 && reads_later > 1.0 && writes_later > 1.0,
            format!("p99.9: reads {reads_later:.2}, writes {writes_later:.0} times better"),
        )
        .note("writes wait only where the drive cannot follow the rate")
        .judge()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_sorted_samples() {
        let sorted: Vec<u32> = (1..=1000).map(|n| n * 1000).collect();
        assert_eq!(percentile(&sorted, 0.5), 501.0);
        assert_eq!(percentile(&sorted, 0.999), 1000.0);
        assert!(percentile(&[], 0.5).is_nan());
    }
}
