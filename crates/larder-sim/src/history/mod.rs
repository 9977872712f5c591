//! The cache on real threads that all change the same keys, judged by the history of each key.
//!
//! Whoever works writes down what it did: the key, what it saw or stored, and two ticks of one common clock, before and
//! after. Every value that is stored is another, so the history of a key says which look saw which change, and
//! `judge` decides whether all of it can have happened in some order, evictions anywhere. Meanwhile one thread
//! changes the budget of DRAM a hundredfold up and down, one keeps values and looks at them again when it drops them,
//! and above flash one begins changes and drops them on their way.
//!
//! | module | what it is |
//! |---|---|
//! | `value` | values that tell which change stored them |
//! | `worker` | who works, and who disturbs |
//! | `judge` | whether a history can be |

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

/// Operations of all threads between two looks of the judge.
const ROUND: u64 = 1 << 19;
/// The budget of DRAM is between this and a hundred times as much.
const BUDGET_BYTES: u64 = 32 << 10;
const BUDGET_FACTOR: u64 = 100;

/// What is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Operations of all threads together, rounded up to whole rounds of at most half a million.
    pub operations: u64,
    /// Threads that work, beside those that disturb; at most 255.
    pub threads: u32,
    /// Keys; an eighth of them are numbers that are counted.
    pub keys: u32,
    /// What the choices of each thread follow from. The order of their steps does not.
    pub seed: u64,
}

/// What was done. [`std::fmt::Display`] has all of it in a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Operations that were judged.
    pub operations: u64,
    /// Looks that found a value.
    pub hits: u64,
    /// Changes that were made.
    pub changes: u64,
    /// Of these, those that depend on the value that was there.
    pub updates: u64,
    /// Changes that were dropped on their way.
    pub dropped: u64,
    /// How often the budget was changed.
    pub budgets: u64,
    /// Values that were kept for a while.
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

/// Runs the cache in DRAM, or above `device`, and shows `progress` what was done after each round.
///
/// # Errors
/// What is wrong with the history, with the events that contradict each other.
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
                    // Or the others would wait for it.
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
        // What another run has left would be seen as never stored.
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
