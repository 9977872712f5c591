//! The cache on real threads that all change the same keys, judged by the history of each key.
//!
//! Each worker records its operations: the key, the value read or stored, and two ticks of a common clock, before and
//! after. All stored values differ, so the history of a key shows which read saw which change. `judge` decides whether
//! all of it is possible in some order, with evictions at any time. At the same time one thread changes the DRAM budget
//! by a factor of a hundred, and one holds values and checks them again before it drops them; above flash, workers also
//! start changes and drop them midway.
//!
//! | module | content |
//! |---|---|
//! | `value` | values that identify the change that stored them |
//! | `worker` | workers and disturbances |
//! | `judge` | whether a history is possible |

mod judge;
mod value;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use larder::{Config, Error, Larder, LocConfig, RealClock, Reinsertion, SocConfig, block_on};
use larder_device::Device;

use judge::{Event, Judge};
use worker::{Shared, disturb_budget, hold_values, work};

/// Operations of all threads per round; each round is judged.
const ROUND: u64 = 1 << 19;
/// The DRAM budget is between this and a hundred times as much.
const BUDGET_BYTES: u64 = 32 << 10;
const BUDGET_FACTOR: u64 = 100;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Operations of all threads together, rounded up to whole rounds of at most half a million.
    pub operations: u64,
    /// Worker threads, in addition to those that disturb; at most 255.
    pub threads: u32,
    /// Keys; an eighth of them are counters.
    pub keys: u32,
    /// Seed of the choices of each thread. The order of their steps does not depend on it.
    pub seed: u64,
}

/// Totals of a run. [`std::fmt::Display`] prints all of them in a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Judged operations.
    pub operations: u64,
    /// Reads that found a value.
    pub hits: u64,
    /// Changes.
    pub changes: u64,
    /// Changes that depend on the previous value.
    pub updates: u64,
    /// Changes that were dropped midway.
    pub dropped: u64,
    /// Changes of the budget.
    pub budgets: u64,
    /// Values that were held for a while.
    pub kept: u64,
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { operations, hits, changes, updates, dropped, budgets, kept } = self;
        write!(
            f,
            "{operations} operations, {hits} hits, {changes} changes ({updates} updates, {dropped} dropped), \
             {budgets} budgets, {kept} values kept"
        )
    }
}

/// Runs the cache in DRAM, or above `device`, and calls `progress` after each round.
///
/// # Errors
/// Any violation in the history, with the contradicting events.
pub fn run(
    options: &Options,
    device: Option<Arc<dyn Device>>,
    mut progress: impl FnMut(&Totals),
) -> Result<Totals, String> {
    let above_flash = device.is_some();
    let cache = open(device).map_err(|error| format!("the cache does not open: {error}"))?;
    let rounds = options.operations.div_ceil(ROUND.min(options.operations.max(1)));
    let shared = Shared::new(&cache, options.keys, above_flash);
    let each = options.operations.div_ceil(rounds.max(1)).div_ceil(options.threads.max(1).into());
    let barrier = Barrier::new(usize::try_from(options.threads).unwrap_or(0) + 1);
    let logs: Vec<Mutex<Vec<Event>>> = (0..options.threads).map(|_| Mutex::default()).collect();
    let is_over = AtomicBool::new(false);
    let mut judge = Judge::new(options.keys);
    let mut totals = Totals::default();
    let mut verdict = Ok(());
    std::thread::scope(|scope| {
        for (thread, log) in (0..).zip(&logs) {
            let (shared, barrier, is_over) = (&shared, &barrier, &is_over);
            let seed = options.seed.wrapping_mul(1000).wrapping_add(u64::from(thread));
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                let mut next = 1;
                loop {
                    barrier.wait();
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let mut events = std::mem::take(&mut *locked(log));
                    events.clear();
                    let working = AssertUnwindSafe(|| {
                        work(shared, thread, each, &mut rng, &mut next, &mut events);
                    });
                    // Catch a panic, or the other threads would wait at the barrier forever.
                    if catch_unwind(working).is_err() {
                        shared.complain(format!("thread {thread} panicked"));
                    }
                    *locked(log) = events;
                    barrier.wait();
                }
            });
        }
        let (shared, is_over) = (&shared, &is_over);
        scope.spawn(move || {
            disturb_budget(shared, is_over, BUDGET_BYTES, BUDGET_BYTES * BUDGET_FACTOR);
        });
        scope.spawn(move || hold_values(shared, is_over));
        for _ in 0..rounds {
            barrier.wait();
            barrier.wait();
            let logs: Vec<_> = logs.iter().map(locked).collect();
            totals.operations += each * u64::from(options.threads);
            let judged = judge.judge(logs.iter().flat_map(|log| log.iter()));
            verdict = shared.complaint().map_or(judged, Err);
            shared.add_to(&mut totals);
            progress(&totals);
            if verdict.is_err() {
                break;
            }
        }
        is_over.store(true, Ordering::SeqCst);
        barrier.wait();
    });
    let complaint = shared.complaint();
    complaint.map_or(verdict, Err).map(|()| totals)
}

fn open(device: Option<Arc<dyn Device>>) -> Result<Larder, Error> {
    let config = Config {
        dram_bytes: BUDGET_BYTES,
        soc: SocConfig { percent: Some(25.0), ..SocConfig::default() },
        loc: LocConfig {
            region_bytes: Some(256 << 10),
            reinsertion: Reinsertion::Hits(1),
            ..LocConfig::default()
        },
        // Values of an earlier run would look as if they were never stored.
        start_empty: true,
        ..Config::default()
    };
    block_on(Larder::open(config, device, Arc::new(RealClock)))
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::FileDevice;

    fn few(operations: u64, device: Option<Arc<dyn Device>>) -> Totals {
        let options = Options { operations, threads: 16, keys: 128, seed: 1 };
        run(&options, device, |_| ()).unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn in_dram_every_history_can_be() {
        let totals = few(400_000, None);
        assert!(totals.hits > 100_000 && totals.updates > 5_000, "{totals}");
        assert!(totals.budgets > 10 && totals.kept > 100, "{totals}");
    }

    #[test]
    fn above_flash_every_history_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let file = FileDevice::create(folder.path().join("cache"), 16 << 20).unwrap();
        let totals = few(100_000, Some(Arc::new(file)));
        assert!(totals.hits > 20_000 && totals.updates > 1_000 && totals.dropped > 20, "{totals}");
    }
}
