//! What a drive writes for the array engine when objects expire: with one placement handle for each lifetime group,
//! with one handle for all, and on blocks without a page map.

use larder::ArrayConfig;
use larder_vssd::Isolation;

use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::{Monitor, PlacementRuns, ReplayOptions, Run, Storage, VssdPlace, replay};

const FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "256",
    help: "capacity of the managed drive in MiB, 64 to 65536, all of it the cache's; the vSSD has as much flash, \
           over-provisioning included",
};
const OP: Parameter = Parameter {
    name: "op",
    default: "17",
    help: "over-provisioning, percent of the logical capacity, 5 to 100",
};
const RECORDS: Parameter = Parameter {
    name: "records",
    default: "10000000",
    help: "different objects that are asked for, 1000 to 1000000000",
};
const RATE: Parameter =
    Parameter { name: "rate", default: "1", help: "requests a second, 1 to 1000000" };
const REQUESTS: Parameter = Parameter {
    name: "requests",
    default: "1250000",
    help: "requests of a run, of which the second half counts",
};

/// Ratio of flash to DRAM.
const FLASH_PER_DRAM: u64 = 32;

pub(in crate::experiment) static ARRAY_PLACEMENT: Experiment = Experiment {
    name: "array-placement",
    title: "DLWA of the array engine when objects expire: by groups on handles, on one handle, on blocks of a vSSD",
    reproduces: "BigKV (EuroSys'23) on FDP's handles (EuroSys'25) and on FlashBlox's blocks (FAST'17), which none of \
                them has",
    criterion: "on a full drive: DLWA at most 1.1 with handles for groups and tables, at most 1.05 on raw blocks; \
                higher with one handle for all",
    parameters: &[FLASH, OP, RECORDS, RATE, REQUESTS],
    metrics: &[
        (
            "dlwa.*",
            "DLWA by drive: fdp (handles for groups and tables), one (one handle for all), raw (blocks of a vSSD)",
        ),
        ("alwa.*", "bytes that the cache wrote by bytes of objects that went to flash"),
        ("hit.*", "GETs that found a value"),
        ("expired_share.*", "regions that were freed unread by all that were freed"),
        ("handles", "placement handles that groups and tables have"),
        ("drive_writes_before.*", "times that the drive was written over before the measurement"),
    ],
    references: &[],
    needs: &["dlwa.fdp", "dlwa.one", "dlwa.raw"],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let flash_bytes = settings.within::<u64>(FLASH.name, 64..=65_536)? << 20;
    let records: u64 = settings.within(RECORDS.name, 1000..=1_000_000_000)?;
    let rate: u64 = settings.within(RATE.name, 1..=1_000_000)?;
    let workload = format!("twitter-ttl:records={records},rate={rate},sets=0");
    let options = ReplayOptions {
        requests: Some(settings.within(REQUESTS.name, 1000..=1_000_000_000)?),
        flash_bytes,
        op_percent: settings.within(OP.name, 5.0..=100.0)?,
        placement: PlacementRuns::Both,
        ..array_alone(&workload, flash_bytes, seed)
    };
    let on_blocks = ReplayOptions {
        storage: Storage::Vssd(VssdPlace::Memory(Isolation::Channel)),
        placement: PlacementRuns::Off,
        ..options.clone()
    };
    let mut metrics = Metrics::new();
    for options in [options, on_blocks] {
        let is_raw = matches!(options.storage, Storage::Vssd(_));
        for run in replay(&options, monitor)?.runs {
            if run.interrupted {
                return Err(Error::run("interrupted"));
            }
            let drive = match (is_raw, run.placement) {
                (true, _) => "raw",
                (false, "on") => "fdp",
                (false, _) => "one",
            };
            note(&mut metrics, drive, &run);
        }
    }
    Ok(metrics)
}

/// A cache whose whole flash belongs to the array engine.
pub(super) fn array_alone(workload: &str, flash_bytes: u64, seed: u64) -> ReplayOptions {
    ReplayOptions {
        flash_bytes,
        dram_bytes: flash_bytes / FLASH_PER_DRAM,
        soc_percent: 0.0,
        array: ArrayConfig {
            percent: 100.0,
            mean_object_bytes: 32 << 10,
            ..ArrayConfig::default()
        },
        ..ReplayOptions::of_preset(workload, seed)
    }
}

#[allow(clippy::cast_precision_loss)]
fn note(metrics: &mut Metrics, drive: &str, run: &Run) {
    let values = [
        ("dlwa", run.dlwa),
        ("alwa", run.alwa),
        ("hit", Some(run.hit_ratio)),
        ("drive_writes_before", Some(run.drive_writes_before)),
        (
            "expired_share",
            run.array.map(|it| {
                let freed = it.expired_regions + it.reclaimed_regions;
                it.expired_regions as f64 / freed.max(1) as f64
            }),
        ),
    ];
    let known = values.into_iter().filter_map(|(name, value)| Some((name, value?)));
    metrics.extend(known.map(|(name, value)| (format!("{name}.{drive}"), value)));
    if drive == "fdp" {
        let mut handles: Vec<u16> = run.streams.iter().map(|stream| stream.handle).collect();
        handles.retain(|handle| *handle > 0);
        handles.sort_unstable();
        handles.dedup();
        metrics.insert("handles".to_owned(), handles.len() as f64);
    }
}

fn judge(summary: &Summary) -> Judgement {
    let dlwa = |drive: &str| summary.get(&format!("dlwa.{drive}"));
    let (fdp, one, raw) = (dlwa("fdp"), dlwa("one"), dlwa("raw"));
    Checks::default()
        .exact(fdp.max <= 1.1, format!("DLWA {:.3} with handles for groups and tables", fdp.mean))
        .exact(raw.max <= 1.05, format!("{:.3} on raw blocks", raw.mean))
        .shape(one.mean > fdp.mean, format!("{:.3} with one handle for all", one.mean))
        .judge()
}
