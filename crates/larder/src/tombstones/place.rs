//! Where the log lies, and how much it has room for.

use super::block::{BLOCK_BYTES, ENTRIES_MAX};
use super::number::BlockNumber;

/// Blocks that are kept free: what is copied must be durable before its origin is overwritten.
pub(super) const SPARE_BLOCKS: u64 = 2;
/// Above this part of the log's room tombstones of keys are worked off.
const KEYS_PART: u64 = 4;
/// Buckets for each dead key that may wait to be worked off.
const BUCKETS_PER_KEY: u64 = 8;
/// At least so many dead keys may wait.
const KEYS_MIN: u64 = 64;

/// Where the log lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TombstonesPlace {
    pub(crate) offset: u64,
    pub(crate) blocks: u64,
}

impl TombstonesPlace {
    /// Tombstones that the log has room for.
    pub(super) fn entries(&self) -> u64 {
        self.blocks.saturating_sub(SPARE_BLOCKS) * ENTRIES_MAX as u64
    }

    /// How many dead keys may wait for their buckets.
    pub(crate) fn keys_max(&self, buckets: u64) -> u64 {
        (self.entries() / KEYS_PART).min(buckets / BUCKETS_PER_KEY + KEYS_MIN)
    }

    pub(super) fn slot_offset(&self, number: BlockNumber) -> u64 {
        debug_assert!(self.blocks > SPARE_BLOCKS, "a ring has room beside what is spare: {self:?}");
        self.offset + number.slot(self.blocks) * BLOCK_BYTES as u64
    }
}
