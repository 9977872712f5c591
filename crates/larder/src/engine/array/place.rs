//! Where the array engine's data lies, and what follows from the size of its tables.

use std::time::Duration;

use larder_device::plan::Class;
use larder_log::{LogPlace, Region};

use super::entry::OBJECT_BYTES_MAX;
use super::memory::ArrayMemory;
use super::table::{TABLE_BYTES, TABLE_ENTRIES};
use crate::base::key::KeyHasher;
use crate::engine::flash_region::FlashRegion;
use crate::engine::long::{self, part_bytes};

/// Percentage of a table's slots in use when the cache is full of objects of the configured mean size. At this load,
/// one page in 200,000 overflows.
const TABLE_LOAD_PERCENT: u64 = 75;
/// With larger regions, parts have the size that regions of this size would give them.
const PARTS_FROM_REGION_BYTES_MAX: u32 = 64 << 20;
/// Tables are rewritten, and live tables in their regions are moved together. With this factor times the regions that
/// they fill, about half of a region is live when it is emptied.
const TABLE_REGIONS_FACTOR: usize = 2;

/// Where the engine's data lies, and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrayPlace {
    /// Location and settings of its regions: streams 0 to `index_stream` - 1 are TTL groups, the last stream is tables.
    pub(crate) log: LogPlace,
    /// Number of tables, among which the index is divided evenly by hash.
    pub(crate) tables: u32,
    /// Sets in DRAM for each table, at least one.
    pub(crate) sets_per_table: u32,
    /// The stream of tables.
    pub(crate) index_stream: usize,
    /// Upper bound of each group in seconds, ascending: see [`crate::base::ttl_groups`].
    pub(crate) groups: &'static [u32],
    /// Objects of at least this size, key and value, go to the engine.
    pub(crate) object_bytes_min: u32,
    /// Whether requested objects are appended again when their region is reclaimed.
    pub(crate) reinsertion: bool,
    /// The planned memory.
    pub(crate) memory: ArrayMemory,
    /// Hashes keys for the index.
    pub(crate) hasher: KeyHasher,
    /// Oldest valid sequence number of a filling.
    pub(crate) oldest_sequence: u64,
    /// Number of its first region among the regions of all engines; tombstones use these numbers.
    pub(crate) first_region_number: u32,
}

impl ArrayPlace {
    /// Longest object (key and value) in one record: it fits into a region, and its length fits into an index entry.
    pub(super) fn record_object_bytes_max(&self) -> usize {
        let in_region = self.log.form.object_bytes_max(self.log.region_bytes as usize);
        in_region.min(OBJECT_BYTES_MAX)
    }

    /// Longest value of a part.
    pub(super) fn part_bytes(&self) -> usize {
        // With an eighth of the largest region, the length would not fit into an index entry.
        let region_bytes = self.log.region_bytes.min(PARTS_FROM_REGION_BYTES_MAX);
        part_bytes(self.log.form, region_bytes)
    }

    /// Longest object, in parts or whole. Regions that are being filled and regions of tables are subtracted, because
    /// they do not hold the parts of a value for long.
    pub(super) fn object_bytes_max(&self) -> usize {
        let others = self.log.streams.len() + self.table_regions_max();
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        let regions = self.log.regions.saturating_sub(others);
        long::object_bytes_max(regions, self.log.region_bytes).max(self.record_object_bytes_max())
    }

    /// If there are at least this number of table regions, one is emptied for each that is opened.
    pub(super) fn table_regions_max(&self) -> usize {
        let taken = self.log.form.bytes_of_record(0) + TABLE_BYTES;
        let in_region = (self.log.region_bytes as usize / taken).max(1);
        TABLE_REGIONS_FACTOR * (self.tables as usize).div_ceil(in_region) + TABLE_REGIONS_FACTOR
    }

    /// The public description of a region.
    pub(super) fn describe(&self, number: u32, region: &Region) -> FlashRegion {
        let stream = region.stream().filter(|&stream| stream <= self.index_stream);
        let class = |stream: usize| match stream == self.index_stream {
            true => Class::ArrayTables,
            false => Class::ArrayGroup(u16::try_from(stream).unwrap_or(u16::MAX)),
        };
        FlashRegion {
            number,
            state: region.state(),
            sequence: region.sequence(),
            class: stream.map(class),
            handle: region.handle().or(stream.map(|stream| self.log.streams[stream].handle)),
            begun: region.begun_s().map(|seconds| Duration::from_secs(seconds.into())),
        }
    }
}

/// Number of tables that the index of `bytes` bytes of objects needs.
pub(crate) fn tables_for(bytes: u64, mean_object_bytes: u32) -> u32 {
    let objects = bytes / u64::from(mean_object_bytes.max(1));
    let per_table = TABLE_ENTRIES as u64 * TABLE_LOAD_PERCENT / 100;
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
