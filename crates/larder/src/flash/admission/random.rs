//! Pseudorandom decisions from a seed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::key::mixed;

/// Dice that threads can share. One seed gives one sequence.
#[derive(Debug)]
pub(crate) struct Dice(AtomicU64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// True with this probability: never at 0, always at 1.
    pub(crate) fn falls_below(&self, chance: f64) -> bool {
        let step = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // `chance` is 0 to 1, and the conversion saturates.
        let threshold = (chance * 2f64.powi(64)) as u64;
        threshold == u64::MAX || mixed(step) < threshold
    }
}
