//! One budget for all memory: the DRAM tier gives way to what flash needs.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Larder;
use crate::error::Error;
use crate::flash::Flash;

/// The tier keeps this part of the budget, whatever flash needs.
const TIER_PART_MIN: u64 = 8;
/// The tier gets back what is more than this part of the budget.
const SLACK_PART: u64 = 32;
/// So many times something is sent to flash between two looks at what flash needs.
const SENT_PER_LOOK: u64 = 64;

/// The budget of everything, where there is one.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    /// 0: none, the tier has a budget of its own.
    bytes: AtomicU64,
    sent: AtomicU64,
}

impl MemoryBudget {
    pub(super) fn new(bytes: Option<u64>) -> Self {
        Self { bytes: AtomicU64::new(bytes.unwrap_or(0)), sent: AtomicU64::new(0) }
    }

    /// What is left for the tier beside flash.
    ///
    /// # Errors
    /// If that is too little from the start.
    pub(super) fn first_share(bytes: u64, flash: Option<&Flash>) -> Result<u64, Error> {
        let needed = flash.map_or(0, Flash::memory_bytes);
        if needed > bytes - bytes / TIER_PART_MIN {
            let least = needed.saturating_mul(TIER_PART_MIN) / (TIER_PART_MIN - 1) + 1;
            return Err(Error::config(format!(
                "memory_bytes = {bytes}: flash alone needs {needed} of it; set at least {least}, or \
                 use less flash"
            )));
        }
        Ok(bytes - needed)
    }
}

impl Larder {
    /// Something went to flash, which may need more memory for it.
    pub(super) fn keep_memory_budget(&self) {
        let all = self.memory.bytes.load(Ordering::Relaxed);
        let is_due =
            || self.memory.sent.fetch_add(1, Ordering::Relaxed).is_multiple_of(SENT_PER_LOOK);
        if all > 0 && is_due() {
            self.divide_memory(all);
        }
    }

    fn divide_memory(&self, all: u64) {
        let needed = self.flash.as_ref().map_or(0, Flash::memory_bytes);
        let share = all.saturating_sub(needed).max(all / TIER_PART_MIN);
        // Buffers come and go; the tier need not breathe with them.
        let has = self.dram.budget_bytes();
        if share < has || share - has > all / SLACK_PART {
            self.dram.set_budget(share);
        }
    }

    /// Changes [`Config::memory_bytes`](crate::Config::memory_bytes): from now on that many bytes are
    /// for everything. What is above a smaller budget leaves as new items come.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// cache.set_memory_bytes(8 << 20);
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert!(cache.stats().dram_used_bytes <= 8 << 20);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.memory.bytes.store(bytes.max(1), Ordering::Relaxed);
        self.divide_memory(bytes);
    }

    /// Changes the budget of the DRAM tier, in bytes; there is no budget of everything then. What is
    /// above a smaller one leaves as new items come.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// cache.set_dram_bytes(8 << 20);
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(cache.stats().dram_items, 1);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn set_dram_bytes(&self, bytes: u64) {
        self.memory.bytes.store(0, Ordering::Relaxed);
        self.dram.set_budget(bytes);
    }
}
