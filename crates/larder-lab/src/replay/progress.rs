//! Progress of a replay for its observers, and the way to stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between the runs of a replay and their observers.
#[derive(Debug, Default)]
pub struct Monitor {
    stop: AtomicBool,
    /// The run with placement, the run without.
    runs: [RunProgress; 2],
    /// Progress of an experiment's seeds, in millionths of a seed.
    of_seeds: AtomicU64,
}

/// Units of a seed's progress.
const SEED: f64 = 1e6;

/// Progress of one run.
#[derive(Debug, Default)]
pub struct RunProgress {
    requests: AtomicU64,
    /// In thousandths of a percent.
    share: AtomicU64,
}

impl Monitor {
    /// Asks the runs to end soon, with the results so far.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the runs were asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Adds `share` of one seed of an experiment to the progress, 0 to 1. Experiments with long seeds call this.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a number from 0 to 1
    pub fn add_to_seeds(&self, share: f64) {
        self.of_seeds.fetch_add((share.clamp(0.0, 1.0) * SEED) as u64, Ordering::Relaxed);
    }

    /// Number of finished seeds reported so far, with fractions, over all experiments.
    #[allow(clippy::cast_precision_loss)]
    pub fn seeds(&self) -> f64 {
        self.of_seeds.load(Ordering::Relaxed) as f64 / SEED
    }

    /// Progress of the run with (`true`) or without placement.
    pub fn run(&self, placement: bool) -> &RunProgress {
        &self.runs[usize::from(!placement)]
    }
}

impl RunProgress {
    /// Requests made so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Finished share of the run, 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    pub fn share(&self) -> f64 {
        self.share.load(Ordering::Relaxed) as f64 / 100_000.0
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a number from 0 to 1
    pub(super) fn set(&self, requests: u64, share: f64) {
        self.requests.store(requests, Ordering::Relaxed);
        self.share.store((share.clamp(0.0, 1.0) * 100_000.0) as u64, Ordering::Relaxed);
    }
}
