//! What clients of drives see, by index: operations a second, and times.

mod setup;
mod verdict;

use larder::{ArrayConfig, Config};

use self::setup::{PARAMETERS, Place, Plan, VALUE_BYTES, Workload};
use super::clients::{ClientResult, Load, Times, play};
use super::engine::{array_of, engine_alone, play_engine};
use super::index::{
    CutIndex, EntryCache, HopscotchTable, Order, PagedTable, SlickIndex, ValueIndex, WholeIndex,
};
use super::shards::IN_FLIGHT_MAX;
use crate::Error;
use crate::experiment::{Experiment, Metrics, Reference, Settings};
use crate::replay::Monitor;

const INDEXES: [&str; 7] =
    ["entries", "udepot-cache", "slickcache", "udepot-opt", "paged", "whole", "cut"];
/// The engine, and its rule as a model.
const OURS: [&str; 2] = ["engine", "entries"];
const BASES: [&str; 5] = ["udepot-cache", "udepot-opt", "slickcache", "paged", "whole"];
/// Those of the paper that have no more DRAM than ours.
const CACHES: [&str; 2] = ["udepot-cache", "slickcache"];
/// A client's own time for each operation, without the drives.
const PAUSE_NS: f64 = 5000.0;

const PAPER: &str =
    "abstract: on average of YCSB and Twitter's traces, beside other key-value caches on SSDs";

const fn paper(metric: &'static str, value: f64) -> Reference {
    Reference::published(metric, value, PAPER)
}

pub(in crate::experiment) static ARRAY_THROUGHPUT: Experiment = Experiment {
    name: "array-throughput",
    title: "operations a second and times of drives with an index of large values, by index, at 1 byte of DRAM for \
            8192 of flash",
    reproduces: "BigKV (EuroSys'23): 3.1 times the throughput, mean and tail latency 57 % and 81 % lower",
    criterion: "the engine beside uDepot-Cache at the set-up of the artifact's script (a hot fifth, 3 % filled, one \
                drive): throughput, and what is left of the mean time and of p99 of GETs, each between two thirds and \
                1.5 times the paper's; everywhere at least 90 % of the throughput of its own rule as a \
                model; on a full drive no less throughput than uDepot-Cache and SlickCache with any workload",
    parameters: PARAMETERS,
    metrics: &[
        (
            "kops.*",
            "thousands of operations a second of all clients, by index (engine: the array engine itself; models: \
             entries, its rule; udepot-cache, udepot-opt, slickcache as BigKV's artifact builds them; paged: pages at \
             their best; whole; cut: the least used entry gives way), workload, percent filled, and drives",
        ),
        ("mean_us.*", "time of an operation, from the client's call to its answer, on average"),
        ("p99_us.*", "99 % of them take at most so long"),
        ("get_mean_us.*", "the same of GETs: on average"),
        ("get_p99_us.*", "99 % of them"),
        ("set_mean_us.*", "the same of SETs, until they are in memory: on average"),
        ("set_p99_us.*", "99 % of them"),
        ("hit.*", "GETs whose value the index found; clients store again what it does not"),
        (
            "throughput_gain.*",
            "throughput of the engine and of entries by that of another index, by workload, percent filled and drives; \
             average: mean over the workloads, beside udepot-cache and slickcache",
        ),
        ("mean_cut.*", "by how much the mean time of an operation is lower (1 = all)"),
        ("p99_cut.*", "the same of p99"),
        ("get_mean_cut.*", "the same of the mean time of a GET"),
        ("get_p99_cut.*", "the same of its p99"),
        ("of_entries.*", "throughput of the engine by that of its rule"),
    ],
    references: &[
        paper("throughput_gain.engine.udepot-cache.hotspot.3.1", 3.1),
        paper("get_mean_cut.engine.udepot-cache.hotspot.3.1", 0.57),
        paper("get_p99_cut.engine.udepot-cache.hotspot.3.1", 0.81),
    ],
    needs: &[
        "throughput_gain.engine.udepot-cache.hotspot.3.1",
        "get_mean_cut.engine.udepot-cache.hotspot.3.1",
        "get_p99_cut.engine.udepot-cache.hotspot.3.1",
        "of_entries.hotspot.3.1",
        "of_entries.hotspot.85.1",
        "throughput_gain.engine.udepot-cache.hotspot.85.1",
        "throughput_gain.entries.udepot-cache.hotspot.85.1",
        "throughput_gain.engine.slickcache.hotspot.85.1",
        "throughput_gain.entries.slickcache.hotspot.85.1",
    ],
    measure,
    judge: verdict::judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let plan = Plan::read(settings)?;
    let mut metrics = Metrics::new();
    for &place in &plan.places {
        for &workload in &plan.workloads {
            let load = Load {
                shards: place.shards,
                shard_bytes: place.shard_bytes,
                speed: plan.speed,
                value_bytes: VALUE_BYTES,
                records: place.values() * place.shards,
                clients: plan.clients * place.shards,
                ops: plan.ops,
                pause_ns: PAUSE_NS,
                workload: workload.generator,
                seed,
            };
            let point = format!("{}.{}.{}", workload.name, place.filled, place.shards);
            for index in indexes(place) {
                let make = || new(index, place, workload);
                let seen = play(load, place.tables(), make, monitor)?;
                note(&mut metrics, &format!("{index}.{point}"), &seen);
            }
            let seen = play_engine(load, config(load, place, workload), monitor)?;
            note(&mut metrics, &format!("engine.{point}"), &seen.clients);
            for ours in OURS {
                note_gains(&mut metrics, ours, &point);
            }
            let of = |index: &str| metrics[&format!("kops.{index}.{point}")];
            let kept = of("engine") / of("entries");
            metrics.insert(format!("of_entries.{point}"), kept);
        }
        for ours in OURS {
            note_average(&mut metrics, ours, &format!("{}.{}", place.filled, place.shards));
        }
    }
    Ok(metrics)
}

/// The models that are played: on several drives, only those that are compared with the paper's numbers.
fn indexes(place: Place) -> &'static [&'static str] {
    if place.shards == 1 { &INDEXES } else { &INDEXES[..3] }
}

/// The engine with the DRAM and the buffers of the models.
fn config(load: Load<'_>, place: Place, workload: Workload) -> Config {
    let array = array_of(load, place.dram_bytes());
    let array = ArrayConfig { ttl_groups: workload.has_ttls, ..array };
    Config { demoting_bytes_max: Some(IN_FLIGHT_MAX), ..engine_alone(array, load.seed) }
}

fn new(index: &str, place: Place, workload: Workload) -> Box<dyn ValueIndex> {
    let (objects, dram) = (place.values(), place.dram_bytes());
    match index {
        "entries" => Box::new(EntryCache::new(objects, dram)),
        "udepot-opt" => Box::new(HopscotchTable::whole(dram, workload.entry_bytes())),
        "udepot-cache" => Box::new(HopscotchTable::paged(dram, workload.entry_bytes())),
        "slickcache" => Box::new(SlickIndex::new(dram, place.table_bytes())),
        "paged" => Box::new(PagedTable::new(objects, dram)),
        "whole" => Box::new(WholeIndex::new(objects)),
        _ => Box::new(CutIndex::new(dram, Order::Lru)),
    }
}

fn note(metrics: &mut Metrics, point: &str, seen: &ClientResult) {
    let quantile = |times: &Times, share| times.quantile_us(share).unwrap_or(f64::NAN);
    metrics.insert(format!("kops.{point}"), seen.per_s() / 1000.0);
    metrics.insert(format!("hit.{point}"), seen.hit_ratio());
    for (kind, times) in [("", &seen.all), ("get_", &seen.gets), ("set_", &seen.sets)] {
        if times.quantile_us(0.99).is_some() {
            metrics.insert(format!("{kind}mean_us.{point}"), times.mean_us());
            metrics.insert(format!("{kind}p99_us.{point}"), quantile(times, 0.99));
        }
    }
}

/// Notes gains over the other indexes.
fn note_gains(metrics: &mut Metrics, ours: &str, point: &str) {
    let mut gains = Metrics::new();
    let played = |index: &&str| metrics.contains_key(&format!("kops.{index}.{point}"));
    for base in BASES.iter().filter(|base| played(base)) {
        let of = |metric: &str, index: &str| metrics[&format!("{metric}.{index}.{point}")];
        let name = format!("{ours}.{base}.{point}");
        let gain = of("kops", ours) / of("kops", base);
        gains.insert(format!("throughput_gain.{name}"), gain);
        for metric in ["mean", "p99", "get_mean", "get_p99"] {
            let us = format!("{metric}_us");
            let cut = 1.0 - of(&us, ours) / of(&us, base);
            gains.insert(format!("{metric}_cut.{name}"), cut);
        }
    }
    metrics.extend(gains);
}

/// Notes the mean over all workloads of the gains over the two caches whose index does not fit into DRAM.
#[allow(clippy::cast_precision_loss)]
fn note_average(metrics: &mut Metrics, ours: &str, place: &str) {
    for metric in ["throughput_gain", "mean_cut", "p99_cut"] {
        let end = format!(".{place}");
        let is_of = |name: &str| {
            let rest = name.strip_prefix(&format!("{metric}.{ours}."));
            rest.is_some_and(|rest| {
                rest.ends_with(&end) && CACHES.iter().any(|base| rest.starts_with(base))
            })
        };
        let of: Vec<f64> =
            metrics.iter().filter(|(name, _)| is_of(name)).map(|(_, &it)| it).collect();
        let mean = of.iter().sum::<f64>() / of.len() as f64;
        metrics.insert(format!("{metric}.{ours}.average.{place}"), mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(assignments: &[&str]) -> Metrics {
        let assignments: Vec<String> = assignments.iter().map(|&it| it.to_owned()).collect();
        let name = ARRAY_THROUGHPUT.name;
        let settings = Settings::new(name, ARRAY_THROUGHPUT.parameters, &assignments).unwrap();
        measure(&settings, 1, &Monitor::default()).unwrap()
    }

    #[test]
    fn an_index_costs_what_it_reads_and_a_run_is_a_function_of_its_seed() {
        let small = [
            "shards=1,2",
            "shard_mib=160",
            "clients=16",
            "ops=3000",
            "filled=85",
            "workloads=ycsb-b",
        ];
        let metrics = metrics(&small);
        let of = |metric: &str, index: &str| metrics[&format!("{metric}.{index}.ycsb-b.85.1")];
        let [entries, whole] = ["entries", "whole"].map(|index| of("get_mean_us", index));
        assert!(entries > whole && entries < 4.0 * whole, "{entries} {whole}");
        assert!(of("mean_us", "udepot-cache") > of("mean_us", "udepot-opt"));
        for index in ["entries", "paged", "whole", "slickcache"] {
            assert_eq!(of("hit", index), 1.0, "{index}");
        }
        assert!((0.3..0.95).contains(&of("hit", "cut")), "{}", of("hit", "cut"));
        // Only values that are reclaimed when the log wraps are missed.
        assert!(of("hit", "engine") > of("hit", "cut"), "{}", of("hit", "engine"));
        assert!(of("get_mean_us", "engine") > of("get_mean_us", "whole") / 2.0);
        // An update of uDepot reads the old value: a sense and a transfer at least.
        let [udepot, whole] = ["udepot-opt", "whole"].map(|index| of("set_mean_us", index));
        assert!(udepot > 100.0 && whole < 50.0, "{udepot} {whole}");
        assert!(metrics.contains_key("throughput_gain.engine.slickcache.ycsb-b.85.2"));
        assert!(!metrics.contains_key("kops.whole.ycsb-b.85.2"), "it is compared on one drive");
        assert!(metrics == self::metrics(&small));
    }
}
