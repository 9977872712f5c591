//! Where the log lies, and how much it has room for.

use super::block::{BLOCK_BYTES, ENTRIES_MAX};
use super::dead::KeysIn;
use super::number::BlockNumber;
use crate::base::layout::Layout;

/// Blocks that are kept free: copies must be durable before their originals are overwritten.
pub(super) const SPARE_BLOCKS: u64 = 2;
/// Bucket keys may have tombstones in `1 / KEYS_PART` of the log's room; from half of that on they are worked off.
const KEYS_PART: u64 = 4;
/// Number of buckets for each dead key that may wait to be worked off.
const BUCKETS_PER_KEY: u64 = 8;
/// Dead keys that may wait for each table of the array's index. A table has about a thousand objects, and is written
/// when its entries in memory have changed: until then, each replaced object may have a tombstone.
const KEYS_PER_TABLE: u64 = 256;
/// Minimum number of dead keys that may wait.
const KEYS_MIN: u64 = 64;
/// Dead keys in tables may take `1 / TABLE_KEYS_PART` of the log's room, in addition to those in buckets.
const TABLE_KEYS_PART: u64 = 8;

/// Where the log lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TombstonesPlace {
    pub(crate) offset: u64,
    pub(crate) blocks: u64,
}

impl TombstonesPlace {
    /// Number of tombstones that the log has room for.
    pub(super) fn entries(&self) -> u64 {
        self.blocks.saturating_sub(SPARE_BLOCKS) * ENTRIES_MAX as u64
    }

    /// Maximum number of dead keys that may wait for their buckets or tables.
    pub(crate) fn keys_max(&self, keys: KeysIn, layout: &Layout) -> u64 {
        match keys {
            KeysIn::Buckets => self.bucket_keys_max(layout.soc_buckets),
            KeysIn::Tables => self.table_keys_max(layout.array_tables),
        }
    }

    pub(crate) fn bucket_keys_max(&self, buckets: u64) -> u64 {
        (self.entries() / KEYS_PART).min(buckets / BUCKETS_PER_KEY + KEYS_MIN)
    }

    /// 0 without tables.
    pub(crate) fn table_keys_max(&self, tables: u32) -> u64 {
        let wanted = if tables > 0 { u64::from(tables) * KEYS_PER_TABLE + KEYS_MIN } else { 0 };
        wanted.min(self.entries() / TABLE_KEYS_PART)
    }

    pub(super) fn slot_offset(&self, number: BlockNumber) -> u64 {
        debug_assert!(self.blocks > SPARE_BLOCKS, "a ring has room beside what is spare: {self:?}");
        self.offset + number.slot(self.blocks) * BLOCK_BYTES as u64
    }
}
