//! The real cache on the timed drive: what the experiments about time have in common.
//!
//! A wrapper around a cache's device notes what each request of the workload asks of it; the requests
//! then go to the timed drive in a [closed loop](super::closed_loop). The cache itself knows no time
//! and does the same as ever.
//!
//! The drive has the dies of the FDP paper's, and as many units; only the units are small. Dies and
//! times are those of the field, so loads, clients and writers are not scaled down: the paper's 10 clients
//! and 36 writers drive 16 dies. How near its load came to what its drive takes is not published: loads
//! are given as parts of what the model takes without placement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_device::{CheckedIo, Device, DeviceInfo, DeviceStats, Io, IoFuture, ModelDevice};
use larder_ssd::managed::PAGE_BYTES;
use larder_ssd::timed::{self, TimedSsd};

use super::closed_loop::{ClosedLoop, Load, Seen, Step};
use super::{Metrics, Parameter, Settings, rig};
use crate::Error;
use crate::replay::shared::{self, SharedRun, Tenant};
use crate::replay::{Monitor, ReplayOptions};

/// A unit is four stripes of 192 KiB, on four dies of the drive: the next four of those that a unit of
/// 6 GB goes round.
pub(super) const UNIT_BYTES: u64 = 4 * (192 << 10);

/// What a request takes at least: a look into DRAM.
const FASTEST_NS: f64 = 1000.0;
/// Of the moments of requests. The workload has a seed of its own.
const TIMES_SEED: u64 = 1;

pub(super) const FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "216",
    help: "capacity of the drive in MiB, 8 to 65536; units of 768 KiB; DRAM is a 32nd of it",
};
pub(super) const MEDIA_LOAD: (&str, &str) = (
    "media_load.*",
    "share of what the dies can program that they did, with (on) and without placement, by point",
);
pub(super) const READ_P99_RATIO: (&str, &str) = ("read_p99_ratio.*", "p99 of reads, off / on");
pub(super) const WRITE_P99_RATIO: (&str, &str) = ("write_p99_ratio.*", "p99 of writes, off / on");
pub(super) const THROUGHPUT_RATIO: (&str, &str) =
    ("throughput_ratio.*", "requests a second, on / off");
pub(super) const CLIENTS: Parameter = Parameter {
    name: "clients",
    default: "10",
    help: "requests of the workload under way at a time, 1 to 1024: the paper has 10 threads",
};
pub(super) const WRITERS: Parameter = Parameter {
    name: "writers",
    default: "36",
    help: "writes of the cache under way at a time, 1 to 1024: the paper has 36 writers",
};

/// The load of the settings, at so many requests a second if the drive took no time.
pub(super) fn load(settings: &Settings, requests_per_s: f64) -> Result<Load, Error> {
    let clients = settings.within("clients", 1.0..=1024.0)?;
    let writers = settings.within("writers", 1.0..=1024.0)?;
    let request_ns = clients * 1e9 / requests_per_s;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 1 to 1024
    Ok(Load { clients: clients as usize, writers: writers as usize, request_ns })
}

/// A run and what its caches saw of time.
pub(super) struct TimedRun {
    pub(super) run: SharedRun,
    pub(super) seen: Vec<Seen>,
    pub(super) seconds: f64,
    /// Share of the time in which all dies could have programmed that they did.
    pub(super) media_load: f64,
}

impl TimedRun {
    /// Requests of a cache per second.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn requests_per_s(&self, cache: usize) -> f64 {
        self.seen.get(cache).map_or(f64::NAN, |seen| seen.requests as f64 / self.seconds)
    }
}

/// Requests a second that the drive of `options` takes without placement from clients that take
/// [hardly any time](FASTEST_NS) themselves.
pub(super) fn capacity(
    options: &ReplayOptions,
    settings: &Settings,
    monitor: &Monitor,
) -> Result<f64, Error> {
    let load = Load { request_ns: FASTEST_NS, ..load(settings, f64::INFINITY)? };
    Ok(alone(options, false, load, monitor)?.requests_per_s(0))
}

/// One cache alone on the timed drive of `options`.
pub(super) fn alone(
    options: &ReplayOptions,
    placement: bool,
    load: Load,
    monitor: &Monitor,
) -> Result<TimedRun, Error> {
    let drive = shared::drive(options, placement, shared::HANDLES)?;
    let tenant = |_, device| Ok(Tenant::new(options.clone(), device));
    play(&drive, 1, &tenant, placement, load, monitor)
}

/// Makes a tenant of its number and of the drive.
type MakeTenant<'a> = dyn Fn(usize, Arc<dyn Device>) -> Result<Tenant, Error> + 'a;

/// Plays `count` tenants, all of which make as many requests a turn.
pub(super) fn play(
    drive: &Arc<ModelDevice>,
    count: usize,
    tenant: &MakeTenant<'_>,
    placement: bool,
    load: Load,
    monitor: &Monitor,
) -> Result<TimedRun, Error> {
    let config = drive.with_ssd(|ssd| ssd.config().clone());
    let ssd = TimedSsd::new(config, timed::pm9d3_like())
        .map_err(|error| Error::run(format!("timed drive: {error}")))?;
    let recorder = Arc::new(Mutex::new(Recorder {
        closed: ClosedLoop::new(ssd, count, load, TIMES_SEED),
        steps: vec![Vec::new(); count],
        begun: false,
    }));
    let recorded = |cache| {
        let device = Arc::clone(drive);
        Arc::new(Recorded { device, cache, recorder: Arc::clone(&recorder) })
    };
    let tenants: Vec<Tenant> =
        (0..count).map(|cache| tenant(cache, recorded(cache))).collect::<Result<_, _>>()?;
    let turns = tenants.iter().map(turns).min().unwrap_or(0);
    let mut made = 0;
    let mut end_of_turn = |_| {
        let mut recorder = lock(&recorder);
        recorder.end_of_turn();
        made += 1;
        if made == turns / 2 {
            recorder.closed.measure();
        }
        Ok(())
    };
    let run = shared::play(drive, &tenants, placement, &mut end_of_turn, monitor)?;
    drop(tenants);
    let recorder =
        Arc::into_inner(recorder).ok_or_else(|| Error::run("timed drive: still in use"))?;
    let recorder = recorder.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (seen, seconds) = recorder.closed.end();
    let media_load = media_load(&run.drive, seconds);
    Ok(TimedRun { run, seen, seconds, media_load })
}

#[allow(clippy::cast_precision_loss)] // some gigabytes
fn media_load(work: &shared::DriveWork, seconds: f64) -> f64 {
    let programmed = (work.host_pages + work.copied_pages) * PAGE_BYTES;
    programmed as f64 / seconds / timed::pm9d3_like().program_bytes_per_s()
}

fn turns(tenant: &Tenant) -> u64 {
    tenant.options.total_requests().unwrap_or(0) / tenant.requests_per_turn
}

/// What caches ask for, until their requests end.
struct Recorder {
    closed: ClosedLoop,
    /// Of the request that is under way, by cache.
    steps: Vec<Vec<Step>>,
    /// Whether the workload has begun: until then the drive is aged.
    begun: bool,
}

impl Recorder {
    fn note(&mut self, cache: usize, step: Step) {
        if self.begun {
            self.steps[cache].push(step);
        } else {
            self.closed.age(step);
        }
    }

    fn end_of_turn(&mut self) {
        self.begun = true;
        for (cache, steps) in self.steps.iter_mut().enumerate() {
            self.closed.request(cache, steps);
            steps.clear();
        }
    }
}

fn lock(recorder: &Mutex<Recorder>) -> MutexGuard<'_, Recorder> {
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The drive, whose requests by one cache are noted.
struct Recorded {
    device: Arc<ModelDevice>,
    cache: usize,
    recorder: Arc<Mutex<Recorder>>,
}

impl Device for Recorded {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let (_, offset, bytes) = io.get().extent();
        let (lpn, pages) = (offset / PAGE_BYTES, bytes / PAGE_BYTES);
        let step = match io.get() {
            Io::Read { .. } => Some(Step::Read { lpn, pages }),
            Io::Write { handle, .. } => Some(Step::Write { lpn, pages, handle: handle.index() }),
            Io::Deallocate { .. } => Some(Step::Deallocate { lpn, pages }),
            Io::Flush => None,
        };
        if let Some(step) = step {
            lock(&self.recorder).note(self.cache, step);
        }
        self.device.submit(io.into_inner())
    }

    fn stored_at(&self, range: std::ops::Range<u64>) -> Vec<larder_device::Extent> {
        self.device.stored_at(range)
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

/// Runs the cache of `options` with and without placement under `load` and notes under the point what
/// clients saw and how long the drive took.
pub(super) fn note_both(
    metrics: &mut Metrics,
    point: &str,
    options: &ReplayOptions,
    load: Load,
    monitor: &Monitor,
) -> Result<(), Error> {
    let runs = rig::with_and_without(|placement| alone(options, placement, load, monitor))?;
    for (placement, mut run) in runs {
        rig::note_steadiness(metrics, point, &run.run);
        let made = run.requests_per_s(0) / 1000.0;
        metrics.insert(format!("kilo_requests_per_s.{placement}.{point}"), made);
        metrics.insert(format!("media_load.{placement}.{point}"), run.media_load);
        for tenant in run.run.tenants.iter().filter(|tenant| tenant.run.gets > 0) {
            metrics.insert(format!("hit.{placement}.{point}"), tenant.run.hit_ratio);
        }
        if let Some(seen) = run.seen.first_mut() {
            note_latencies(metrics, placement, point, seen);
        }
    }
    note_ratios(metrics, point);
    Ok(())
}

/// Notes what placement changes at the point.
pub(super) fn note_ratios(metrics: &mut Metrics, point: &str) {
    let ratio = |metric: &str, above: &str, below: &str| {
        metrics[&format!("{metric}.{above}.{point}")]
            / metrics[&format!("{metric}.{below}.{point}")]
    };
    let ratios = [
        ("read_p99_ratio", ratio("read_p99_us", "off", "on")),
        ("write_p99_ratio", ratio("write_p99_us", "off", "on")),
        ("throughput_ratio", ratio("kilo_requests_per_s", "on", "off")),
    ];
    metrics.extend(ratios.map(|(name, value)| (format!("{name}.{point}"), value)));
}

/// Notes percentiles of reads and writes in microseconds under the point.
pub(super) fn note_latencies(metrics: &mut Metrics, setting: &str, point: &str, seen: &mut Seen) {
    let samples = &mut seen.samples;
    for (kind, times) in [("read", &mut samples.reads), ("write", &mut samples.writes)] {
        times.sort_unstable();
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
            let us = percentile(times, share);
            metrics.insert(format!("{kind}_{name}_us.{setting}.{point}"), us);
        }
    }
}

/// In microseconds; NaN without samples.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn percentile(sorted: &[u32], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    let found = sorted.get(at.min(sorted.len().saturating_sub(1)));
    found.map_or(f64::NAN, |ns| f64::from(*ns) / 1000.0)
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
