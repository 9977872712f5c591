//! The array engine's memory for each object on flash, by object size and flash size.

use std::sync::Arc;

use larder::{ArrayConfig, Larder, VirtualClock, block_on};
use larder_device::Payload;
use larder_device::model::virtual_time::{ShapedStorage, VirtualTimeDevice, shapes};

use super::engine::engine_alone;
use super::index::{ValueIndex, WholeIndex};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::highest;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Settings, Summary};
use crate::replay::Monitor;

const FLASH: Parameter = Parameter {
    name: "flash_gib",
    default: "16,64,256,1024",
    help: "capacities of the drive in GiB, each 1 to 16384; nothing is kept of what is written to it",
};
const OBJECTS: Parameter = Parameter {
    name: "object_kib",
    default: "4,32,1024",
    help: "mean sizes of objects in KiB, each 1 to 16384",
};

/// Bytes of flash for each byte of the index's budget (the paper's: 128 GB of DRAM for 1 PB).
const FLASH_PER_DRAM: u64 = 8192;
/// Bytes of a set. A table of 753 objects needs at least one set.
const SET_BYTES: u64 = 64;
const TABLE_OBJECTS: u64 = 753;
const GIB: u64 = 1 << 30;

pub(in crate::experiment) static ARRAY_MEMORY: Experiment = Experiment {
    name: "array-memory",
    title: "bytes of memory for each object of the array engine, beside an index that is whole in DRAM",
    reproduces: "BigKV (EuroSys'23): a petabyte's index in 128 GB of DRAM",
    criterion: "the index takes at most 10 % more than its budget of a byte for 8192 of flash, or of a set for each \
                table; with objects of 32 KiB less than the whole index",
    parameters: &[FLASH, OBJECTS],
    metrics: &[
        (
            "index_per_object.*",
            "bytes of the engine's index for each object that the flash has room for, by KiB of an object and GiB of \
             flash: entries, descriptors of tables, regions",
        ),
        (
            "all_per_object.*",
            "bytes of all that flash needs when the cache is opened; buffers and what is known of the dead come as \
             they are needed",
        ),
        ("whole_per_object.*", "bytes of an index that is whole in DRAM, 8 for each entry"),
        ("of_budget.*", "the engine's index by its budget (1 = as much)"),
    ],
    references: &[],
    needs: &["index_per_object.32.1024", "of_budget.32.1024", "whole_per_object.32.1024"],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let within = |name: &str, list: &[u64]| match list.iter().find(|it| !(1..=16_384).contains(*it))
    {
        Some(wrong) => Err(settings.refuse(name, &wrong.to_string(), "must be 1 to 16384")),
        None => Ok(()),
    };
    let (flash, objects) = (settings.list(FLASH.name)?, settings.list(OBJECTS.name)?);
    within(FLASH.name, &flash)?;
    within(OBJECTS.name, &objects)?;
    let mut metrics = Metrics::new();
    for &kib in &objects {
        for &gib in &flash {
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            note(&mut metrics, (kib, gib), seed)?;
        }
    }
    Ok(metrics)
}

#[allow(clippy::cast_precision_loss)]
fn note(metrics: &mut Metrics, (kib, gib): (u64, u64), seed: u64) -> Result<(), Error> {
    let (bytes, object_bytes) = (gib * GIB, kib << 10);
    let objects = bytes / object_bytes;
    let budget = (bytes / FLASH_PER_DRAM).max(objects.div_ceil(TABLE_OBJECTS) * SET_BYTES);
    let array = ArrayConfig {
        mean_object_bytes: u32::try_from(object_bytes).unwrap_or(u32::MAX),
        index_bytes: Some(budget),
        ..ArrayConfig::default()
    };
    let wrong = |error: String| Error::usage(format!("{gib} GiB: {error}"));
    let clock = Arc::new(VirtualClock::default());
    let storage =
        ShapedStorage::new(shapes::NVME_TLC, bytes).map_err(|it| wrong(it.to_string()))?;
    let device = VirtualTimeDevice::new(storage, Payload::None, Arc::clone(&clock));
    let device = Arc::new(device.map_err(|it| wrong(it.to_string()))?);
    let cache = block_on(Larder::open(engine_alone(array, seed), Some(device), clock));
    let stats = cache.map_err(|error| wrong(error.to_string()))?.stats();
    let each = |bytes: u64| bytes as f64 / objects as f64;
    let values = [
        ("index_per_object", each(stats.array_index_bytes)),
        ("all_per_object", each(stats.flash_memory_bytes)),
        ("whole_per_object", each(WholeIndex::new(objects).dram_bytes())),
        ("of_budget", stats.array_index_bytes as f64 / budget as f64),
    ];
    metrics.extend(values.map(|(name, value)| (format!("{name}.{kib}.{gib}"), value)));
    Ok(())
}

fn judge(summary: &Summary) -> Judgement {
    let of = |prefix: &str| -> Vec<f64> {
        let all = summary.iter().filter(|(name, _)| name.starts_with(prefix));
        all.map(|(_, it)| it.max).collect()
    };
    let over = highest(of("of_budget."));
    let (engine, whole) =
        (highest(of("index_per_object.32.")), highest(of("whole_per_object.32.")));
    Checks::default()
        .exact(over <= 1.1, format!("the index takes {over:.3} times its budget at most"))
        .shape(
            engine < whole,
            format!("objects of 32 KiB: {engine:.2} bytes each, {whole:.2} of a whole index"),
        )
        .judge()
}
