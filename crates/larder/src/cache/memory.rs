//! One budget for all memory: computes the DRAM tier's share next to the needs of flash.

use std::sync::atomic::{AtomicU64, Ordering};

use larder_device::DeviceInfo;

use crate::base::error::Error;
use crate::config::{Config, DRAM_BYTES_MIN};
use crate::flash::{self, Flash};

/// The tier keeps at least this fraction of the budget (reciprocal), whatever flash needs.
const TIER_PART_MIN: u64 = 8;
/// A tier budget that is too small by less than this fraction of the whole (reciprocal) is not changed.
const SLACK_PART: u64 = 32;
/// Number of writes to flash between two checks of its memory needs.
const SENT_PER_LOOK: u64 = 64;
const _: () = assert!(
    1 < TIER_PART_MIN && TIER_PART_MIN < SLACK_PART,
    "flash has a part of the budget too, and a change that stays out is less than any part"
);

/// The budget of all memory, if there is one.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    /// 0: there is none, and the tier has its own budget.
    bytes: AtomicU64,
    sent: AtomicU64,
}

impl MemoryBudget {
    pub(super) fn new(bytes: Option<u64>) -> Self {
        let bytes = AtomicU64::new(bytes.unwrap_or(0));
        Self { bytes, sent: AtomicU64::new(0) }
    }

    /// Sets the budget; 0 means none.
    pub(super) fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// The budget; 0 means none.
    pub(super) fn get(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Called after a write to flash, which may need more memory for it. Returns the budget if it must be divided
    /// anew.
    pub(super) fn due(&self) -> Option<u64> {
        let all = self.bytes.load(Ordering::Relaxed);
        let is_due = || self.sent.fetch_add(1, Ordering::Relaxed).is_multiple_of(SENT_PER_LOOK);
        (all > 0 && is_due()).then_some(all)
    }

    /// The tier's first share of `bytes`: what flash leaves.
    ///
    /// # Errors
    /// If that is too little from the start.
    pub(super) fn first_share(bytes: u64, flash: Option<&Flash>) -> Result<u64, Error> {
        let needed = flash.map_or(0, Flash::memory_bytes_to_keep);
        check_all(bytes, needed, DRAM_BYTES_MIN, "flash")?;
        let left = bytes - needed;
        debug_assert!(left >= DRAM_BYTES_MIN, "a tier of {left} bytes beside {needed} of flash");
        Ok(left)
    }
}

/// Refuses a budget of all memory that is too small for caches on these devices, before anything is written to them.
pub(crate) fn check_before<'a>(
    bytes: Option<u64>,
    caches: impl Iterator<Item = (&'a Config, DeviceInfo)>,
    flash: &str,
) -> Result<(), Error> {
    let Some(bytes) = bytes else { return Ok(()) };
    let (mut needed, mut tiers_min) = (0, 0);
    for (config, info) in caches {
        needed += flash::memory_bytes_needed(config, &info)?;
        tiers_min += DRAM_BYTES_MIN;
    }
    check_all(bytes, needed, tiers_min, flash)
}

/// Refuses a budget of all memory that leaves DRAM too little, less than `dram_min`, after the needs of flash.
/// `flash` names the flash in the error.
pub(super) fn check_all(bytes: u64, needed: u64, dram_min: u64, flash: &str) -> Result<(), Error> {
    let dram = (bytes / TIER_PART_MIN).max(dram_min);
    if needed.saturating_add(dram) <= bytes {
        return Ok(());
    }
    let least = needed.saturating_mul(TIER_PART_MIN) / (TIER_PART_MIN - 1) + 1;
    let least = least.max(needed.saturating_add(dram_min));
    Err(Error::config(format!(
        "memory_bytes = {bytes}: {flash} alone needs {needed} of it, and DRAM what is left; set at least \
         {least}, or use less flash, or a smaller loc.write_bytes"
    )))
}

/// DRAM's share of a budget of all memory.
pub(super) fn left_for_dram(bytes: u64, needed: u64) -> u64 {
    let left = bytes.saturating_sub(needed).max(bytes / TIER_PART_MIN);
    debug_assert!(left <= bytes, "a part of {bytes}: {left}");
    left
}

/// Whether a tier should get the new `budget`. Buffers come and go, so a small increase, as a fraction of `all`, is
/// ignored.
pub(super) fn is_another(budget: u64, has: u64, all: u64) -> bool {
    budget < has || budget - has > all / SLACK_PART
}
