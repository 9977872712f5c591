//! The reads and writes of each operation, by index, DRAM size and popularity law: the array engine, a model of its
//! algorithm, and a paged hash table.

use larder_workload::generate::{GeneratorOptions, preset, record_key};
use larder_workload::{Op, Request};

use super::engine::EngineIndex;
use super::index::{CutIndex, EntryCache, Order, PagedTable, Sums, ValueIndex, WholeIndex};
use crate::Error;
use crate::experiment::judge::Checks;
use crate::experiment::measured::highest;
use crate::experiment::{Experiment, Judgement, Metrics, Parameter, Reference, Settings, Summary};
use crate::replay::Monitor;

const OBJECTS: Parameter = Parameter {
    name: "objects",
    default: "1000000",
    help: "values on flash, 10000 to 100000000; their whole index is 16 bytes for each; the engine's take half a \
           KiB of memory each",
};
const SETS: Parameter =
    Parameter { name: "sets", default: "50", help: "SETs in a hundred operations, 0 to 100" };
const DRAM: Parameter = Parameter {
    name: "dram",
    default: "2,4,8,32",
    help: "DRAM for the index, as the divisor of the whole index, each 1 to 1000",
};

/// Popularity laws. These are names of generators.
const LAWS: [&str; 3] = ["hotspot", "zipf", "uniform"];
/// Bytes of an entry of the whole index. DRAM is given as a fraction of that index.
const ENTRY_BYTES: u64 = 16;
/// The run checks for a stop request after this number of operations.
const STOP_EVERY: u64 = 1 << 16;

/// Results of another simulation of the same algorithm, with 4 million objects.
const SIMULATED: &str = "another simulation of the same rules, not the paper's";
const PUBLISHED: &str = "artifact: a lookup that misses DRAM reads a table and the value";

const fn simulated(metric: &'static str, value: f64) -> Reference {
    Reference::ours(metric, value, SIMULATED)
}

pub(in crate::experiment) static ARRAY_INDEX: Experiment = Experiment {
    name: "array-index",
    title: "reads and writes of an index on flash, by DRAM: cached entries beside cached pages",
    reproduces: "BigKV (EuroSys'23): 16 bytes an object, at most two reads a lookup; its baseline uDepot-Cache",
    criterion: "the engine and its model: at most 2 reads a GET and 1 a SET, always; reads a GET of all within 5 % \
                of another simulation in each point; index written per SET at most 0.6 KiB from 1/8 of DRAM up, 1.6 \
                KiB at 1/32; fewer reads than pages for hotspot and zipf from 1/4 down, more for uniform",
    parameters: &[OBJECTS, SETS, DRAM],
    metrics: &[
        (
            "get_reads.*",
            "reads of the device a GET, the value's among them, by index (engine: the array engine itself, whose \
             device is watched; entries: its rule, four-way sets over tables; paged: a hash table of 8 bytes an entry \
             in pages of 16 KiB; whole: all entries in DRAM), law, and DRAM as the divisor of the whole index",
        ),
        ("get_reads_max.*", "the most of one GET"),
        ("set_reads.*", "reads a SET"),
        ("set_reads_max.*", "the most of one SET"),
        (
            "set_kib.*",
            "KiB of the index that are written per SET, those that GETs have written among them; of the engine with \
             what moves when regions of tables are emptied",
        ),
        ("get_kib.*", "KiB of the index that are read per GET"),
        ("dram_mib.*", "memory of what is cached of the index, in MiB"),
        (
            "cut_hit.*",
            "hit ratio of an index of 8 bytes an entry that has what fits into DRAM and nothing on flash, by what \
             gives way (fifo, lru), law, and DRAM, where clients store what they miss; the others find all",
        ),
        ("engine_hit.*", "hit ratio of the engine, whose flash has room for all, by law and DRAM"),
    ],
    references: &[
        Reference::published("get_reads_max.entries.hotspot.4", 2.0, PUBLISHED),
        simulated("get_reads.entries.hotspot.2", 1.18),
        simulated("get_reads.entries.hotspot.4", 1.38),
        simulated("get_reads.entries.hotspot.8", 1.63),
        simulated("get_reads.entries.hotspot.32", 1.91),
        simulated("get_reads.entries.zipf.2", 1.09),
        simulated("get_reads.entries.zipf.4", 1.15),
        simulated("get_reads.entries.zipf.8", 1.21),
        simulated("get_reads.entries.zipf.32", 1.32),
        simulated("get_reads.entries.uniform.2", 1.51),
        simulated("get_reads.entries.uniform.4", 1.75),
        simulated("get_reads.entries.uniform.8", 1.88),
        simulated("get_reads.entries.uniform.32", 1.97),
        simulated("get_reads.engine.hotspot.2", 1.18),
        simulated("get_reads.engine.hotspot.4", 1.38),
        simulated("get_reads.engine.hotspot.8", 1.63),
        simulated("get_reads.engine.hotspot.32", 1.91),
        simulated("get_reads.engine.zipf.2", 1.09),
        simulated("get_reads.engine.zipf.4", 1.15),
        simulated("get_reads.engine.zipf.8", 1.21),
        simulated("get_reads.engine.zipf.32", 1.32),
        simulated("get_reads.engine.uniform.2", 1.51),
        simulated("get_reads.engine.uniform.4", 1.75),
        simulated("get_reads.engine.uniform.8", 1.88),
        simulated("get_reads.engine.uniform.32", 1.97),
        simulated("get_reads.paged.hotspot.2", 1.0),
        simulated("get_reads.paged.hotspot.4", 1.5),
        simulated("get_reads.paged.hotspot.8", 1.75),
        simulated("get_reads.paged.hotspot.32", 1.94),
        simulated("get_reads.paged.zipf.2", 1.0),
        simulated("get_reads.paged.zipf.4", 1.32),
        simulated("get_reads.paged.zipf.8", 1.52),
        simulated("get_reads.paged.zipf.32", 1.75),
        simulated("get_reads.paged.uniform.2", 1.0),
        simulated("get_reads.paged.uniform.4", 1.5),
        simulated("get_reads.paged.uniform.8", 1.75),
        simulated("get_reads.paged.uniform.32", 1.94),
        simulated("set_kib.entries.hotspot.2", 0.12),
        simulated("set_kib.entries.hotspot.4", 0.22),
        simulated("set_kib.entries.hotspot.8", 0.38),
        simulated("set_kib.entries.hotspot.32", 1.19),
        simulated("set_kib.entries.zipf.2", 0.04),
        simulated("set_kib.entries.zipf.4", 0.08),
        simulated("set_kib.entries.zipf.8", 0.15),
        simulated("set_kib.entries.zipf.32", 0.53),
        simulated("set_kib.entries.uniform.2", 0.14),
        simulated("set_kib.entries.uniform.4", 0.24),
        simulated("set_kib.entries.uniform.8", 0.41),
        simulated("set_kib.entries.uniform.32", 1.21),
    ],
    needs: &[
        "get_reads.engine.hotspot.2",
        "get_reads.engine.zipf.4",
        "get_reads.entries.hotspot.2",
        "get_reads.entries.zipf.4",
        "get_reads.entries.uniform.8",
        "get_reads.entries.hotspot.32",
        "get_reads.paged.zipf.32",
    ],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let objects: u64 = settings.within(OBJECTS.name, 10_000..=100_000_000)?;
    let sets: u32 = settings.within(SETS.name, 0..=100)?;
    let parts = settings.list::<u64>(DRAM.name)?;
    if let Some(part) = parts.iter().find(|part| !(1..=1000).contains(*part)) {
        return Err(settings.refuse(DRAM.name, &part.to_string(), "must be 1 to 1000"));
    }
    let mut metrics = Metrics::new();
    for law in LAWS {
        let run = Run { law, objects, sets, seed, monitor };
        run.note(&mut WholeIndex::new(objects), &mut metrics, &format!("whole.{law}"))?;
    }
    for part in parts {
        let dram_bytes = objects * ENTRY_BYTES / part;
        for law in LAWS {
            let run = Run { law, objects, sets, seed, monitor };
            let point = |name: &str| format!("{name}.{law}.{part}");
            let mut entries = EntryCache::new(objects, dram_bytes);
            run.note(&mut entries, &mut metrics, &point("entries"))?;
            drop(entries);
            let sets_of_each = 1.0 + 2.0 * f64::from(sets) / 100.0;
            let mut engine = EngineIndex::new(objects, sets_of_each, dram_bytes, seed)?;
            let seen = run.note(&mut engine, &mut metrics, &point("engine"))?;
            metrics.insert(format!("engine_hit.{law}.{part}"), seen.hit_ratio());
            drop(engine);
            let mut pages = PagedTable::new(objects, dram_bytes);
            run.note(&mut pages, &mut metrics, &point("paged"))?;
            for (name, order) in [("fifo", Order::Fifo), ("lru", Order::Lru)] {
                let seen = run.make(&mut CutIndex::new(dram_bytes, order))?;
                metrics.insert(format!("cut_hit.{}", point(name)), seen.hit_ratio());
            }
        }
    }
    Ok(metrics)
}

/// A run of an index: it stores all values, then makes the same number of operations as warm-up, and again as the
/// measurement.
struct Run<'a> {
    law: &'static str,
    objects: u64,
    sets: u32,
    seed: u64,
    monitor: &'a Monitor,
}

/// The measurements of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct LookupCosts {
    gets: Sums,
    sets: Sums,
    hits: u64,
}

impl Run<'_> {
    #[allow(clippy::cast_precision_loss)]
    fn note(
        &self,
        index: &mut dyn ValueIndex,
        metrics: &mut Metrics,
        point: &str,
    ) -> Result<LookupCosts, Error> {
        let seen = self.make(index)?;
        seen.note(metrics, point);
        metrics.insert(format!("dram_mib.{point}"), index.dram_bytes() as f64 / (1 << 20) as f64);
        Ok(seen)
    }

    fn make(&self, index: &mut dyn ValueIndex) -> Result<LookupCosts, Error> {
        let mut asked = Vec::new();
        for record in 0..self.objects {
            asked.clear();
            index.set(record_key(self.seed, record), &mut asked);
            self.stop(record)?;
        }
        let name = format!("{}:records={},sets={}", self.law, self.objects, self.sets);
        let requests = 2 * self.objects;
        let options = GeneratorOptions { requests, span_requests: None, seed: self.seed };
        let mut source = preset(&name, options)?;
        let mut seen = LookupCosts::default();
        let mut number = 0;
        while let Some(Request { key, op, .. }) = source.next_request()? {
            let counts = number >= self.objects;
            asked.clear();
            let found = op == Op::Get && index.get(key, &mut asked);
            if op == Op::Get && counts {
                seen.gets.add(&asked);
                seen.hits += u64::from(found);
            }
            // A client fills the cache after a miss.
            if !found {
                asked.clear();
                index.set(key, &mut asked);
                if counts {
                    seen.sets.add(&asked);
                }
            }
            self.stop(number)?;
            number += 1;
        }
        Ok(seen)
    }

    fn stop(&self, number: u64) -> Result<(), Error> {
        match number.is_multiple_of(STOP_EVERY) && self.monitor.is_stopped() {
            true => Err(Error::run("interrupted")),
            false => Ok(()),
        }
    }
}

impl LookupCosts {
    #[allow(clippy::cast_precision_loss)]
    fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.operations as f64
    }

    #[allow(clippy::cast_precision_loss)]
    fn note(&self, metrics: &mut Metrics, point: &str) {
        let Self { gets, sets, .. } = self;
        let kib = |bytes: u64, operations: u64| bytes as f64 / 1024.0 / operations.max(1) as f64;
        let mean = |sums: &Sums| sums.reads as f64 / sums.operations.max(1) as f64;
        let written = gets.index_written_bytes + sets.index_written_bytes;
        let values = [
            ("get_reads", mean(gets)),
            ("get_reads_max", gets.reads_max as f64),
            ("set_reads", mean(sets)),
            ("set_reads_max", sets.reads_max as f64),
            ("set_kib", kib(written, sets.operations)),
            ("get_kib", kib(gets.index_read_bytes, gets.operations)),
        ];
        metrics.extend(values.map(|(name, value)| (format!("{name}.{point}"), value)));
    }
}

fn judge(summary: &Summary) -> Judgement {
    let points = |prefix: &str| -> Vec<(String, f64)> {
        let of_series = summary.iter().filter(|(name, _)| name.starts_with(prefix));
        of_series.map(|(name, spread)| (name.to_owned(), spread.max)).collect()
    };
    let most = |prefix: &str| highest(points(prefix).into_iter().map(|(_, value)| value));
    let of_both = |metric: &str| {
        highest(["engine", "entries"].map(|index| most(&format!("{metric}.{index}."))))
    };
    let (gets, sets) = (of_both("get_reads_max"), of_both("set_reads_max"));
    let off = |paper: &Reference| (summary.mean(paper.metric) / paper.value - 1.0).abs();
    let rows = ARRAY_INDEX.references.iter().filter(|row| row.metric.starts_with("get_reads."));
    let worst = rows.max_by(|a, b| off(a).total_cmp(&off(b)));
    let mut checks = Checks::default()
        .exact(gets <= 2.0, format!("at most {gets} reads a GET"))
        .exact(sets <= 1.0, format!("at most {sets} reads a SET"));
    if let Some(row) = worst {
        let (ours, theirs) = (summary.mean(row.metric), row.value);
        let what =
            format!("farthest from the other simulation: {} {ours:.3}, {theirs}", row.metric);
        checks = checks.exact(off(row) <= 0.05, what);
    }
    for (part, kib_max) in [("2", 0.6), ("4", 0.6), ("8", 0.6), ("32", 1.6)] {
        let written = |index: &str| {
            highest(LAWS.map(|law| summary.max(&format!("set_kib.{index}.{law}.{part}"))))
        };
        let (engine, model) = (written("engine"), written("entries"));
        checks = checks.exact(
            engine <= kib_max && model <= kib_max,
            format!("1/{part}: {engine:.2} KiB written per SET, {model:.2} by the model"),
        );
    }
    let reads = |index: &str, law: &str, part: &str| {
        summary.mean(&format!("get_reads.{index}.{law}.{part}"))
    };
    for part in ["4", "8", "32"] {
        let fewer =
            ["hotspot", "zipf"].map(|law| reads("entries", law, part) < reads("paged", law, part));
        let more = reads("entries", "uniform", part) > reads("paged", "uniform", part);
        let words = format!(
            "1/{part}: fewer reads than pages where some keys are asked for more, more where none are"
        );
        checks = checks.shape(fewer == [true; 2] && more, words);
    }
    checks
        .note(format!(
            "with an index of {ENTRY_BYTES} bytes whose 8-byte half fits into DRAM, pages need no reads at all: 1/2"
        ))
        .judge()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTS: u64 = 200_000;

    fn seen(law: &'static str, objects: u64, index: &mut dyn ValueIndex) -> LookupCosts {
        let monitor = Monitor::default();
        Run { law, objects, sets: 50, seed: 1, monitor: &monitor }.make(index).unwrap()
    }

    #[track_caller]
    fn near(what: &str, ours: f64, expected: f64, within: f64) {
        let off = ours / expected - 1.0;
        println!("{what}: {ours:.3}, expected {expected} ({:+.1} %)", off * 100.0);
        assert!(off.abs() <= within, "{what}: {ours}, expected {expected}");
    }

    /// Compares with the other simulation where its numbers do not depend on the number of objects. By Zipf's law the
    /// first records have less weight if there are more records.
    #[test]
    fn models_read_and_write_what_another_simulation_does() {
        for (law, part) in [("hotspot", 4), ("uniform", 8), ("hotspot", 32)] {
            let dram_bytes = OBJECTS * ENTRY_BYTES / part;
            let indexes: [(&str, Box<dyn ValueIndex>); 2] = [
                ("entries", Box::new(EntryCache::new(OBJECTS, dram_bytes))),
                ("paged", Box::new(PagedTable::new(OBJECTS, dram_bytes))),
            ];
            for (name, mut index) in indexes {
                let seen = seen(law, OBJECTS, index.as_mut());
                assert!(seen.gets.reads_max <= 2 && seen.sets.reads_max <= 1, "{name} {law}");
                let (mut metrics, point) = (Metrics::new(), format!("{name}.{law}.{part}"));
                seen.note(&mut metrics, &point);
                let of_point = |row: &&Reference| {
                    row.source == SIMULATED && row.metric.ends_with(&format!(".{point}"))
                };
                let rows: Vec<_> = ARRAY_INDEX.references.iter().filter(of_point).collect();
                assert!(!rows.is_empty(), "{point}");
                for row in rows {
                    // A table has a whole number of sets, close to that of the other simulation; its writes differ by
                    // that ratio.
                    let within = if row.metric.starts_with("set_kib") { 0.12 } else { 0.05 };
                    near(row.metric, metrics[row.metric], row.value, within);
                }
            }
        }
    }

    /// Uses the same number of objects for both, so that the first records have the same weight.
    #[test]
    fn the_engine_reads_and_writes_what_its_model_does() {
        let (objects, dram_bytes) = (20_000, 20_000 * ENTRY_BYTES / 4);
        let note = |index: &mut dyn ValueIndex| {
            let seen = seen("zipf", objects, index);
            let mut metrics = Metrics::new();
            seen.note(&mut metrics, "it");
            (seen, metrics)
        };
        let (_, model) = note(&mut EntryCache::new(objects, dram_bytes));
        let mut engine = EngineIndex::new(objects, 2.0, dram_bytes, 1).unwrap();
        let (seen, engine) = note(&mut engine);
        assert_eq!((seen.gets.reads_max, seen.sets.reads_max), (2, 1));
        assert_eq!(seen.hits, seen.gets.operations, "there is room for all");
        near("reads a GET", engine["get_reads.it"], model["get_reads.it"], 0.05);
        let (written, least) = (engine["set_kib.it"], model["set_kib.it"]);
        assert!((least..0.6).contains(&written), "{written} KiB, {least} by the model");
    }

    #[test]
    fn an_index_in_dram_reads_values_alone_and_a_cut_one_finds_what_it_has() {
        let whole = seen("uniform", 20_000, &mut WholeIndex::new(20_000));
        assert_eq!((whole.gets.reads, whole.sets.reads), (whole.gets.operations, 0));
        assert_eq!(whole.hits, whole.gets.operations);
        // A quarter of 16 bytes is half of 8.
        let cut = seen("uniform", 20_000, &mut CutIndex::new(20_000 * 4, Order::Lru));
        near("half", cut.hit_ratio(), 0.5, 0.05);
        assert_eq!(cut.gets.reads, cut.hits);
    }
}
