//! The scaled-down drive, and the length of its runs.

use larder::SocLayout;
use larder_workload::Op;

use super::fit::{self, check_fit};
use super::measured::{self, Measured};
use super::options::{DRAM_MIN, PlanOptions};
use super::outcome::ModelFacts;
use crate::Error;
use crate::replay::{Monitor, ReplayOptions, Workload};

/// Number of times that the requests of a run write the drive over, after ageing. Half of it is warm-up.
const DRIVE_WRITES: f64 = 18.0;
/// Limits on the requests of a run. The maximum is four times what the experiments use for the KV cache.
const REQUESTS: std::ops::RangeInclusive<u64> = 100_000..=16_000_000;
/// Requests of the first run, which measures how much the workload writes. If it writes less than a drive, its DRAM was
/// still filling, and a longer run follows, up to the second number.
const PILOT_REQUESTS: (u64, u64) = (50_000, 800_000);
/// Requests whose sizes are sampled.
const LOOK: u64 = 200_000;
/// If ageing a drive needs more requests than this, it would take too long: the workload has hardly any large objects.
const AGEING_MAX: f64 = 2e8;
/// Number of times that ageing writes the drive over with large objects: half of nine.
const AGEING_WRITES: f64 = 4.5;

/// The model that is simulated in place of the drive.
pub(super) struct Model {
    scale: f64,
    options: ReplayOptions,
    requests: u64,
    /// Size of the large object that the average byte belongs to.
    large_object_bytes: f64,
    /// Mean size of small objects; 0 without any.
    small_object_bytes: f64,
}

impl Model {
    /// Scales the drive down and determines the number of requests.
    pub(super) fn of(asked: &PlanOptions, monitor: &Monitor) -> Result<Self, Error> {
        let (scale, options) = scaled(asked)?;
        let (large_object_bytes, small_object_bytes) = object_bytes(&options)?;
        let has_room = fit::fits_with(asked.least_utilization(), &options, asked.layout());
        let soc_layout = if has_room { asked.layout() } else { options.soc_layout };
        let options = ReplayOptions { soc_layout, ..options };
        let available = available(&options, asked.requests.unwrap_or(*REQUESTS.end()))?;
        let requests = match asked.requests {
            Some(requests) => requests.min(available),
            None => {
                let utilization_percent = asked.utilization_percent;
                let options = ReplayOptions { utilization_percent, ..options.clone() };
                enough(&options, available, monitor)?
            }
        };
        let options = ReplayOptions { requests: Some(requests), ..options };
        Ok(Self { scale, options, requests, large_object_bytes, small_object_bytes })
    }

    /// Requests of a run.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// How it stores small objects: as the cache would, if it has room for that.
    pub(super) fn layout(&self) -> SocLayout {
        self.options.soc_layout
    }

    /// The other way to store them, if the model has room for it at this utilisation.
    pub(super) fn other_layout(&self, utilization: f64) -> Option<SocLayout> {
        let other = match self.layout() {
            SocLayout::Buckets => SocLayout::Pages,
            _ => SocLayout::Buckets,
        };
        fit::fits_with(utilization, &self.options, other).then_some(other)
    }

    /// Mean size of small objects, in bytes; 0 without any.
    pub(super) fn small_object_bytes(&self) -> f64 {
        self.small_object_bytes
    }

    /// The replay options at a utilisation.
    pub(super) fn at(&self, utilization: f64, soc_layout: SocLayout) -> ReplayOptions {
        ReplayOptions { utilization_percent: utilization, soc_layout, ..self.options.clone() }
    }

    /// Size of the average byte's large object relative to a reclaim unit.
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    pub(super) fn object_per_unit(&self) -> f64 {
        self.large_object_bytes / self.options.resolved_unit_bytes() as f64
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // an object
    pub(super) fn facts(&self, measured: &[Measured]) -> ModelFacts {
        let unit_bytes = self.options.resolved_unit_bytes();
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
        #[allow(clippy::cast_sign_loss)] // some hundreds
        let units = (self.options.flash_bytes as f64 * (1.0 + self.options.op_percent / 100.0)
            / unit_bytes as f64)
            .round() as u64;
        ModelFacts {
            scale: self.scale,
            flash_bytes: self.options.flash_bytes,
            dram_bytes: self.options.dram_bytes,
            unit_bytes,
            units,
            requests: self.requests,
            large_object_bytes: self.large_object_bytes.round() as u64,
            drive_writes_before: measured
                .iter()
                .map(|run| run.drive_writes_before)
                .fold(f64::INFINITY, f64::min),
        }
    }
}

/// The scale, and the replay options of the model. Refuses DRAM and drive sizes that could not work.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
#[allow(clippy::cast_sign_loss)] // sizes of drives, far below 2^53
pub(super) fn scaled(asked: &PlanOptions) -> Result<(f64, ReplayOptions), Error> {
    let flash = asked.model_flash_bytes();
    let scale = flash as f64 / asked.flash_bytes as f64;
    let dram = (asked.dram_bytes as f64 * scale).round() as u64;
    if dram < DRAM_MIN {
        return Err(Error::usage(format!(
            "--dram {}: is {dram} bytes at the scale of the model, and no object fits; use at \
             least {}{}",
            asked.dram_bytes,
            (DRAM_MIN as f64 / scale).ceil() as u64,
            fit::least_simulated(asked)
                .map_or(String::new(), |bytes| format!(", or --simulate {}", fit::size(bytes)))
        )));
    }
    let options = asked.replay(flash, dram, PILOT_REQUESTS.0);
    options.check()?;
    check_fit(asked, &options)?;
    Ok((scale, options))
}

/// Size of the large object that the average byte of large objects belongs to, and mean size of small ones. Refuses a
/// workload with hardly any large objects: it could not age the drive, and there would be only one stream.
#[allow(clippy::cast_precision_loss)] // some bytes
fn object_bytes(options: &ReplayOptions) -> Result<(f64, f64), Error> {
    let mut source = options.open_workload()?;
    let (mut seen, mut large_bytes, mut largest) = (0_u64, 0_u64, 0_u64);
    let (mut small, mut small_bytes) = (0_u64, 0_u64);
    let mut squares = 0.0;
    while seen < LOOK {
        let Some(request) = source.next_request()? else { break };
        seen += 1;
        if request.op != Op::Delete {
            let bytes = request.object_bytes();
            largest = largest.max(bytes);
            if bytes > u64::from(options.soc_max_object_bytes) {
                large_bytes += bytes;
                squares += bytes as f64 * bytes as f64;
            } else {
                small += 1;
                small_bytes += bytes;
            }
        }
    }
    if seen == 0 {
        return Err(Error::run(format!("{}: has no requests", options.workload)));
    }
    let per_request = large_bytes as f64 / seen as f64;
    if options.flash_bytes as f64 * AGEING_WRITES > per_request * AGEING_MAX {
        return Err(Error::usage(format!(
            "--soc-max-object {}: {} has hardly an object above it (the largest is {largest} \
             bytes), so there would be one stream only; use a smaller --soc-max-object",
            options.soc_max_object_bytes, options.workload
        )));
    }
    Ok((squares / large_bytes as f64, small_bytes as f64 / small.max(1) as f64))
}

/// Number of available requests, at most `most`.
fn available(options: &ReplayOptions, most: u64) -> Result<u64, Error> {
    if matches!(options.workload, Workload::Preset(_)) {
        return Ok(most);
    }
    let mut source = options.open_workload()?;
    let mut count = 0;
    while count < most && source.next_request()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Number of requests after which the load, and DLWA without placement, have settled. Begins with enough requests to
/// write the drive over often enough, then doubles their number until both have settled.
fn enough(options: &ReplayOptions, available: u64, monitor: &Monitor) -> Result<u64, Error> {
    let most = available.min(*REQUESTS.end());
    let mut requests = first_guess(options, most, monitor)?;
    while requests < most {
        let options = ReplayOptions { requests: Some(requests), ..options.clone() };
        if measured::measure_replay(&options, false, monitor)?.is_settled() {
            break;
        }
        requests = (requests * 2).min(most);
    }
    Ok(requests)
}

/// Number of requests that write the drive over often enough, estimated from a short run.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn first_guess(options: &ReplayOptions, most: u64, monitor: &Monitor) -> Result<u64, Error> {
    let drive = options.flash_bytes as f64;
    let mut pilot = PILOT_REQUESTS.0.min(most);
    loop {
        let options = ReplayOptions { requests: Some(pilot), ..options.clone() };
        let per_request = measured::host_bytes_per_request(&options, monitor)?;
        let written = per_request * pilot as f64;
        if written >= drive || pilot >= PILOT_REQUESTS.1.min(most) {
            let wanted = (drive * DRIVE_WRITES / per_request) as u64; // the most if it is infinite
            return Ok(wanted.clamp(*REQUESTS.start(), *REQUESTS.end()).min(most));
        }
        pilot = (pilot * 4).min(most);
    }
}
