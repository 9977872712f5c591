//! The measurements of a run, and whether more requests would give the same results.

use std::sync::Arc;

use larder::SocLayout;

use crate::Error;
use crate::replay::shared::{self, SharedRun, Tenant};
use crate::replay::{Monitor, ReplayOptions, Run};

/// The measurements of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// In percent.
    pub(super) utilization: f64,
    pub(super) with_placement: bool,
    /// How small objects were stored.
    pub(super) layout: SocLayout,
    /// At least 1.
    pub(super) dlwa: f64,
    pub(super) hit_ratio: f64,
    /// Bytes that the cache wrote for a byte that it admitted to flash.
    pub(super) alwa: f64,
    pub(super) host_bytes_per_request: f64,
    /// Share of the host's bytes that the small-object engine wrote.
    pub(super) soc_share: f64,
    pub(super) drive_writes_before: f64,
    /// Relative difference of DLWA between the halves of the measurement.
    pub(super) dlwa_drift: f64,
    /// Relative difference of the host's bytes per request between the halves.
    pub(super) load_drift: f64,
    /// Statistical relative error of the host's bytes per request: twice the standard error.
    pub(super) load_error: f64,
    /// Size of a large object relative to a reclaim unit. It is nearly 0 on real drives.
    pub(super) object_per_unit: f64,
}

/// Drive and load have settled if neither changes by more than this share from one half of the measurement to the
/// other, and the drive was written over [`STEADY_DRIVE_WRITES`] times before.
pub(super) const SETTLED: f64 = 0.05;
/// Number of times that a drive must be written over until its DLWA is steady.
pub(super) const STEADY_DRIVE_WRITES: f64 = 11.0;
/// Large objects are written in one piece. If they take more than this share of a unit, many units hold nothing else
/// and die as a whole, and DLWA without placement comes out too low.
pub(super) const OBJECT_PER_UNIT_MAX: f64 = 0.1;

impl Measured {
    /// Whether more requests would give the same results.
    pub(super) fn is_settled(&self) -> bool {
        self.is_drive_settled() && self.load_drift <= SETTLED
    }

    pub(super) fn is_drive_settled(&self) -> bool {
        self.dlwa_drift <= SETTLED && self.drive_writes_before >= STEADY_DRIVE_WRITES
    }

    /// Whether a unit holds enough objects to mix the writes of both engines.
    pub(super) fn is_mixed(&self) -> bool {
        self.with_placement || self.object_per_unit <= OBJECT_PER_UNIT_MAX
    }

    /// Share of the host's bytes that were written at random places.
    pub(super) fn random_share(&self) -> f64 {
        random_share(self.layout, self.soc_share)
    }

    pub(super) fn placement(&self) -> &'static str {
        if self.with_placement { "on" } else { "off" }
    }
}

/// Share of the host's bytes that go to random places, if the small-object engine writes the share `soc_share`: pages
/// are written in order.
pub(super) fn random_share(layout: SocLayout, soc_share: f64) -> f64 {
    match layout {
        SocLayout::Buckets => soc_share,
        _ => 0.0,
    }
}

/// Runs and measures a replay.
pub(super) fn measure_replay(
    options: &ReplayOptions,
    with_placement: bool,
    monitor: &Monitor,
) -> Result<Measured, Error> {
    let played = play(options, with_placement, monitor)?;
    let run = only(&played)?;
    let host_bytes_per_request = per_request(run);
    if host_bytes_per_request <= 0.0 || !played.drive.dlwa.is_finite() {
        return Err(Error::run(format!(
            "the workload wrote nothing to flash in {} measured requests, so nothing is known of \
             the drive; use more --requests, a longer trace, or less --dram",
            run.requests - run.warmup_requests
        )));
    }
    Ok(Measured {
        utilization: options.utilization_percent,
        with_placement,
        layout: options.soc_layout,
        dlwa: played.drive.dlwa.max(1.0),
        hit_ratio: run.hit_ratio,
        alwa: run.alwa.unwrap_or(1.0),
        host_bytes_per_request,
        soc_share: soc_share(run),
        drive_writes_before: played.drive.drive_writes_before,
        dlwa_drift: played.drive.drift,
        load_drift: load_drift(run),
        load_error: load_error(run),
        object_per_unit: 0.0,
    })
}

/// Relative difference of the host's bytes per request between the halves of the measurement.
#[allow(clippy::cast_precision_loss)] // some gigabytes
fn load_drift(run: &Run) -> f64 {
    let measured = run.requests - run.warmup_requests;
    let middle = run.warmup_requests + measured / 2;
    let (mut halves, mut last) = ([(0, 0); 2], run.warmup_requests);
    for interval in run.intervals.iter().filter(|interval| !interval.warmup) {
        let (bytes, requests) = &mut halves[usize::from(interval.requests > middle)];
        *bytes += interval.host_bytes;
        *requests += interval.requests - last;
        last = interval.requests;
    }
    let [first, second] = halves.map(|(bytes, requests)| bytes as f64 / requests as f64);
    // If the run is too short for two halves, the drift is unknown; report the maximum.
    let drift = (second / first - 1.0).abs();
    if drift.is_finite() { drift } else { 1.0 }
}

/// Relative error of the host's bytes per request: twice the standard error, estimated from the differences between
/// intervals. It matters because a few large objects are a large part of the bytes.
#[allow(clippy::cast_precision_loss)] // some gigabytes
fn load_error(run: &Run) -> f64 {
    let measured = run.intervals.windows(2).filter(|pair| !pair[1].warmup);
    let loads: Vec<f64> = measured
        .map(|pair| pair[1].host_bytes as f64 / (pair[1].requests - pair[0].requests) as f64)
        .collect();
    let count = loads.len() as f64;
    let mean = loads.iter().sum::<f64>() / count;
    let variance = loads.iter().map(|load| (load - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let error = 2.0 * (variance / count).sqrt() / mean;
    if error.is_finite() { error } else { 1.0 }
}

/// Bytes that the cache writes to its drive for each request, after warm-up.
pub(super) fn host_bytes_per_request(
    options: &ReplayOptions,
    monitor: &Monitor,
) -> Result<f64, Error> {
    only(&play(options, true, monitor)?).map(per_request)
}

fn play(options: &ReplayOptions, placement: bool, monitor: &Monitor) -> Result<SharedRun, Error> {
    let drive = shared::drive(options, placement, shared::HANDLES)?;
    let tenant = Tenant::new(options.clone(), Arc::clone(&drive) as _);
    shared::play(&drive, &[tenant], placement, &mut |_| Ok(()), monitor)
}

fn only(played: &SharedRun) -> Result<&Run, Error> {
    let run = played.tenants.first().map(|tenant| &tenant.run);
    run.ok_or_else(|| Error::run("plan: nothing was played"))
}

#[allow(clippy::cast_precision_loss)] // some gigabytes
fn per_request(run: &Run) -> f64 {
    let requests = run.requests - run.warmup_requests;
    if requests == 0 { 0.0 } else { run.host_bytes as f64 / requests as f64 }
}

#[allow(clippy::cast_precision_loss)]
fn soc_share(run: &Run) -> f64 {
    run.soc_bytes as f64
        / (run.soc_bytes + run.loc_bytes + run.array_bytes + run.metadata_bytes).max(1) as f64
}
