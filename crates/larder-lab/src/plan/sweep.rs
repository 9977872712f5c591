//! Runs over utilisations, with and without placement, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::measured::{Measured, measure_replay};
use super::model::Model;
use crate::Error;
use crate::replay::Monitor;

/// Callback with the number of finished runs and of all runs.
pub type OnRun<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Runs `model` at each utilisation with and without placement. The results are sorted by utilisation, "on" first.
pub(super) fn run(
    model: &Model,
    utilizations: &[f64],
    monitor: &Monitor,
    on_run: &OnRun<'_>,
) -> Result<Vec<Measured>, Error> {
    let jobs: Vec<(f64, bool)> = utilizations
        .iter()
        .flat_map(|&utilization| [(utilization, true), (utilization, false)])
        .collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    on_run(0, jobs.len());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(utilization, placement)) = jobs.get(job) else { break };
                    let measured = measure(model, utilization, placement, monitor);
                    if measured.is_err() {
                        monitor.stop(); // the other runs would be useless
                    }
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((job, measured));
                    on_run(done.len(), jobs.len());
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The first run that fails stops the others. They report an interruption, so a real error comes first.
    done.sort_by_key(|(job, measured)| (interrupted(measured), *job));
    done.into_iter().map(|(_, measured)| measured).collect()
}

fn interrupted(measured: &Result<Measured, Error>) -> bool {
    measured.as_ref().is_err_and(|error| error.to_string() == "interrupted")
}

fn measure(
    model: &Model,
    utilization: f64,
    with_placement: bool,
    monitor: &Monitor,
) -> Result<Measured, Error> {
    let measured = measure_replay(&model.at(utilization), with_placement, monitor)?;
    Ok(Measured { object_per_unit: model.object_per_unit(), ..measured })
}
