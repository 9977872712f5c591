//! Where the array engine lives, and what follows from the size of its tables.

use larder_log::LogPlace;

use crate::key::KeyHasher;

/// A table of the index on flash.
pub(crate) const TABLE_BYTES: u32 = 16 << 10;
/// Entries that a table has room for: 16 bytes each, in four pages of 4 KiB, each of which has a header of its own.
pub(crate) const TABLE_SLOTS: u32 = 1004;
/// Part of the slots that are in use when the cache holds objects of the mean size that it was told, in percent. At
/// this load a page overflows once in 200,000.
const TABLE_LOAD_PERCENT: u64 = 75;
/// A set of the index in DRAM: four entries, a line of the CPU's cache.
pub(crate) const SET_BYTES: u64 = 64;
pub(crate) const SET_ENTRIES: u32 = 4;
/// Room in the snapshot of a clean shutdown for what DRAM knows of a region and of a table, at most.
pub(crate) const REGION_SNAPSHOT_BYTES: u64 = 32;
pub(crate) const TABLE_SNAPSHOT_BYTES: u64 = 32;

/// Where the engine lives, and what it may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrayPlace {
    /// Of its regions: streams 0 to `index_stream` - 1 are groups of times to live, the last one is tables.
    pub(crate) log: LogPlace,
    /// The index is divided into so many tables, evenly by hash:.
    pub(crate) tables: u32,
    /// Sets in DRAM for each of them, at least one.
    pub(crate) sets_per_table: u32,
    /// The stream of tables.
    pub(crate) index_stream: usize,
    /// Upper bound of each group in seconds, ascending: see [`super::groups`].
    pub(crate) groups: &'static [u32],
    /// Objects from this size on, key and value, go to it.
    pub(crate) object_bytes_min: u32,
    /// Whether what is asked for is appended again when its region gives way.
    pub(crate) reinsertion: bool,
    /// Under which hash the index knows a key.
    pub(crate) hasher: KeyHasher,
    /// Smaller than any sequence number that may be believed.
    pub(crate) oldest_sequence: u64,
    /// Number of its first region among the regions of all engines, by which tombstones name them.
    pub(crate) first_region_number: u32,
}

/// How many tables the index of so many bytes of objects needs.
pub(crate) fn tables_for(bytes: u64, mean_object_bytes: u32) -> u32 {
    let objects = bytes / u64::from(mean_object_bytes.max(1));
    let per_table = u64::from(TABLE_SLOTS) * TABLE_LOAD_PERCENT / 100;
    u32::try_from(objects / per_table).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_three_quarters_full() {
        assert_eq!(tables_for(0, 16384), 1);
        assert_eq!(tables_for(1 << 40, 16384), (1 << 26) / 753);
        assert_eq!(tables_for(u64::MAX, 1), u32::MAX);
    }
}
