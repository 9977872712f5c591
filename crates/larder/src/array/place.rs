//! Where the array engine lives, and what follows from the size of its tables.

use std::time::Duration;

use larder_log::{LogPlace, Region};

use super::entry::OBJECT_BYTES_MAX;
use super::memory::ArrayMemory;
use super::table::{TABLE_BYTES, TABLE_ENTRIES};
use crate::flash_region::FlashRegion;
use crate::key::KeyHasher;
use crate::long::{self, part_bytes};
use crate::plan::Class;

/// Part of the slots that are in use when the cache holds objects of the mean size that it was told, in percent. At
/// this load a page overflows once in 200,000.
const TABLE_LOAD_PERCENT: u64 = 75;
/// Parts are as long as those of regions of this size where regions are longer.
const PARTS_FROM_REGION_BYTES_MAX: u32 = 64 << 20;
/// Tables are written anew while what is alive in their regions is moved together: with so many times the regions that
/// they fill, about half of one is alive when its turn comes.
const TABLE_REGIONS_FACTOR: usize = 2;

/// Where the engine lives, and what it may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArrayPlace {
    /// Of its regions: streams 0 to `index_stream` - 1 are groups of times to live, the last one is tables.
    pub(crate) log: LogPlace,
    /// The index is divided into so many tables, evenly by hash.
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
    /// What all of this takes.
    pub(crate) memory: ArrayMemory,
    /// Under which hash the index knows a key.
    pub(crate) hasher: KeyHasher,
    /// Smaller than any sequence number that may be believed.
    pub(crate) oldest_sequence: u64,
    /// Number of its first region among the regions of all engines, by which tombstones name them.
    pub(crate) first_region_number: u32,
}

impl ArrayPlace {
    /// Longest object (key and value) in one record: it fits a region, and its length an entry of the index.
    pub(super) fn record_object_bytes_max(&self) -> usize {
        let in_region = self.log.form.object_bytes_max(self.log.region_bytes as usize);
        in_region.min(OBJECT_BYTES_MAX)
    }

    /// Longest value of a part.
    pub(super) fn part_bytes(&self) -> usize {
        // Of an eighth of the largest region an entry could not tell the length.
        let region_bytes = self.log.region_bytes.min(PARTS_FROM_REGION_BYTES_MAX);
        part_bytes(self.log.form, region_bytes)
    }

    /// Longest object, in parts or whole. What streams fill and tables take does not hold parts of one value for long.
    pub(super) fn object_bytes_max(&self) -> usize {
        let others = self.log.streams.len() + self.table_regions_max();
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        let regions = self.log.regions.saturating_sub(others);
        long::object_bytes_max(regions, self.log.region_bytes).max(self.record_object_bytes_max())
    }

    /// From so many regions of tables on, one is emptied for each that is opened.
    pub(super) fn table_regions_max(&self) -> usize {
        let taken = self.log.form.bytes_of_record(0) + TABLE_BYTES;
        let in_region = (self.log.region_bytes as usize / taken).max(1);
        TABLE_REGIONS_FACTOR * (self.tables as usize).div_ceil(in_region) + TABLE_REGIONS_FACTOR
    }

    /// A region as others see it.
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

/// How many tables the index of so many bytes of objects needs.
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
