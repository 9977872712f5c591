//! Runs over utilisations, with and without placement, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use larder::SocLayout;

use super::measured::{Measured, measure_replay};
use super::model::Model;
use crate::Error;
use crate::replay::Monitor;

/// Callback with the number of finished runs and of all runs.
pub type OnRun<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// A run: utilisation in percent, layout of small objects, and whether with placement.
pub(super) type Job = (f64, SocLayout, bool);

/// A run with and without placement at each utilisation.
pub(super) fn jobs(utilizations: &[f64], layout: SocLayout) -> Vec<Job> {
    let both = |&utilization| [(utilization, layout, true), (utilization, layout, false)];
    utilizations.iter().flat_map(both).collect()
}

/// Makes all runs with `model`. The results are in their order.
pub(super) fn run(
    model: &Model,
    jobs: &[Job],
    monitor: &Monitor,
    on_run: &OnRun<'_>,
) -> Result<Vec<Measured>, Error> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    on_run(0, jobs.len());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&run) = jobs.get(job) else { break };
                    let measured = measure(model, run, monitor);
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
    (utilization, layout, with_placement): Job,
    monitor: &Monitor,
) -> Result<Measured, Error> {
    let measured = measure_replay(&model.at(utilization, layout), with_placement, monitor)?;
    Ok(Measured { object_per_unit: model.object_per_unit(), ..measured })
}
