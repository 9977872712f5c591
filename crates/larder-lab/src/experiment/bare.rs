//! The bare FTL model under the write pattern of a cache. There is no cache: Larder's own write path is not simulated,
//! and drives of terabytes fit into memory.
//!
//! The pattern is the reference model of the literature: the SOC writes single pages at random, the LOC writes its
//! regions sequentially in pieces of 256 KiB, and a fixed share of the bytes comes from the SOC. That share, 0.65, and
//! the over-provisioning of 17 % are fitted to the published DLWA.

use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use larder_ssd::managed::{Geometry, ManagedConfig, ManagedSsd, PAGE_BYTES, Stats, VictimPolicy};

use super::measured::highest;
use super::placement::half_and_full_checks;
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::{Monitor, shared};

/// Memory limit for the maps of all concurrent runs. It keeps the process below 6 GiB. Two drives of full size fit when
/// half of each is used.
const MEMORY_BYTES: u64 = (6 << 30) - (64 << 20);
/// Tracks the concurrent runs of all seeds.
static RUNNING: Running =
    Running { now: Mutex::new(Load { runs: 0, bytes: 0 }), ended: Condvar::new() };
/// Advertised capacity of the paper's drive.
const FULL_BYTES: f64 = 1.88e12;
/// Reclaim units of the drive, including over-provisioning, of 6 GB each.
const UNITS: f64 = 340.0;
/// Pages in a piece of a region on a drive of full size: 256 KiB.
const PIECE_PAGES: u64 = 64;
/// Percent of the pages that the SOC has, and its share of the host's bytes (fitted).
const SOC_PERCENT: f64 = 4.0;
const FITTED: Assumed = Assumed { op_percent: 17.0, soc_share: 0.65, policy: VictimPolicy::Greedy };
const SOC_HANDLE: u16 = 1;
const LOC_HANDLE: u16 = 2;
/// Bytes of the forward map for each logical page.
const FORWARD_BYTES: u64 = 4;
/// For uniform writes only: pages in a reclaim unit, and the number of times that the drive is written.
const UNIFORM_UNIT_PAGES: u32 = 1024;
const UNIFORM_WRITES: u64 = 10;

pub(super) static FULL_SCALE: Experiment = Experiment {
    name: "full-scale",
    title: "DLWA of the bare firmware under a cache's pattern, on a drive of any size",
    reproduces: "FDP paper (EuroSys'25), Figures 5 and 6, on a drive of 1.88 TB at scale=1; the \
                 SOC's share of the bytes is fitted",
    criterion: "on 1 to 1.05 at 50 and 100 %; off within 15 % of the paper's at both",
    parameters: &[
        Parameter {
            name: "scale",
            default: "0.003",
            help: "size of the drive as a fraction of 1.88 TB, 0.0001 to 1; 1 takes 6 GiB",
        },
        Parameter {
            name: "drive_writes",
            default: "18",
            help: "times that the drive is written over, 3 to 100; the last third is measured",
        },
    ],
    metrics: &[
        ("dlwa.on.*", "DLWA with placement, by utilisation in percent"),
        ("dlwa.off.*", "DLWA without"),
        (
            "pages_per_second",
            "host pages a second of one of the runs side by side; not deterministic",
        ),
        ("map_bytes_per_page", "memory of the drive's maps per logical page"),
        ("drive_writes_before", "times that the drive was written over before the measurement"),
        (
            "drift",
            "share by which DLWA differs between the halves of the measurement, in the run with most \
             of it",
        ),
    ],
    references: &[
        Reference::published("dlwa.on.50", 1.03, "Figure 5"),
        Reference::published("dlwa.off.50", 1.3, "Figure 5"),
        Reference::published("dlwa.on.100", 1.03, "Figure 6"),
        Reference::published("dlwa.off.100", 3.5, "Figure 6"),
    ],
    needs: &["dlwa.on.50", "dlwa.on.100", "dlwa.off.50", "dlwa.off.100"],
    measure,
    judge,
};

#[allow(clippy::cast_precision_loss)]
fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let scale = settings.within("scale", 0.0001..=1.0)?;
    let writes = settings.within("drive_writes", 3.0..=100.0)?;
    let geometry = geometry(scale, FITTED.op_percent)?;
    let measured: Vec<Result<Measured, Error>> = std::thread::scope(|scope| {
        let started: Vec<_> = ARMS
            .iter()
            .map(|arm| scope.spawn(move || arm.measure(&FITTED, geometry, writes, seed, monitor)))
            .collect();
        let ended = started.into_iter().map(std::thread::ScopedJoinHandle::join);
        // Continue a worker's panic in the thread that requested the measurement.
        ended.map(|run| run.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut metrics = Metrics::new();
    let (mut pages, mut seconds, mut map_bytes, mut drifts) = (0, 0.0, 0, Vec::new());
    for (arm, measured) in ARMS.iter().zip(measured) {
        let measured = measured?;
        pages += measured.host_pages;
        seconds += measured.seconds;
        map_bytes = measured.map_bytes;
        drifts.push(measured.drift);
        metrics.insert(arm.metric(), measured.dlwa);
    }
    let map = map_bytes as f64 / geometry.logical_pages as f64;
    metrics.insert("map_bytes_per_page".to_owned(), map);
    metrics.insert("pages_per_second".to_owned(), pages as f64 / seconds);
    metrics.insert("drive_writes_before".to_owned(), writes * 2.0 / 3.0);
    metrics.insert("drift".to_owned(), highest(drifts));
    Ok(metrics)
}

/// What is not published of the drive and the cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assumed {
    /// Spare flash in percent of what the drive sells.
    pub op_percent: f64,
    /// The SOC's share of the host's bytes, above 0 and below 1.
    pub soc_share: f64,
    /// Which unit garbage collection takes.
    pub policy: VictimPolicy,
}

impl Assumed {
    /// DLWA without placement of a drive of `scale` times 1.88 TB that is written over `writes` times, with
    /// `utilization` percent of it in use.
    pub(super) fn dlwa_off(
        &self,
        utilization: u32,
        (scale, writes): (f64, f64),
        seed: u64,
        monitor: &Monitor,
    ) -> Result<f64, Error> {
        let arm = Arm { placement: false, utilization };
        Ok(arm.measure(self, geometry(scale, self.op_percent)?, writes, seed, monitor)?.dlwa)
    }
}

/// A configuration that is measured.
struct Arm {
    placement: bool,
    /// Percent of the logical pages in use.
    utilization: u32,
}

/// Half-used drives come first: two of them fit into the memory limit, and no other two do at full size.
const ARMS: [Arm; 4] = [
    Arm { placement: true, utilization: 50 },
    Arm { placement: false, utilization: 50 },
    Arm { placement: true, utilization: 100 },
    Arm { placement: false, utilization: 100 },
];

struct Measured {
    dlwa: f64,
    drift: f64,
    host_pages: u64,
    seconds: f64,
    map_bytes: u64,
}

impl Arm {
    fn metric(&self) -> String {
        format!("dlwa.{}.{}", if self.placement { "on" } else { "off" }, self.utilization)
    }

    fn measure(
        &self,
        assumed: &Assumed,
        geometry: Geometry,
        writes: f64,
        seed: u64,
        monitor: &Monitor,
    ) -> Result<Measured, Error> {
        let mut run = Run::new(geometry, assumed, self, writes, seed)?;
        let _turn = RUNNING.wait_for_turn(run.resident_bytes());
        let start = Instant::now();
        run.fill_soc()?;
        let host_pages = share_of(geometry.logical_pages, writes * 100.0);
        run.write_until(host_pages / 3 * 2, monitor)?;
        let before = run.ssd.stats().clone();
        run.write_until(host_pages / 6 * 5, monitor)?;
        let halfway = run.ssd.stats().clone();
        run.write_until(host_pages, monitor)?;
        Ok(Measured {
            dlwa: dlwa(&run.ssd, &before),
            drift: shared::drift(&before, &halfway, run.ssd.stats()),
            host_pages: run.ssd.stats().host_pages,
            seconds: start.elapsed().as_secs_f64(),
            map_bytes: run.ssd.map_memory_bytes(),
        })
    }
}

/// Limits the number of concurrent runs by cores and memory.
struct Running {
    now: Mutex<Load>,
    ended: Condvar,
}

struct Load {
    runs: usize,
    bytes: u64,
}

/// The share of the machine that a run holds; returned on drop.
struct Turn<'a> {
    running: &'a Running,
    bytes: u64,
}

impl Running {
    /// Waits until a run that takes `bytes` fits alongside the others. A single run is always admitted.
    fn wait_for_turn(&self, bytes: u64) -> Turn<'_> {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |now: &mut Load| {
            now.runs > 0 && (now.runs >= cores || now.bytes + bytes > MEMORY_BYTES)
        };
        let waited = self.ended.wait_while(now, full);
        let mut now = waited.unwrap_or_else(PoisonError::into_inner);
        now.runs += 1;
        now.bytes += bytes;
        Turn { running: self, bytes }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut now = self.running.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.runs -= 1;
        now.bytes -= self.bytes;
        drop(now);
        self.running.ended.notify_all();
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // scale is at most 1
fn geometry(scale: f64, op_percent: f64) -> Result<Geometry, Error> {
    let page = PAGE_BYTES as f64;
    let logical_pages = (FULL_BYTES * scale / page) as u64;
    let all_pages = logical_pages as f64 * (1.0 + op_percent / 100.0);
    let unit_bytes = (all_pages / UNITS).round() as u64 * PAGE_BYTES;
    Geometry::with_overprovisioning(logical_pages * PAGE_BYTES, unit_bytes, op_percent)
        .map_err(|error| model_error(&error))
}

fn model_error(error: &larder_ssd::Error) -> Error {
    Error::run(format!("SSD model: {error}"))
}

fn dlwa(ssd: &ManagedSsd, before: &Stats) -> f64 {
    ssd.stats().dlwa_since(before).unwrap_or(f64::NAN)
}

/// A percentage of `pages`.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn share_of(pages: u64, percent: f64) -> u64 {
    (pages as f64 * percent / 100.0) as u64
}

/// A drive under the write pattern.
struct Run {
    ssd: ManagedSsd,
    rng: fastrand::Rng,
    loc_pages: u64,
    soc_pages: u64,
    /// Pages that the SOC writes for each of the LOC.
    soc_per_loc: f64,
    piece_pages: u64,
    /// The next page of the LOC to write.
    next: u64,
    /// Pages that the SOC may write before the LOC's turn.
    soc_due: f64,
    /// The pages that the SOC writes in its turn.
    scattered: Vec<u32>,
    /// Pages written by the end of the run.
    all_pages: f64,
}

impl Run {
    #[allow(clippy::cast_precision_loss)]
    fn new(
        geometry: Geometry,
        assumed: &Assumed,
        arm: &Arm,
        writes: f64,
        seed: u64,
    ) -> Result<Self, Error> {
        let used = share_of(geometry.logical_pages, f64::from(arm.utilization));
        let soc_pages = share_of(used, SOC_PERCENT).max(1);
        let config = ManagedConfig {
            fdp: arm.placement,
            victim_policy: assumed.policy,
            ..ManagedConfig::new(geometry)
        };
        Ok(Self {
            ssd: ManagedSsd::new(config).map_err(|error| model_error(&error))?,
            rng: fastrand::Rng::with_seed(seed),
            loc_pages: used - soc_pages,
            soc_pages,
            soc_per_loc: assumed.soc_share / (1.0 - assumed.soc_share),
            piece_pages: PIECE_PAGES.min(u64::from(geometry.pages_per_unit) / 64).max(1),
            next: 0,
            soc_due: 0.0,
            scattered: Vec::new(),
            all_pages: geometry.logical_pages as f64 * writes,
        })
    }

    /// Memory of the maps once all pages in use are written. The forward map of unused pages is never touched.
    fn resident_bytes(&self) -> u64 {
        let logical = self.ssd.config().geometry.logical_pages;
        let unused = logical - self.loc_pages - self.soc_pages;
        self.ssd.map_memory_bytes() - unused * FORWARD_BYTES
    }

    /// Writes the SOC once, sequentially.
    fn fill_soc(&mut self) -> Result<(), Error> {
        self.write(self.loc_pages, self.soc_pages, SOC_HANDLE)
    }

    fn write(&mut self, lpn: u64, pages: u64, handle: u16) -> Result<(), Error> {
        self.ssd.write(lpn, pages, handle).map_err(|error| model_error(&error))
    }

    #[allow(clippy::cast_precision_loss)]
    #[allow(clippy::cast_possible_truncation)] // drives have fewer than 2^32 pages
    fn write_until(&mut self, host_pages: u64, monitor: &Monitor) -> Result<(), Error> {
        let told_every = self.ssd.config().geometry.logical_pages / 10;
        let mut told = self.ssd.stats().host_pages;
        while self.ssd.stats().host_pages < host_pages {
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            let written = self.ssd.stats().host_pages;
            if written - told >= told_every {
                monitor
                    .add_to_seeds((written - told) as f64 / (self.all_pages * ARMS.len() as f64));
                told = written;
            }
            let piece = self.piece_pages.min(self.loc_pages - self.next);
            self.write(self.next, piece, LOC_HANDLE)?;
            self.next = (self.next + piece) % self.loc_pages;
            self.soc_due += piece as f64 * self.soc_per_loc;
            self.scattered.clear();
            while self.soc_due >= 1.0 {
                let page = self.loc_pages + self.rng.u64(..self.soc_pages);
                self.scattered.push(page as u32);
                self.soc_due -= 1.0;
            }
            let written = self.ssd.write_scattered(&self.scattered, SOC_HANDLE);
            written.map_err(|error| model_error(&error))?;
        }
        Ok(())
    }
}

/// DLWA of a drive of 340 units under uniformly random writes to all pages.
pub(super) fn uniform_dlwa(op_percent: f64, seed: u64, monitor: &Monitor) -> Result<f64, Error> {
    if !(17.0..=200.0).contains(&op_percent) {
        return Err(Error::usage(format!("uniform_op {op_percent}: must be 17 to 200")));
    }
    let unit_pages = u64::from(UNIFORM_UNIT_PAGES);
    let pages = share_of(340 * unit_pages, 1e4 / (100.0 + op_percent));
    let unit_bytes = unit_pages * PAGE_BYTES;
    let geometry = Geometry::with_overprovisioning(pages * PAGE_BYTES, unit_bytes, op_percent)
        .map_err(|error| model_error(&error))?;
    let config = ManagedConfig { handles: 1, ..ManagedConfig::new(geometry) };
    let mut ssd = ManagedSsd::new(config).map_err(|error| model_error(&error))?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut before = ssd.stats().clone();
    for pass in 0..UNIFORM_WRITES {
        if monitor.is_stopped() {
            return Err(Error::run("interrupted"));
        }
        if pass == UNIFORM_WRITES / 2 {
            before = ssd.stats().clone();
        }
        for page in 0..pages {
            let page = if pass == 0 { page } else { rng.u64(..pages) };
            ssd.write(page, 1, 0).map_err(|error| model_error(&error))?;
        }
    }
    Ok(dlwa(&ssd, &before))
}

fn judge(summary: &Summary) -> Judgement {
    half_and_full_checks(summary, FULL_SCALE.references)
        .note(format!(
            "the SOC's share of the bytes, {}, is fitted, not measured",
            FITTED.soc_share
        ))
        .judge()
}
