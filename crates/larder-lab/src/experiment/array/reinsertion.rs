//! The gain and the cost of reinsertion: objects that were read are written again when their region is reclaimed.

use larder::ArrayConfig;

use super::placement::array_alone;
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::{highest, lowest};
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::{Monitor, PlacementRuns, ReplayOptions, Run, replay};

const FLASH: Parameter = Parameter {
    name: "flash_mib",
    default: "256",
    help: "capacity of the drive in MiB, 64 to 65536, all of it the cache's",
};
const RECORDS: Parameter = Parameter {
    name: "records",
    default: "16000",
    help: "different objects of 32 KiB that are asked for, 1000 to 1000000000: the drive has room for half of them",
};
const REQUESTS: Parameter = Parameter {
    name: "requests",
    default: "300000",
    help: "requests of a run, of which the second half counts",
};

const LAWS: [&str; 3] = ["hotspot", "zipf", "uniform"];
const SETS: u32 = 5;
const VALUE_BYTES: u32 = 32 << 10;
const ARMS: [(&str, bool); 2] = [("on", true), ("off", false)];

pub(in crate::experiment) static ARRAY_REINSERTION: Experiment = Experiment {
    name: "array-reinsertion",
    title: "hit ratio and write amplification of the array engine, with and without writing again what was asked for",
    reproduces: "BigKV (EuroSys'23): hot objects are appended again when their region is reclaimed",
    criterion: "a higher hit ratio with a hot fifth and by Zipf's law; half of what is written reinserted at most; the \
                parts of ALWA are the whole",
    parameters: &[FLASH, RECORDS, REQUESTS],
    metrics: &[
        ("hit.*", "GETs that found a value, with (on) and without (off), by law"),
        ("hit_gain.*", "hit ratio with by that without"),
        ("alwa.*", "bytes that the cache wrote by bytes of objects that went to flash"),
        (
            "data_alwa.*",
            "of these: records that were new, and ends of regions, by the same bytes of objects",
        ),
        ("reinserted_alwa.*", "of these: objects that were written again"),
        ("index_alwa.*", "of these: tables of the index"),
        ("metadata_alwa.*", "of these: label and snapshot"),
    ],
    references: &[],
    needs: &["hit.on.zipf", "hit.off.zipf", "hit.on.hotspot", "hit.off.hotspot"],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let flash_bytes = settings.within::<u64>(FLASH.name, 64..=65_536)? << 20;
    let records: u64 = settings.within(RECORDS.name, 1000..=1_000_000_000)?;
    let requests: u64 = settings.within(REQUESTS.name, 1000..=1_000_000_000)?;
    let mut metrics = Metrics::new();
    for law in LAWS {
        let workload = format!("{law}:records={records},sets={SETS},bytes={VALUE_BYTES}");
        let base = array_alone(&workload, flash_bytes, seed);
        for (arm, reinsertion) in ARMS {
            let options = ReplayOptions {
                requests: Some(requests),
                placement: PlacementRuns::On,
                array: ArrayConfig { reinsertion, ..base.array.clone() },
                ..base.clone()
            };
            for run in replay(&options, monitor)?.runs {
                if run.interrupted {
                    return Err(Error::run("interrupted"));
                }
                note(&mut metrics, &format!("{arm}.{law}"), &run);
            }
        }
        let hit = |arm: &str| metrics[&format!("hit.{arm}.{law}")];
        let gain = hit("on") / hit("off");
        metrics.insert(format!("hit_gain.{law}"), gain);
    }
    Ok(metrics)
}

#[allow(clippy::cast_precision_loss)]
fn note(metrics: &mut Metrics, point: &str, run: &Run) {
    metrics.insert(format!("hit.{point}"), run.hit_ratio);
    let (Some(alwa), Some(array)) = (run.alwa, run.array) else { return };
    let admitted_bytes = run.host_bytes as f64 / alwa;
    let of_objects = |bytes: u64| bytes as f64 / admitted_bytes;
    let values = [
        ("alwa", alwa),
        ("data_alwa", of_objects(array.data_bytes.saturating_sub(array.reinserted_bytes))),
        ("reinserted_alwa", of_objects(array.reinserted_bytes)),
        ("index_alwa", of_objects(array.index_written_bytes)),
        ("metadata_alwa", of_objects(run.metadata_bytes)),
    ];
    metrics.extend(values.map(|(name, value)| (format!("{name}.{point}"), value)));
}

fn judge(summary: &Summary) -> Judgement {
    let of = |metric: &str, point: &str| summary.mean(&format!("{metric}.{point}"));
    let points = LAWS.map(|law| ARMS.map(|(arm, _)| format!("{arm}.{law}")));
    let off = |point: &String| {
        let parts = ["data_alwa", "reinserted_alwa", "index_alwa", "metadata_alwa"];
        let sum: f64 = parts.iter().map(|part| of(part, point)).sum();
        (sum / of("alwa", point) - 1.0).abs()
    };
    let worst = highest(points.as_flattened().iter().map(off));
    let again = highest(LAWS.map(|law| {
        let point = format!("on.{law}");
        of("reinserted_alwa", &point) / of("alwa", &point)
    }));
    let gains = ["hotspot", "zipf"]
        .map(|law| of("hit", &format!("on.{law}")) / of("hit", &format!("off.{law}")));
    Checks::default()
        .shape(
            lowest(gains) > 1.0,
            format!(
                "hit ratio {:.3} times with a hot fifth, {:.3} by Zipf's law",
                gains[0], gains[1]
            ),
        )
        .exact(
            again <= 0.5,
            format!("{:.0} % of what is written was written before", again * 100.0),
        )
        .exact(worst <= 0.01, "data, reinsertion, index and metadata are what was written")
        .judge()
}
