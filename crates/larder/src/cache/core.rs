//! The state that the cache shares with the sender of demotions: its own thread, or a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::gate::Gate;
use super::memory::MemoryBudget;
use crate::base::key::KeyHash;
use crate::base::time::CacheClock;
use crate::dram::DramTier;
use crate::flash::Flash;
use crate::observe::stats::Counters;

/// Number of key locks. Two keys with the same lock wait for each other needlessly.
pub(super) const STRIPES: usize = 1024;

/// The tiers, and the locks that keep them consistent.
pub(super) struct Core {
    pub(super) gate: Gate,
    pub(super) dram: DramTier,
    pub(super) flash: Option<Arc<Flash>>,
    pub(super) stripes: Vec<async_lock::Mutex<()>>,
    /// For each stripe: the hash of the key for which it is held to change that key; else 0.
    pub(super) changing: Vec<AtomicU64>,
    pub(super) memory: MemoryBudget,
    pub(super) clock: Arc<CacheClock>,
    pub(super) counters: Arc<Counters>,
}

/// A held key lock.
pub(super) struct KeyLock<'a> {
    changing: &'a AtomicU64,
    _guard: async_lock::MutexGuard<'a, ()>,
}

impl Drop for KeyLock<'_> {
    fn drop(&mut self) {
        self.changing.store(0, Ordering::SeqCst); // before others get the lock
    }
}

impl Core {
    /// Locks a key. Without flash there are no two tiers to keep consistent, and no lock.
    pub(super) async fn lock_key(&self, hash: KeyHash) -> Option<KeyLock<'_>> {
        self.flash.as_ref()?;
        let stripe = self.stripe(hash);
        let guard = self.stripes[stripe].lock().await;
        let changing = &self.changing[stripe];
        changing.store(hash.0, Ordering::SeqCst);
        Some(KeyLock { changing, _guard: guard })
    }

    /// Whether the holder of its lock is changing this key now, or another key with its hash.
    pub(super) fn is_changing(&self, hash: KeyHash) -> bool {
        self.changing[self.stripe(hash)].load(Ordering::SeqCst) == hash.0
    }

    /// Whether the key's lock is held, as it must be for a change (rule 1). `true` without flash, where there are no
    /// key locks.
    pub(super) fn is_key_locked(&self, hash: KeyHash) -> bool {
        self.flash.is_none() || self.stripes[self.stripe(hash)].try_lock().is_none()
    }

    /// The stripe of a key.
    pub(super) fn stripe(&self, hash: KeyHash) -> usize {
        debug_assert_eq!(self.stripes.len(), STRIPES, "a key has the same lock for good");
        let stripe = hash.spread_over(self.stripes.len() as u64);
        usize::try_from(stripe).expect("below the number of stripes")
    }

    pub(super) fn now_s(&self) -> u32 {
        self.clock.now_s()
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}
