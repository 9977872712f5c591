//! Garbage collection for the same host bytes, with and without placement, and with wrongly tagged writes.

use std::sync::{Arc, Mutex, PoisonError};

use larder_device::{CheckedIo, Device, DeviceInfo, DeviceStats, Io, IoFuture, PlacementHandle};

use super::judge::{Checks, NEXT_TO_NONE, SAME};
use super::rig::{self, DLWA_ON, DRIFT, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::Error;
use crate::replay::Monitor;
use crate::replay::shared::{self, Tenant};

/// The paper's DLWA of the KV Cache on a full drive without placement. Swapping half of the handles amounts to that.
const WITHOUT_PLACEMENT: f64 = 3.5;

/// Pages copied for 1000 written with placement, as the DLWA that counts as [next to none](NEXT_TO_NONE) has them.
const COPIED_ON: std::ops::RangeInclusive<f64> = 0.0..=50.0;

pub(super) static GC_EVENTS: Experiment = Experiment {
    name: "gc-events",
    title: "erases and copied pages for the same host bytes",
    reproduces: "FDP paper (EuroSys'25), Figure 10: KV Cache, 100 % utilisation",
    criterion: "pages copied without placement within 15 % of what the paper's DLWA makes of the host's \
                writes, with it at most 50 for 1000 written (DLWA 1.05); DLWA off / on within 15 % of its 3.4; \
                relocation events off / on within 15 % of its 3.6; the host wrote the same",
    parameters: &[
        Parameter {
            name: "requests",
            default: "16000000",
            help: "requests of a run: four times those of other experiments, as the drive is",
        },
        Parameter {
            name: "flash_mib",
            default: "512",
            help: "capacity of the drive in MiB, 8 to 65536; DRAM is a 32nd of it; units must be \
                   so large that hardly one is all dead when it is reclaimed",
        },
    ],
    metrics: &[
        ("dlwa.on", "DLWA with placement"),
        ("dlwa.off", "DLWA without"),
        ("erases.on", "units erased per 1000 units that the host wrote, with placement"),
        ("erases.off", "the same without"),
        (
            "copied_pages.on",
            "pages copied per 1000 pages that the host wrote, with placement; these do not depend on the \
             size of units, and relocations do",
        ),
        ("copied_pages.off", "the same without"),
        ("relocations.on", "units copied from per 1000 units that the host wrote, with placement"),
        ("relocations.off", "the same without"),
        ("host_pages.on", "pages that the host wrote, with placement"),
        ("host_pages.off", "the same without: equal, as the cache does the same"),
        ("relocation_ratio", "relocations.off / relocations.on"),
        ("erase_ratio", "erases.off / erases.on: what is written is erased, so it is dlwa_ratio"),
        ("dlwa_ratio", "dlwa.off / dlwa.on"),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[
        Reference::published("relocation_ratio", 3.6, "Figure 10b, Media Relocated events"),
        Reference::derived("dlwa_ratio", 3.4, "Figure 6: 3.5 / 1.03"),
        Reference::derived(
            "copied_pages.off",
            2500.0,
            "Figure 6: DLWA of 3.5, so 2.5 copied for one written",
        ),
    ],
    needs: &[
        "relocation_ratio",
        "erase_ratio",
        "dlwa_ratio",
        "copied_pages.on",
        "copied_pages.off",
        "host_pages.on",
        "host_pages.off",
        "relocations.on",
        "relocations.off",
    ],
    measure: measure_events,
    judge: judge_events,
};

pub(super) static MISLABELLED: Experiment = Experiment {
    name: "mislabelled",
    title: "DLWA when a share of the writes carries the other engine's handle",
    reproduces: "sanity of the model; misclassified streams in WARP (FAST'26)",
    criterion: "DLWA rises with the share of swapped handles: 1 to 1.05 with none, with half of them \
                between half of the paper's 3.5 without placement and 15 % more than that",
    parameters: &[
        rig::REQUESTS,
        rig::FLASH,
        Parameter {
            name: "swapped",
            default: "0,10,50",
            help: "shares of the writes, percent, separated by commas",
        },
    ],
    metrics: &[DLWA_ON, SOC_SHARE, DRIVE_WRITES, LOC_WRAPS, DRIFT],
    references: &[],
    needs: &["dlwa.on.0", "dlwa.on.10", "dlwa.on.50"],
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
    // Counts none as one, so the ratio is a lower bound.
    let one_unit = unit_pages as f64 * 1000.0 / metrics["host_pages.on"];
    let ratio = |name: &str| metrics[&format!("{name}.off")] / metrics[&format!("{name}.on")];
    let ratios = [
        ("relocation_ratio", metrics["relocations.off"] / metrics["relocations.on"].max(one_unit)),
        ("erase_ratio", ratio("erases")),
        ("dlwa_ratio", ratio("dlwa")),
    ];
    metrics.extend(ratios.map(|(name, value)| (name.to_owned(), value)));
    Ok(metrics)
}

fn judge_events(summary: &Summary) -> Judgement {
    let mean = |name: &str| summary.mean(name);
    let (relocations, erases) = (mean("relocation_ratio"), mean("erase_ratio"));
    let paper = GC_EVENTS.references;
    let (copied_on, copied_off) = (mean("copied_pages.on"), mean("copied_pages.off"));
    Checks::default()
        .near("pages copied for 1000 written, off", copied_off, paper, "copied_pages.off", SAME)
        .exact(
            COPIED_ON.contains(&copied_on),
            format!("pages copied for 1000 written, on: {copied_on:.1}"),
        )
        .near("relocation events, times fewer", relocations, paper, "relocation_ratio", SAME)
        .near("DLWA, times less", mean("dlwa_ratio"), paper, "dlwa_ratio", SAME)
        .shape(copied_off > copied_on && erases > 1.0, "placement saves copies and erases")
        .shape(relocations > 1.0, "placement saves relocations")
        .shape((mean("host_pages.on") - mean("host_pages.off")).abs() < 1.0, "the host wrote the same")
        .note(format!(
            "for 1000 units written, {:.0} are copied from with placement and {:.0} without; an event \
             is one unit, however few its pages, so their number depends on the size of units; \
             erases: {erases:.2} times fewer",
            mean("relocations.on"),
            mean("relocations.off"),
        ))
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
    let (none, half) = (summary.mean("dlwa.on.0"), summary.mean("dlwa.on.50"));
    Checks::default()
        .shape(rises, format!("DLWA rises: {}", list.join(", ")))
        .exact(NEXT_TO_NONE.contains(&none), format!("{none:.3} with none swapped"))
        .exact(
            (WITHOUT_PLACEMENT * 0.5..=WITHOUT_PLACEMENT * (1.0 + SAME)).contains(&half),
            format!("{half:.2} with half swapped, {WITHOUT_PLACEMENT} published without placement"),
        )
        .judge()
}

/// A device that swaps the two handles of a cache on a share of the writes.
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
                let write = Io::write(page * 4096, buffer, handle);
                device.submit(write).wait().unwrap();
            }
            let by_handle = device.stats().host_written_bytes_by_handle;
            assert!(expected.contains(&(by_handle[1] / 4096)), "{share}: {by_handle:?}");
            assert_eq!(by_handle[0] + by_handle[1] + by_handle[2], 500 * 4096);
            assert_eq!(by_handle[0], 100 * 4096, "the default handle is never swapped");
        }
    }
}
