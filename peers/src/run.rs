//! One run of a system with a workload, in its own process.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use larder_workload::Latencies;
use serde_json::{Value, json};

use crate::drive::{Phase, Tally, fill, on_tasks, on_threads};
use crate::process;
use crate::stream::item;
use crate::system::{
    DramCache, FoyerDram, FoyerHybrid, Harness, HybridCache, HybridPlan, LarderDram, LarderHybrid,
    Moka, QuickCache, System,
};
use crate::workload::{Flash, Source, Workload};

/// Worker threads of the runtime under a hybrid cache.
const WORKERS: usize = 2;
/// Mean size of a small item, for systems that need the number of items that will fit.
const ITEM_BYTES: u64 = 566;

/// The configuration of a run.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) workload: Workload,
    pub(crate) system: System,
    pub(crate) clients: usize,
    /// Budget as the system counts it.
    pub(crate) dram_bytes: u64,
    pub(crate) seed: u64,
    /// Directory of the flash files.
    pub(crate) dir: PathBuf,
    /// Directory of the published tables.
    pub(crate) data: Option<PathBuf>,
}

impl Task {
    /// The flash file of this system.
    pub(crate) fn flash_file(&self) -> PathBuf {
        self.dir.join(format!("{}.flash", self.system.name()))
    }
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) ops_per_second: f64,
    pub(crate) cpu_us_per_op: f64,
    pub(crate) hit_ratio: f64,
    pub(crate) p50_get_us: f64,
    pub(crate) p99_get_us: f64,
    pub(crate) p99_set_us: f64,
    /// `None` without flash.
    pub(crate) bytes_written_per_byte_set: Option<f64>,
    /// The same according to the system's own counter.
    pub(crate) counted_written_per_byte_set: Option<f64>,
    pub(crate) peak_rss_bytes: f64,
    /// Resident memory before the cache was opened.
    pub(crate) empty_rss_bytes: f64,
    pub(crate) dram_bytes: f64,
    pub(crate) load_average: f64,
}

impl Outcome {
    /// The results as one line.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "ops_per_second": self.ops_per_second,
            "cpu_us_per_op": self.cpu_us_per_op,
            "hit_ratio": self.hit_ratio,
            "p50_get_us": self.p50_get_us,
            "p99_get_us": self.p99_get_us,
            "p99_set_us": self.p99_set_us,
            "bytes_written_per_byte_set": self.bytes_written_per_byte_set,
            "counted_written_per_byte_set": self.counted_written_per_byte_set,
            "peak_rss_bytes": self.peak_rss_bytes,
            "empty_rss_bytes": self.empty_rss_bytes,
            "dram_bytes": self.dram_bytes,
            "load_average": self.load_average,
        })
    }

    /// Parses the output of [`Outcome::to_json`].
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let optional = |name: &str| value.get(name).and_then(Value::as_f64);
        let number = |name: &str| optional(name).ok_or_else(|| format!("no {name} in {text}"));
        Ok(Self {
            ops_per_second: number("ops_per_second")?,
            cpu_us_per_op: number("cpu_us_per_op")?,
            hit_ratio: number("hit_ratio")?,
            p50_get_us: number("p50_get_us")?,
            p99_get_us: number("p99_get_us")?,
            p99_set_us: number("p99_set_us")?,
            bytes_written_per_byte_set: optional("bytes_written_per_byte_set"),
            counted_written_per_byte_set: optional("counted_written_per_byte_set"),
            peak_rss_bytes: number("peak_rss_bytes")?,
            empty_rss_bytes: number("empty_rss_bytes")?,
            dram_bytes: number("dram_bytes")?,
            load_average: number("load_average")?,
        })
    }
}

/// Counters at the start of the measurement.
struct Meter {
    began: Instant,
    cpu_seconds: f64,
    written_bytes: u64,
}

impl Meter {
    fn start() -> Result<Self, String> {
        let (cpu_seconds, written_bytes) = (process::cpu_seconds()?, process::written_bytes()?);
        Ok(Self { began: Instant::now(), cpu_seconds, written_bytes })
    }

    fn stop(self, task: &Task, tally: &Tally, empty_rss_bytes: u64) -> Result<Outcome, String> {
        let seconds = self.began.elapsed().as_secs_f64();
        let cpu_us = (process::cpu_seconds()? - self.cpu_seconds) * 1e6;
        let written = process::written_bytes()?.saturating_sub(self.written_bytes) as f64;
        let quantile = |of: &Latencies, share| of.quantile_us(share).unwrap_or(0.0);
        Ok(Outcome {
            ops_per_second: tally.ops as f64 / seconds,
            cpu_us_per_op: cpu_us / tally.ops.max(1) as f64,
            hit_ratio: tally.hits as f64 / tally.gets.max(1) as f64,
            p50_get_us: quantile(&tally.get_latencies, 0.5),
            p99_get_us: quantile(&tally.get_latencies, 0.99),
            p99_set_us: quantile(&tally.set_latencies, 0.99),
            bytes_written_per_byte_set: task
                .workload
                .flash
                .map(|_| written / tally.set_bytes.max(1) as f64),
            counted_written_per_byte_set: None,
            peak_rss_bytes: process::peak_rss_bytes()? as f64,
            empty_rss_bytes: empty_rss_bytes as f64,
            dram_bytes: task.dram_bytes as f64,
            load_average: process::load_average(),
        })
    }
}

/// Makes the run in this process.
pub(crate) fn run(task: &Task) -> Result<Outcome, String> {
    let source = Arc::new(Source::of(&task.workload, task.data.as_deref())?);
    match task.workload.flash {
        Some(flash) => hybrid(task, flash, &source),
        None => in_dram(task, &source),
    }
}

fn in_dram(task: &Task, source: &Arc<Source>) -> Result<Outcome, String> {
    let bytes = task.dram_bytes;
    match task.system {
        System::Larder => threads(task, &LarderDram::open(bytes)?, source),
        System::Foyer => threads(task, &FoyerDram::open(bytes, false), source),
        System::FoyerLru => threads(task, &FoyerDram::open(bytes, true), source),
        System::QuickCache => {
            let items = (bytes / ITEM_BYTES).min(source.keys());
            threads(task, &QuickCache::open(bytes, items), source)
        }
        System::Moka => threads(task, &Moka::open(bytes), source),
        System::Harness => threads(task, &Harness, source),
        System::LarderSoc | System::LarderPages | System::LarderSocLog | System::LarderLoc => {
            Err(cannot(task))
        }
    }
}

fn threads<C: DramCache>(task: &Task, cache: &C, source: &Arc<Source>) -> Result<Outcome, String> {
    let empty = process::peak_rss_bytes()?;
    if task.workload.prefilled {
        fill(cache, (0..source.keys()).map(|number| item(source, number)))?;
    }
    let phase = Phase::warm(&task.workload, source, task.clients, task.seed);
    on_threads(cache, &phase)?;
    let meter = Meter::start()?;
    let tally = on_threads(cache, &phase.measured(task.workload.ops))?;
    meter.stop(task, &tally, empty)
}

fn hybrid(task: &Task, flash: Flash, source: &Arc<Source>) -> Result<Outcome, String> {
    let file = task.flash_file();
    prepare_flash_file(task, flash.bytes)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .map_err(|cause| format!("the runtime cannot be started: {cause}"))?;
    let plan = HybridPlan { flash, dram_bytes: task.dram_bytes, file: &file };
    runtime.block_on(async {
        match task.system {
            larder if larder.is_larder() => {
                tasks(task, LarderHybrid::open(&plan, larder).await?, source).await
            }
            System::Foyer => tasks(task, FoyerHybrid::open(&plan, false).await?, source).await,
            System::FoyerLru => tasks(task, FoyerHybrid::open(&plan, true).await?, source).await,
            _ => Err(cannot(task)),
        }
    })
}

async fn tasks<C: HybridCache>(
    task: &Task,
    cache: C,
    source: &Arc<Source>,
) -> Result<Outcome, String> {
    let empty = process::peak_rss_bytes()?;
    let cache = Arc::new(cache);
    let phase = Phase::warm(&task.workload, source, task.clients, task.seed);
    on_tasks(&cache, &phase).await?;
    let meter = Meter::start()?;
    let counted = cache.counted_written_bytes();
    let tally = on_tasks(&cache, &phase.measured(task.workload.ops)).await?;
    let counted = cache.counted_written_bytes().saturating_sub(counted) as f64;
    Ok(Outcome {
        counted_written_per_byte_set: Some(counted / tally.set_bytes.max(1) as f64),
        ..meter.stop(task, &tally, empty)?
    })
}

/// Makes the flash file and writes all of it once, because the first writes of blocks would slow down the first round.
fn prepare_flash_file(task: &Task, bytes: u64) -> Result<(), String> {
    let path = task.flash_file();
    let told = |cause: std::io::Error| {
        format!("dir = {}: cannot write {bytes} bytes there: {cause}", task.dir.display())
    };
    if fs::metadata(&path).is_ok_and(|file| file.len() == bytes) {
        return Ok(());
    }
    let mut file = fs::File::create(&path).map_err(told)?;
    let piece = vec![0; 1 << 20];
    for _ in 0..bytes.div_ceil(piece.len() as u64) {
        std::io::Write::write_all(&mut file, &piece).map_err(told)?;
    }
    file.set_len(bytes).and_then(|()| file.sync_all()).map_err(told)
}

fn cannot(task: &Task) -> String {
    format!("system = {}: cannot do workload {}", task.system.name(), task.workload.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Scale;

    fn tiny(name: &str, system: System, clients: usize) -> Outcome {
        let workload = Workload::find(name, Scale::Tiny).unwrap();
        // Use the build directory, which is on a disk. The usual temporary directory is often in memory, and has no
        // O_DIRECT.
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target").join("tiny");
        fs::create_dir_all(&dir).unwrap();
        let dram_bytes = workload.dram_bytes;
        run(&Task { workload, system, clients, dram_bytes, seed: 1, dir, data: None }).unwrap()
    }

    #[test]
    fn every_system_does_the_same_work_in_dram() {
        for system in System::IN_DRAM {
            let outcome = tiny("dram", system, 2);
            assert!(outcome.hit_ratio > 0.95, "{system:?}: {outcome:?}");
            let again = Outcome::from_json(&outcome.to_json().to_string()).unwrap();
            assert_eq!(again.hit_ratio, outcome.hit_ratio);
        }
    }

    #[test]
    fn every_hybrid_works_with_few_and_many_clients() {
        for system in System::HYBRID {
            for clients in [2, 64] {
                let outcome = tiny("HS2", system, clients);
                assert!(outcome.hit_ratio > 0.5, "{system:?}: {outcome:?}");
            }
        }
    }
}
