//! Several tenants on one drive: caches with their own handles, caches with too few handles, and caches next to a
//! neighbour that writes at random.

use std::sync::Arc;

use larder::plan::{self, Class};
use larder::{Config, SocConfig};
use larder_device::{Device, Io, IoBuffer, ModelDevice, PlacementHandle, SliceDevice};
use larder_ssd::managed::PAGE_BYTES;

use super::judge::{Checks, NEXT_TO_NONE, SAME, published};
use super::measured::{highest, lowest};
use super::rig::{self, DRIFT, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::shared::{self, SharedRun, Tenant};
use crate::replay::{Monitor, ReplayOptions};

/// In the order in which a cache numbers the handles.
const STREAMS: [Class; 2] = [Class::Soc, Class::Loc];
/// Requests of the KV cache for each request of Twitter's, as in the authors' slides: 387 thousand a second against 25.
const KV_PER_TWITTER: u64 = 15;

/// A setting of the experiment.
struct Setting {
    point: &'static str,
    /// Workload of each tenant.
    presets: &'static [&'static str],
    /// Handles of the drive, including the default.
    handles: u16,
    /// Requests that each tenant makes in its turn.
    per_turn: &'static [u64],
    /// Number of turns, in percent of the requested number. Fewer turns are enough if a turn writes more.
    turns_percent: u64,
}

const SETTINGS: [Setting; 5] = [
    Setting { point: "identical", handles: 8, ..writers(&["meta-kv-write-only"; 2]) },
    Setting {
        point: "different",
        presets: &["meta-kv", "twitter-c12"],
        handles: 8,
        per_turn: &[KV_PER_TWITTER, 1],
        turns_percent: 40,
    },
    Setting { point: "four", handles: 9, ..writers(&["meta-kv-write-only"; 4]) },
    Setting { point: "one_short", handles: 8, ..writers(&["meta-kv-write-only"; 4]) },
    Setting { point: "half_short", handles: 5, ..writers(&["meta-kv-write-only"; 4]) },
];

/// How handles are assigned.
#[derive(Clone, Copy)]
enum Sharing {
    /// By a plan for all tenants.
    Solved,
    /// In the order of the tenants. When none is left, the default handle is used.
    FirstCome,
}

const fn writers(presets: &'static [&'static str]) -> Setting {
    Setting { point: "", presets, handles: 0, per_turn: &[1; 4], turns_percent: 100 }
}

pub(super) static TENANTS: Experiment = Experiment {
    name: "tenants",
    title: "DLWA when several caches share a drive, with enough handles and with too few",
    reproduces: "FDP paper (EuroSys'25), Figure 11: two tenants with WO KV Cache; the authors' \
                 slides: KV Cache beside Twitter's",
    criterion: "with enough handles on 1 to 1.05 for each seed, and off within 15 % of the paper's; with \
                half of them, nothing fails, DLWA is above 1.05 if handles go to the first caches \
                and the default serves the others, and no higher if the plan decides which streams share",
    parameters: &[rig::REQUESTS_OF_WRITERS, rig::FLASH],
    metrics: &[
        (
            "dlwa.on.*",
            "DLWA of the drive with placement: identical and different (2 tenants, 8 \
          handles), four (4 tenants, 9 handles), one_short (8 handles), half_short (5 handles)",
        ),
        ("dlwa.off.*", "DLWA without: identical, different, four"),
        (
            "dlwa.first_come.*",
            "DLWA where handles are given out in the order of the tenants and the default serves \
             when none is left: one_short, half_short",
        ),
        ("fallen_back.*", "streams that got the default handle that way"),
        ("shared.*", "streams that share a handle by the plan"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("dlwa.on.identical", 1.0, "Figure 11, \"~1\""),
        Reference::published("dlwa.off.identical", 3.5, "Figure 11"),
        Reference::published("dlwa.on.different", 1.0, "slides"),
        Reference::published("dlwa.off.different", 3.5, "slides"),
    ],
    needs: &[
        "dlwa.on.identical",
        "dlwa.on.different",
        "dlwa.on.four",
        "dlwa.on.one_short",
        "dlwa.on.half_short",
        "dlwa.off.identical",
        "dlwa.off.different",
        "dlwa.off.four",
        "dlwa.first_come.half_short",
        "fallen_back.half_short",
        "shared.half_short",
    ],
    measure: measure_tenants,
    judge: judge_tenants,
};

pub(super) static NOISY_HANDLE: Experiment = Experiment {
    name: "noisy-handle",
    title: "a neighbour that writes at random, on a handle of its own",
    reproduces: "WARP (FAST'26): CacheLib, SOC 40 %, beside a noisy tenant",
    criterion: "with placement DLWA of the drive rises with the neighbour's writes although it has its \
                own handle, by half to twice as much as in WARP; all four within 15 % of WARP's; \
                placement lowers DLWA, quiet and noisy",
    parameters: &[
        rig::REQUESTS,
        rig::FLASH,
        Parameter { name: "soc", default: "40", help: "SOC of the cache, percent" },
        Parameter {
            name: "neighbour",
            default: "10",
            help: "share of the drive that is the neighbour's, percent, 1 to 50",
        },
        Parameter {
            name: "rate",
            default: "1",
            help: "bytes that the neighbour writes for each byte of the cache, 0.01 to 100",
        },
    ],
    metrics: &[
        ("dlwa.on.quiet", "DLWA of the drive with placement; the neighbour filled its part once"),
        ("dlwa.on.noisy", "the same; it writes on"),
        ("dlwa.off.quiet", "DLWA without placement, quiet"),
        ("dlwa.off.noisy", "the same; the neighbour writes on"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("dlwa.on.quiet", 1.616, "WARP's logs, last 20 %"),
        Reference::published("dlwa.on.noisy", 1.937, "WARP's logs, \"10x1\""),
        Reference::published("dlwa.off.quiet", 2.925, "WARP's logs, last 20 %"),
        Reference::published("dlwa.off.noisy", 3.425, "WARP's logs"),
    ],
    needs: &["dlwa.on.quiet", "dlwa.on.noisy", "dlwa.off.quiet", "dlwa.off.noisy"],
    measure: measure_noisy,
    judge: judge_noisy,
};

fn measure_tenants(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let mut metrics = Metrics::new();
    for setting in &SETTINGS {
        let run =
            |sharing, placement| together(setting, sharing, placement, settings, seed, monitor);
        let point = setting.point;
        if usize::from(setting.handles) > setting.presets.len() * STREAMS.len() {
            let solved = |placement| Ok(run(Sharing::Solved, placement)?.0);
            for (placement, run) in rig::with_and_without(solved)? {
                rig::note(&mut metrics, placement, point, &run);
            }
        } else {
            let both = rig::with_and_without(|solved| {
                run(if solved { Sharing::Solved } else { Sharing::FirstCome }, true)
            })?;
            let arms = [("on", "shared"), ("first_come", "fallen_back")];
            for ((arm, count), (_, (run, streams))) in arms.iter().zip(&both) {
                rig::note(&mut metrics, arm, point, run);
                metrics.insert(format!("{count}.{point}"), f64::from(*streams));
            }
        }
    }
    Ok(metrics)
}

/// Runs all tenants of a setting on equal parts of a drive. Also returns the number of streams that had to share a
/// handle or fall back to the default.
fn together(
    setting: &Setting,
    sharing: Sharing,
    placement: bool,
    settings: &Settings,
    seed: u64,
    monitor: &Monitor,
) -> Result<(SharedRun, u32), Error> {
    let count = setting.presets.len() as u64;
    let whole = rig::options("meta-kv", settings, seed)?;
    let drive = shared::drive(&whole, placement, setting.handles)?;
    let part = whole.flash_bytes / count / PAGE_BYTES * PAGE_BYTES;
    let (handles, compromised) = match sharing {
        Sharing::Solved => solved(&drive, setting.presets.len(), part, whole.soc_percent)?,
        Sharing::FirstCome => first_come(&drive, setting.presets.len()),
    };
    let mut handles = handles.into_iter();
    let mut tenants = Vec::new();
    for ((number, preset), &requests_per_turn) in (0..).zip(setting.presets).zip(setting.per_turn) {
        let start = part * number;
        let own = handles.next().unwrap_or_default();
        let device = slice(&drive, start..start + part, &own)?;
        let options = rig::options(preset, settings, seed + number)?;
        // Each tenant makes its part of the requests, so the drive is written as often as with one tenant.
        let turns = options.requests.unwrap_or(0) / count * setting.turns_percent / 100;
        let requests = turns.max(1) * requests_per_turn;
        let options = ReplayOptions {
            requests: Some(requests),
            flash_bytes: part,
            dram_bytes: whole.dram_bytes / count,
            ..options
        };
        tenants.push(Tenant { requests_per_turn, ..Tenant::new(options, Arc::new(device)) });
    }
    let run = shared::play(&drive, &tenants, placement, &mut |_| Ok(()), monitor)?;
    Ok((run, compromised))
}

/// A handle for each stream of each tenant.
type Handles = Vec<Vec<PlacementHandle>>;

/// The handles of the plan for `tenants` tenants with equal parts.
fn solved(
    drive: &ModelDevice,
    tenants: usize,
    part: u64,
    soc_percent: f64,
) -> Result<(Handles, u32), Error> {
    let names: Vec<String> = (0..tenants).map(|number| number.to_string()).collect();
    let config = Config {
        soc: SocConfig { percent: Some(soc_percent), ..SocConfig::default() },
        ..Config::default()
    };
    let parts: Vec<_> = names.iter().map(|name| (name.as_str(), config.clone(), part)).collect();
    let plan = plan::plan(&parts, drive.info()).map_err(|error| Error::run(error.to_string()))?;
    let of = |name: &String| STREAMS.map(|class| plan.handle_of(name, class)).to_vec();
    let shared = plan.streams().iter().filter(|stream| stream.why == plan::Why::TooFewHandles);
    Ok((names.iter().map(of).collect(), u32::try_from(shared.count()).unwrap_or(u32::MAX)))
}

/// Gives each stream the next free handle, or else the default.
fn first_come(drive: &ModelDevice, tenants: usize) -> (Handles, u32) {
    let mut left = (1..drive.info().placement.handles).map(PlacementHandle::new);
    let mut fallen_back = 0;
    let mut next = || {
        left.next().unwrap_or_else(|| {
            fallen_back += 1;
            PlacementHandle::DEFAULT
        })
    };
    let handles = (0..tenants).map(|_| STREAMS.map(|_| next()).to_vec()).collect();
    (handles, fallen_back)
}

/// A part of the drive with these handles, one for each stream.
fn slice(
    drive: &Arc<ModelDevice>,
    range: std::ops::Range<u64>,
    handles: &[PlacementHandle],
) -> Result<SliceDevice<Arc<ModelDevice>>, Error> {
    let slice = SliceDevice::new(Arc::clone(drive), range, handles);
    slice.map_err(|error| Error::run(error.to_string()))
}

fn judge_tenants(summary: &Summary) -> Judgement {
    let enough = ["identical", "different", "four"];
    let on = highest(enough.map(|point| summary.max(&format!("dlwa.on.{point}"))));
    let least = lowest(enough.map(|point| summary.min(&format!("dlwa.on.{point}"))));
    let paper = TENANTS.references;
    let off = lowest(enough.map(|point| summary.mean(&format!("dlwa.off.{point}"))));
    let [identical, different, _] = enough.map(|point| summary.mean(&format!("dlwa.off.{point}")));
    let four = summary.mean("dlwa.on.four");
    let (one, half) = (summary.mean("dlwa.on.one_short"), summary.mean("dlwa.on.half_short"));
    let first_come = summary.mean("dlwa.first_come.half_short");
    let fallen = summary.mean("fallen_back.half_short");
    let shared = summary.mean("shared.half_short");
    Checks::default()
        .exact(
            NEXT_TO_NONE.contains(&least) && NEXT_TO_NONE.contains(&on),
            format!("on is {least:.3} to {on:.3} with enough handles"),
        )
        .near("off, identical", identical, paper, "dlwa.off.identical", SAME)
        .near("off, different", different, paper, "dlwa.off.different", SAME)
        .exact(
            first_come > 1.05 && fallen >= 1.0,
            format!(
                "{first_come:.2} with {fallen} streams on the default handle, {four:.3} with none"
            ),
        )
        .exact(
            half <= first_come && shared >= 1.0,
            format!("{half:.3} where the plan has {shared} streams share as many handles"),
        )
        .shape(on < off, "placement lowers DLWA")
        .note(format!("with one handle too few, shared by plan, on is {one:.3}"))
        .judge()
}

fn measure_noisy(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let rate = settings.within("rate", 0.01..=100.0)?;
    let mut metrics = Metrics::new();
    for (point, rate) in [("quiet", 0.0), ("noisy", rate)] {
        let runs = rig::with_and_without(|placement| {
            beside_neighbour(rate, placement, settings, seed, monitor)
        })?;
        for (placement, run) in &runs {
            rig::note(&mut metrics, placement, point, run);
        }
    }
    Ok(metrics)
}

fn beside_neighbour(
    rate: f64,
    placement: bool,
    settings: &Settings,
    seed: u64,
    monitor: &Monitor,
) -> Result<SharedRun, Error> {
    let soc_percent = settings.within("soc", 1.0..=99.0)?;
    let neighbour = settings.within("neighbour", 1.0..=50.0)?;
    let options = rig::options("meta-kv", settings, seed)?;
    let options = ReplayOptions { soc_percent, ..options };
    let drive = shared::drive(&options, placement, shared::HANDLES)?;
    let end = drive.info().capacity_bytes;
    let start = page_at(end, 1.0 - neighbour / 100.0);
    let placed = |number| PlacementHandle::new(if placement { number } else { 0 });
    let device = slice(&drive, 0..start, &[placed(1), placed(2)])?;
    let tenant = Tenant::new(options, Arc::new(device));
    let handle = placed(3);
    let mut neighbour = Neighbour::new(&drive, start..end, handle, rate, seed)?;
    shared::play(&drive, &[tenant], placement, &mut |host| neighbour.keep_up(host), monitor)
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn page_at(bytes: u64, share: f64) -> u64 {
    (bytes as f64 * share) as u64 / PAGE_BYTES * PAGE_BYTES
}

/// A neighbour that writes random pages of its part of the drive.
struct Neighbour<'a> {
    drive: &'a ModelDevice,
    range: std::ops::Range<u64>,
    handle: PlacementHandle,
    rng: fastrand::Rng,
    /// Bytes that it writes for each byte of the others.
    rate: f64,
    /// Host bytes of the drive when it began; `None` before that.
    began: Option<u64>,
    written: u64,
}

impl<'a> Neighbour<'a> {
    /// Fills its part of the drive once.
    fn new(
        drive: &'a ModelDevice,
        range: std::ops::Range<u64>,
        handle: PlacementHandle,
        rate: f64,
        seed: u64,
    ) -> Result<Self, Error> {
        let rng = fastrand::Rng::with_seed(seed);
        let this = Self { drive, range, handle, rng, rate, began: None, written: 0 };
        let mut offsets = this.range.clone().step_by(usize::try_from(PAGE_BYTES).unwrap_or(4096));
        offsets.try_for_each(|offset| this.write(offset))?;
        Ok(this)
    }

    /// Writes until its share of `host_bytes`, the drive's host bytes, is reached.
    #[allow(clippy::cast_precision_loss)]
    fn keep_up(&mut self, host_bytes: u64) -> Result<(), Error> {
        let began = *self.began.get_or_insert(host_bytes);
        let others = host_bytes - began - self.written;
        while (self.written as f64) < others as f64 * self.rate {
            let page = self.rng.u64(self.range.start / PAGE_BYTES..self.range.end / PAGE_BYTES);
            self.write(page * PAGE_BYTES)?;
            self.written += PAGE_BYTES;
        }
        Ok(())
    }

    fn write(&self, offset: u64) -> Result<(), Error> {
        let buffer = IoBuffer::zeroed(4096);
        let io = Io::write(offset, buffer, self.handle);
        self.drive.submit(io).wait().map_err(|failure| Error::run(failure.to_string()))?;
        Ok(())
    }
}

fn judge_noisy(summary: &Summary) -> Judgement {
    let mean = |placement: &str, point: &str| summary.mean(&format!("dlwa.{placement}.{point}"));
    let rise = |placement: &str| mean(placement, "noisy") / mean(placement, "quiet") - 1.0;
    let paper = NOISY_HANDLE.references;
    let published = published(paper, "dlwa.on.noisy") / published(paper, "dlwa.on.quiet") - 1.0;
    let lowered = |point: &str| mean("on", point) < mean("off", point);
    let mut checks = Checks::default()
        .shape(rise("on") > 0.0, "on rises with the neighbour's writes")
        .shape(lowered("quiet") && lowered("noisy"), "placement lowers DLWA")
        .exact(
            (published / 2.0..=published * 2.0).contains(&rise("on")),
            format!(
                "on rises by {:.0} %, WARP's by {:.0} %",
                rise("on") * 100.0,
                published * 100.0
            ),
        );
    for (placement, point) in [("on", "quiet"), ("on", "noisy"), ("off", "quiet"), ("off", "noisy")]
    {
        let metric = format!("dlwa.{placement}.{point}");
        let what = format!("{placement}, {point}");
        checks = checks.near(&what, mean(placement, point), paper, &metric, SAME);
    }
    checks.judge()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_neighbour_keeps_up_with_the_others() {
        let options = ReplayOptions::of_preset("meta-kv", 1);
        let drive = shared::drive(&options, true, shared::HANDLES).unwrap();
        let handle = PlacementHandle::new(3);
        let mut neighbour = Neighbour::new(&drive, 0..40 * 4096, handle, 0.5, 1).unwrap();
        let host = || drive.stats().host_written_bytes;
        let filled = host();
        neighbour.keep_up(filled).unwrap();
        assert_eq!((filled, host()), (40 * 4096, filled), "the cache has not written yet");
        // The others write a hundred pages.
        neighbour.keep_up(filled + 100 * 4096).unwrap();
        assert_eq!(host() - filled, 50 * 4096);
        assert_eq!(drive.stats().host_written_bytes_by_handle[3], 90 * 4096);
    }
}
