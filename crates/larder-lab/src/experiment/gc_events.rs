//! What garbage collection does for the same host bytes, and when writes are tagged wrongly.

use std::sync::{Arc, Mutex, PoisonError};

use larder_device::{CheckedIo, Device, DeviceInfo, DeviceStats, Io, IoFuture, PlacementHandle};

use super::judge::Checks;
use super::rig::{self, DLWA_ON, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, PaperValue, Parameter, Settings, Summary};
use crate::Error;
use crate::replay::Monitor;
use crate::replay::shared::{self, Tenant};

pub(super) static GC_EVENTS: Experiment = Experiment {
    name: "gc-events",
    title: "erases and copied pages for the same host bytes",
    reproduces: "FDP paper (EuroSys'25), Figure 10: KV Cache, 100 % utilisation",
    criterion: "erases off / on = DLWA off / on within 10 %, and >= 2.5",
    parameters: &[rig::REQUESTS, rig::FLASH],
    metrics: &[
        ("dlwa.on", "DLWA with placement"),
        ("dlwa.off", "DLWA without"),
        ("erases.on", "units erased per 1000 units that the host wrote, with placement"),
        ("erases.off", "the same without"),
        ("copied_pages.on", "pages copied per 1000 pages that the host wrote, with placement"),
        ("copied_pages.off", "the same without"),
        ("relocations.on", "units copied from per 1000 units that the host wrote, with placement"),
        ("relocations.off", "the same without"),
        ("host_pages.on", "pages that the host wrote, with placement"),
        ("host_pages.off", "the same without: equal, as the cache does the same"),
        ("erase_ratio", "erases.off / erases.on"),
        ("dlwa_ratio", "dlwa.off / dlwa.on"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
    ],
    paper: &[
        PaperValue { metric: "erase_ratio", value: 3.6, source: "Figure 10b, as events" },
        PaperValue { metric: "dlwa_ratio", value: 3.4, source: "Figure 6: 3.5 / 1.03" },
    ],
    measure: measure_events,
    judge: judge_events,
};

pub(super) static MISLABELLED: Experiment = Experiment {
    name: "mislabelled",
    title: "DLWA when a share of the writes carries the other engine's handle",
    reproduces: "sanity of the model; misclassified streams in WARP (FAST'26)",
    criterion: "DLWA rises with the share of swapped handles",
    parameters: &[
        rig::REQUESTS,
        rig::FLASH,
        Parameter {
            name: "swapped",
            default: "0,10,50",
            help: "shares of the writes, percent, separated by commas",
        },
    ],
    metrics: &[DLWA_ON, SOC_SHARE, DRIVE_WRITES, LOC_WRAPS],
    paper: &[],
    measure: measure_mislabelled,
    judge: judge_mislabelled,
};

#[allow(clippy::cast_precision_loss)]
fn measure_events(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let options = rig::options("meta-kv", settings, seed)?;
    let unit_pages = options.resolved_unit_bytes() / larder_ssd::managed::PAGE_BYTES;
    let mut metrics = Metrics::new();
    let runs = rig::with_and_without(|placement| rig::alone(&options, placement, monitor))?;
    for (placement, run) in &runs {
        rig::note_steadiness(&mut metrics, "100", run);
        let host = run.drive.host_pages as f64;
        let per_1000 = |count: u64, pages: u64| count as f64 * pages as f64 * 1000.0 / host;
        let events = [
            ("dlwa", run.drive.dlwa),
            ("erases", per_1000(run.drive.erased_units, unit_pages)),
            ("copied_pages", per_1000(run.drive.copied_pages, 1)),
            ("relocations", per_1000(run.drive.units_collected_with_copies, unit_pages)),
            ("host_pages", host),
        ];
        for (name, value) in events {
            metrics.insert(format!("{name}.{placement}"), value);
        }
    }
    let ratio = |name: &str| metrics[&format!("{name}.off")] / metrics[&format!("{name}.on")];
    let ratios = [("erase_ratio", ratio("erases")), ("dlwa_ratio", ratio("dlwa"))];
    metrics.extend(ratios.map(|(name, value)| (name.to_owned(), value)));
    Ok(metrics)
}

fn judge_events(summary: &Summary) -> Judgement {
    let (erases, dlwa) = (summary.mean("erase_ratio"), summary.mean("dlwa_ratio"));
    let host = (summary.mean("host_pages.on"), summary.mean("host_pages.off"));
    let copied = (summary.mean("copied_pages.on"), summary.mean("copied_pages.off"));
    Checks::default()
        .exact(
            (erases / dlwa - 1.0).abs() <= 0.1,
            format!("{erases:.2} times fewer erases, DLWA {dlwa:.2} times less"),
        )
        .exact(erases >= 2.5, "at least 2.5 times fewer")
        .shape((host.0 - host.1).abs() < 1.0, "the host wrote the same")
        .shape(erases > 1.0, "placement saves erases")
        .note(format!("pages copied for 1000 written: {:.0} on, {:.0} off", copied.0, copied.1))
        .judge()
}

fn measure_mislabelled(
    settings: &Settings,
    seed: u64,
    monitor: &Monitor,
) -> Result<Metrics, Error> {
    let options = rig::options("meta-kv", settings, seed)?;
    let mut metrics = Metrics::new();
    for swapped in settings.list::<f64>("swapped")? {
        if !(0.0..=100.0).contains(&swapped) {
            return Err(settings.refuse("swapped", &swapped.to_string(), "must be 0 to 100"));
        }
        let drive = shared::drive(&options, true, shared::HANDLES)?;
        let device = Mislabelling {
            device: Arc::clone(&drive),
            share: swapped / 100.0,
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
        };
        let tenant = Tenant::new(options.clone(), Arc::new(device));
        let run = shared::play(&drive, &[tenant], true, &mut |_| Ok(()), monitor)?;
        rig::note(&mut metrics, "on", &swapped.to_string(), &run);
    }
    Ok(metrics)
}

fn judge_mislabelled(summary: &Summary) -> Judgement {
    let on = summary.series("dlwa.on.");
    let rises = on.len() > 1 && on.windows(2).all(|pair| pair[1].1.mean > pair[0].1.mean);
    let list: Vec<_> =
        on.iter().map(|(share, spread)| format!("{:.3} at {share} %", spread.mean)).collect();
    Checks::default().shape(rises, format!("DLWA rises: {}", list.join(", "))).judge()
}

/// A device on which a share of the writes under one of the two handles of a cache carries the
/// other.
struct Mislabelling<D> {
    device: D,
    share: f64,
    rng: Mutex<fastrand::Rng>,
}

impl<D: Device> Device for Mislabelling<D> {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let mut io = io.into_inner();
        if let Io::Write { handle, .. } = &mut io
            && let Some(other) = other_handle(*handle)
        {
            let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
            if rng.f64() < self.share {
                *handle = other;
            }
        }
        self.device.submit(io)
    }

    fn stored_at(&self, range: std::ops::Range<u64>) -> Vec<larder_device::Extent> {
        self.device.stored_at(range)
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

/// The cache takes the first two handles after the default.
fn other_handle(handle: PlacementHandle) -> Option<PlacementHandle> {
    match handle.index() {
        1 => Some(PlacementHandle::new(2)),
        2 => Some(PlacementHandle::new(1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use larder_device::IoBuffer;

    use super::*;
    use crate::replay::ReplayOptions;

    #[test]
    fn only_the_share_that_was_asked_for_is_swapped() {
        for (share, expected) in [(0.0, 400..=400), (0.25, 260..=340), (1.0, 0..=0)] {
            let options = ReplayOptions::of_preset("meta-kv", 1);
            let drive = shared::drive(&options, true, shared::HANDLES).unwrap();
            let rng = Mutex::new(fastrand::Rng::with_seed(1));
            let device = Mislabelling { device: drive, share, rng };
            for page in 0..500 {
                let handle = PlacementHandle::new(if page < 400 { 1 } else { 0 });
                let buffer = IoBuffer::zeroed(4096);
                let write = Io::Write { offset: page * 4096, buffer, handle };
                device.submit(write).wait().unwrap();
            }
            let by_handle = device.stats().host_written_bytes_by_handle;
            assert!(expected.contains(&(by_handle[1] / 4096)), "{share}: {by_handle:?}");
            assert_eq!(by_handle[0] + by_handle[1] + by_handle[2], 500 * 4096);
            assert_eq!(by_handle[0], 100 * 4096, "the default handle is never swapped");
        }
    }
}
