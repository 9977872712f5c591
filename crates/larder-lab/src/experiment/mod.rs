//! Experiments that reproduce published results, each with its criterion and verdict.
//!
//! An [`Experiment`] is a row in [`all`]: what it reproduces, its parameters, what it measures, the paper's values, and
//! how it is judged. [`run()`] runs it with several seeds and summarizes the results.
//!
//! | module | what it is |
//! |---|---|
//! | `settings` | parameters: defaults, and the user's values |
//! | `row` | the parts of an experiment |
//! | `result` | the result, in its stable JSON form |
//! | `judge` | criteria in words and as checks |
//! | `by_clock` | metrics that depend on this machine's clock, and experiments about the machine |
//! | `admission` | whether a result may be judged: everything needed was measured, on a drive in a steady state |
//! | `rig` | the drive of the experiments with the real cache, and how runs on it are made |
//! | `array` | the array engine, and alternative indexes and expiry policies |
//! | `block` | block caches whose writes are counted: Open CAS as described, and the log |
//! | `accounting` | the pages that a cache on blocks of a vSSD programs, and the cost of the block map |
//! | `isolation` | tenants on vSSDs of every kind in a drive's time, and the experiments on them |
//! | `levelling` | drives of a set that wear at different rates |
//! | `small_objects` | layouts of small objects on flash, in a byte model |
//! | `wear` | channels and dies over the years, and the experiments on them |
//! | `timed_rig` | the real cache on a timed drive, under virtual time |
//! | the others | one experiment, or a family of them |

mod accounting;
mod admission;
mod agreement;
mod array;
mod bare;
mod block;
mod by_clock;
mod carbon;
mod dram;
mod dram_throughput;
mod dynamic;
mod energy;
mod ftl_uniform;
mod gc_events;
mod isolation;
mod judge;
mod latency;
mod levelling;
mod measured;
mod performance;
mod placement;
mod real_drive;
mod result;
mod rig;
mod row;
mod ru_aware;
mod settings;
mod small_objects;
mod soc_size;
mod tenant_latency;
mod tenants;
mod timed_rig;
mod utilization_causes;
mod wear;

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Error;
use crate::replay::Monitor;
pub use agreement::Agreement;
pub use by_clock::anywhere;
pub use judge::{Judgement, Verdict};
pub use measured::{Metrics, Origin, Reference, Spread, Summary};
pub use result::{Compared, ExperimentResult};
pub use row::Experiment;
pub use settings::{Parameter, Settings};

/// All experiments, in the order of `lab list`.
pub fn all() -> &'static [&'static Experiment] {
    static ALL: &[&Experiment] = &[
        &ftl_uniform::FTL_UNIFORM,
        &placement::DLWA_INTERVAL,
        &placement::UTILIZATION,
        &utilization_causes::UTILIZATION_CAUSES,
        &placement::TWITTER,
        &placement::WRITE_ONLY,
        &soc_size::SOC_SIZE,
        &gc_events::GC_EVENTS,
        &dram::DRAM_TRADEOFF,
        &tenants::TENANTS,
        &soc_size::MODEL_VALIDATION,
        &carbon::CARBON,
        &energy::ENERGY,
        &soc_size::ISOLATION_TYPE,
        &gc_events::MISLABELLED,
        &latency::LATENCY,
        &dram_throughput::DRAM_THROUGHPUT,
        &performance::PERFORMANCE,
        &tenant_latency::TENANT_LATENCY,
        &tenant_latency::TENANT_MIX_LATENCY,
        &tenants::NOISY_HANDLE,
        &ru_aware::RU_AWARE_EVICTION,
        &dynamic::DYNAMIC_PLACEMENT,
        &wear::WEAR_ANALYSIS,
        &wear::WEAR_ADVERSARY,
        &wear::WEAR_MIXES,
        &wear::DIE_WEAR,
        &levelling::DRIVE_LEVELLING,
        &isolation::HARDWARE_VS_SOFTWARE,
        &isolation::ISOLATION_LATENCY,
        &isolation::WEBSEARCH_MAPREDUCE,
        &isolation::MIGRATION,
        &isolation::EXCHANGE,
        &isolation::HARVESTING,
        &isolation::PLACEMENT_AND_ISOLATION,
        &isolation::YCSB,
        &accounting::VSSD_ACCOUNTING,
        &small_objects::SMALL_OBJECTS,
        &array::ARRAY_INDEX,
        &array::ARRAY_THROUGHPUT,
        &array::ARRAY_TTL,
        &array::ARRAY_COLLISIONS,
        &array::ARRAY_PLACEMENT,
        &array::ARRAY_REINSERTION,
        &array::ARRAY_PRESSURE,
        &array::ARRAY_CRASH,
        &array::ARRAY_MEMORY,
        &array::ARRAY_FAILURE,
        &block::BLOCK_RAW,
        &block::BLOCK_ACCESS,
        &block::BLOCK_METADATA,
        &block::BLOCK_PLACEMENT,
        &block::BLOCK_EVICTION,
        &block::BLOCK_INVALIDATE,
        &block::BLOCK_FULL,
        &block::BLOCK_RECOVERY,
        &block::BLOCK_OFFLOAD,
        &block::BLOCK_CPU,
        &bare::FULL_SCALE,
        &real_drive::REAL_DRIVE,
    ];
    ALL
}

/// The experiment of that name.
///
/// # Errors
/// [`Error::Usage`] that lists the names.
pub fn find(name: &str) -> Result<&'static Experiment, Error> {
    all().iter().copied().find(|experiment| experiment.name == name).ok_or_else(|| {
        let names: Vec<_> = all().iter().map(|experiment| experiment.name).collect();
        Error::usage(format!("experiment {name}: unknown; known are {}, all", names.join(", ")))
    })
}

/// The seeds of a run: `count` consecutive numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// How many; at least 1.
    pub count: u32,
}

impl Seeds {
    fn list(self) -> Result<Vec<u64>, Error> {
        if self.count == 0 {
            return Err(Error::usage("--seeds 0: must be at least 1"));
        }
        let last = self.first.checked_add(u64::from(self.count) - 1).ok_or_else(|| {
            Error::usage(format!(
                "--first-seed {}: {} seeds from it on are beyond {}",
                self.first,
                self.count,
                u64::MAX
            ))
        })?;
        Ok((self.first..=last).collect())
    }
}

/// Runs `experiment` with `seeds`, on one thread for each core.
///
/// # Errors
/// [`Error::Usage`] for settings that the experiment does not have or that are invalid; [`Error::Run`] if a run fails
/// or was stopped.
pub fn run(
    experiment: &'static Experiment,
    settings: &Settings,
    seeds: Seeds,
    monitor: &Monitor,
    on_seed: &(dyn Fn(u32) + Sync),
) -> Result<ExperimentResult, Error> {
    let list = seeds.list()?;
    let machine = experiment.machine(settings);
    let measured = measure_all(experiment, settings, &list, monitor, on_seed)?;
    let summary = Summary::of(&measured);
    let judgement = judge(experiment, settings, &summary);
    Ok(ExperimentResult::new(experiment, settings, list, summary, judgement).on(machine))
}

/// Judges `summary` by the criterion of `experiment`. The verdict is "not judged" if something that the criterion needs
/// was not measured or if the drive had not settled. The reason says so if `settings` are not the defaults.
pub fn judge(experiment: &Experiment, settings: &Settings, summary: &Summary) -> Judgement {
    let refusals = admission::refusals(experiment, summary);
    let judgement = if refusals.is_empty() {
        (experiment.judge)(summary)
    } else {
        Judgement::refused(&refusals)
    };
    match admission::remark(settings) {
        Some(remark) => judgement.with_note(&remark),
        None => judgement,
    }
}

/// Makes one measurement for each seed. There is one worker for each core, and a free worker takes the next seed.
fn measure_all(
    experiment: &Experiment,
    settings: &Settings,
    seeds: &[u64],
    monitor: &Monitor,
    on_seed: &(dyn Fn(u32) + Sync),
) -> Result<Vec<Metrics>, Error> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(seeds.len()) {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let metrics = (experiment.measure)(settings, seed, monitor);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((seed, metrics));
                    on_seed(u32::try_from(done.len()).unwrap_or(u32::MAX));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(seed, _)| *seed);
    if monitor.is_stopped() {
        return Err(Error::run("interrupted"));
    }
    done.into_iter().map(|(_, metrics)| metrics).collect()
}
