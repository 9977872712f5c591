//! What the cache shares with whoever sends to flash what leaves DRAM: a thread of its own, or a task.

use std::sync::Arc;

use super::gate::Gate;
use super::memory::MemoryBudget;
use crate::dram::DramTier;
use crate::flash::Flash;
use crate::key::KeyHash;
use crate::stats::Counters;
use crate::time::CacheClock;

/// Locks for all keys: two keys that share one only wait needlessly.
pub(super) const STRIPES: usize = 1024;

/// The tiers, and what keeps them in step.
pub(super) struct Core {
    pub(super) gate: Gate,
    pub(super) dram: DramTier,
    pub(super) flash: Option<Flash>,
    pub(super) stripes: Vec<async_lock::Mutex<()>>,
    pub(super) memory: MemoryBudget,
    pub(super) clock: Arc<CacheClock>,
    pub(super) counters: Arc<Counters>,
}

impl Core {
    /// The lock of a key. Without flash there is nothing to keep in step.
    pub(super) async fn lock_key(&self, hash: KeyHash) -> Option<async_lock::MutexGuard<'_, ()>> {
        match &self.flash {
            Some(_) => Some(self.stripes[self.stripe(hash)].lock().await),
            None => None,
        }
    }

    /// Whether somebody holds the lock of a key, as who changes it must (rule 1). Without flash nobody does.
    pub(super) fn is_key_locked(&self, hash: KeyHash) -> bool {
        self.flash.is_none() || self.stripes[self.stripe(hash)].try_lock().is_none()
    }

    /// Which lock is a key's.
    pub(super) fn stripe(&self, hash: KeyHash) -> usize {
        debug_assert_eq!(self.stripes.len(), STRIPES, "a key has the same lock for good");
        let stripe = hash.spread_over(self.stripes.len() as u64);
        usize::try_from(stripe).expect("below the number of stripes")
    }

    pub(super) fn now_s(&self) -> u32 {
        self.clock.now_s()
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX)
    }
}
