//! Two tenants on a timed managed drive: one writes as a cache does, the other reads.
//!
//! The writer's half of the addresses is full: it writes random buckets of 4 KiB (SOC) and sequential pieces of 64 KiB
//! that wrap around (LOC). With FDP each of the two has a handle; without it, the drive cannot distinguish the writes
//! of a tenant. With own channels, each tenant is in a reclaim group that owns half of the channels and half of the
//! spare space. A drive without FDP has no groups, so there a group stands for what a firmware under vSSDs would have:
//! one write frontier for each tenant.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use larder_ssd::managed::{Geometry, GroupDies, ManagedConfig, PAGE_BYTES, Placement};
use larder_ssd::timed::{DieService, DriveTiming, Nanoseconds, TimedSsd, pm9d3_like};
use larder_workload::Latencies;

use super::failed;
use crate::Error;
use crate::experiment::timed_rig::UNIT_BYTES;
use crate::replay::Monitor;

/// What the tenants of a run share, and their load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) fdp: bool,
    /// Each tenant has half of the channels.
    pub(super) own_channels: bool,
    pub(super) service: DieService,
    pub(super) logical_bytes: u64,
    /// Percent of the logical capacity.
    pub(super) overprovisioning: f64,
    /// Share of the writer's addresses that are buckets.
    pub(super) soc_share: f64,
    /// Requests of the writer and of the reader in flight.
    pub(super) writes: usize,
    pub(super) reads: usize,
    pub(super) seed: u64,
}

/// The measurements of the second part of a run.
#[derive(Debug)]
pub(super) struct PairResult {
    pub(super) dlwa: f64,
    /// Difference of DLWA between the halves of the measurement.
    pub(super) drift: f64,
    pub(super) writes_before: f64,
    pub(super) loc_wraps_before: f64,
    /// Latencies of the reader's requests.
    pub(super) reads: Latencies,
    pub(super) write_mb_s: f64,
}

const BUCKET_PAGES: u64 = 1;
const LOC_PAGES: u64 = 16;
/// Share of the writer's bytes that goes to buckets, as fitted for the KV Cache.
const SOC_BYTES: f64 = 0.65;
/// How often the writer overwrites its part before the measurement, and during it.
const WARM_UP: u64 = 14;
const MEASURED: u64 = 6;

/// Handle 0 is the reader's. Without FDP it is every tenant's.
const SOC_HANDLE: u16 = 1;
const LOC_HANDLE: u16 = 2;
const READER: u16 = 1;

struct Run {
    pair: Pair,
    timed: TimedSsd,
    rng: fastrand::Rng,
    part_pages: u64,
    soc_pages: u64,
    /// Next piece of the writer's log, in pages from its start, and pages written there in all.
    loc_at: u64,
    loc_written: u64,
    written: u64,
}

impl Pair {
    /// Fills the drive, runs both tenants until the writer has overwritten its part often enough, and returns the
    /// results of the last overwrites.
    pub(super) fn measure(self, monitor: &Monitor) -> Result<PairResult, Error> {
        let mut run = Run::new(self)?;
        let filled = run.fill()?;
        let warm = WARM_UP * run.part_pages;
        let mut reads = Latencies::default();
        let mut due = BinaryHeap::new();
        due.extend((0..self.writes + self.reads).map(|client| Reverse((filled, client))));
        let mut marks = Vec::new();
        while let Some(Reverse((now, client))) = due.pop() {
            let measured = MEASURED * run.part_pages / 2 * marks.len() as u64;
            if run.written >= warm + measured {
                marks.push((now, run.written, run.loc_written, run.timed.ssd().stats().clone()));
                if marks.len() == 3 || monitor.is_stopped() {
                    break;
                }
            }
            let ended = if client < self.writes { run.write(now)? } else { run.read(now)? };
            if client >= self.writes && !marks.is_empty() {
                reads.record_ns(ended - now);
            }
            due.push(Reverse((ended, client)));
        }
        let Ok([from, halfway, until]) = <[_; 3]>::try_from(marks) else {
            return Err(Error::run("interrupted"));
        };
        let dlwa = |to: &larder_ssd::managed::Stats, from| to.dlwa_since(from).unwrap_or(f64::NAN);
        let (first, second) = (dlwa(&halfway.3, &from.3), dlwa(&until.3, &halfway.3));
        let loc_pages = run.part_pages - run.soc_pages;
        Ok(PairResult {
            dlwa: dlwa(&until.3, &from.3),
            drift: (second / first - 1.0).abs(),
            writes_before: share(from.1, run.part_pages),
            loc_wraps_before: share(from.2, loc_pages),
            reads,
            write_mb_s: share((until.1 - from.1) * PAGE_BYTES, until.0 - from.0) * 1000.0,
        })
    }

    fn config(&self) -> Result<(ManagedConfig, DriveTiming), Error> {
        let mut geometry =
            Geometry::with_overprovisioning(self.logical_bytes, UNIT_BYTES, self.overprovisioning)
                .map_err(failed)?;
        geometry.units = geometry.units.next_multiple_of(2);
        let config = ManagedConfig {
            fdp: self.fdp || self.own_channels,
            handles: if self.fdp { 3 } else { 1 },
            groups: if self.own_channels { 2 } else { 1 },
            group_dies: if self.own_channels { GroupDies::Channels } else { GroupDies::All },
            seed: self.seed,
            ..ManagedConfig::new(geometry)
        };
        Ok((config, DriveTiming { service: self.service, ..pm9d3_like() }))
    }

    fn placement(&self, tenant: u16, handle: u16) -> Placement {
        Placement {
            group: if self.own_channels { tenant } else { 0 },
            handle: if self.fdp { handle } else { 0 },
        }
    }
}

impl Run {
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    fn new(pair: Pair) -> Result<Self, Error> {
        let (config, timing) = pair.config()?;
        let part_pages = config.geometry.logical_pages / 2 / LOC_PAGES * LOC_PAGES;
        let soc_pages = (part_pages as f64 * pair.soc_share) as u64 / LOC_PAGES * LOC_PAGES;
        Ok(Self {
            pair,
            timed: TimedSsd::new(config, timing).map_err(failed)?,
            rng: fastrand::Rng::with_seed(pair.seed),
            part_pages,
            soc_pages: soc_pages.max(LOC_PAGES),
            loc_at: 0,
            loc_written: 0,
            written: 0,
        })
    }

    /// Writes the whole drive once: the writer's part, then the reader's. Returns the time at which that is done.
    fn fill(&mut self) -> Result<Nanoseconds, Error> {
        let mut now = 0;
        for lpn in (0..2 * self.part_pages).step_by(usize::try_from(LOC_PAGES).unwrap_or(1)) {
            let placement = match lpn {
                _ if lpn >= self.part_pages => self.pair.placement(READER, 0),
                _ if lpn >= self.soc_pages => self.pair.placement(0, LOC_HANDLE),
                _ => self.pair.placement(0, SOC_HANDLE),
            };
            now = self.timed.write_placed(now, placement, lpn, LOC_PAGES).map_err(failed)?;
        }
        Ok(now.max(self.timed.idle_at()))
    }

    fn write(&mut self, now: Nanoseconds) -> Result<Nanoseconds, Error> {
        let (bucket, piece) =
            (SOC_BYTES / BUCKET_PAGES as f64, (1.0 - SOC_BYTES) / LOC_PAGES as f64);
        let (handle, lpn, pages) = if self.rng.f64() < bucket / (bucket + piece) {
            (SOC_HANDLE, self.rng.u64(..self.soc_pages), BUCKET_PAGES)
        } else {
            let lpn = self.soc_pages + self.loc_at;
            self.loc_at = (self.loc_at + LOC_PAGES) % (self.part_pages - self.soc_pages);
            self.loc_written += LOC_PAGES;
            (LOC_HANDLE, lpn, LOC_PAGES)
        };
        self.written += pages;
        let placement = self.pair.placement(0, handle);
        self.timed.write_placed(now, placement, lpn, pages).map_err(failed)
    }

    /// Reads 4 to 64 KiB, by powers of two, at a random place of the reader's part.
    fn read(&mut self, now: Nanoseconds) -> Result<Nanoseconds, Error> {
        let pages = 1 << self.rng.u32(..=LOC_PAGES.ilog2());
        let lpn = self.part_pages + self.rng.u64(..self.part_pages / pages) * pages;
        self.timed.read(now, lpn, pages).map_err(failed)
    }
}

#[allow(clippy::cast_precision_loss)] // some gigabytes and seconds
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
