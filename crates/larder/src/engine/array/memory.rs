//! Memory of the array, item by item, and how a single budget is divided among the items.

use std::fmt;

use larder_log::{Region, buffer_bytes};

use super::dead::DEATHS_PER_TABLE;
use super::entry::ENTRY_BYTES;
use super::index::Descriptor;
use super::set::{IndexSet, WAYS};
use super::stored::snapshot_bytes;
use super::table::TABLE_ENTRIES;
use crate::base::error::Error;
use crate::config::ArrayConfig;

/// Without a budget, DRAM holds entries for `1 / INDEX_PART` of the objects.
const INDEX_PART: u64 = 8;
const SET_BYTES: u64 = size_of::<IndexSet>() as u64;
/// A key and its index, in a tree that is two thirds full.
const DEATH_BYTES: u64 = 24;
/// In addition to the open regions, one may wait for its last write.
const CLOSED_MAX: u64 = 1;

/// Maximum memory of the array engine in bytes, item by item ([`Larder::array_memory`](crate::Larder::array_memory)).
/// Not included: values that are being read, and values longer than a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ArrayMemory {
    /// Entries of the index in DRAM, in sets of four.
    pub sets_bytes: u64,
    /// Where each table of the index lies on flash.
    pub tables_bytes: u64,
    /// State of each region.
    pub regions_bytes: u64,
    /// Maximum for dead keys that tables on flash do not know yet.
    pub tombstones_bytes: u64,
    /// Data that waits to be written or is being written.
    pub buffers_bytes: u64,
    /// The engine's part of the snapshot, while a close writes it.
    pub snapshot_bytes: u64,
}

/// The sizes from which the memory of an array follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) regions: u32,
    pub(crate) region_bytes: u32,
    pub(crate) tables: u32,
    pub(crate) groups: u32,
    /// Maximum number of dead keys of tables in the tombstone log; `None` without a log.
    pub(crate) dead_keys_max: Option<u64>,
}

impl ArrayMemory {
    /// The sum of all items.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lines().iter().map(|(_, bytes)| bytes).sum()
    }

    /// A description of each item, and its bytes.
    #[must_use]
    pub fn lines(&self) -> [(&'static str, u64); 6] {
        [
            ("sets of the index", self.sets_bytes),
            ("descriptors of tables", self.tables_bytes),
            ("regions", self.regions_bytes),
            ("tombstones", self.tombstones_bytes),
            ("write buffers", self.buffers_bytes),
            ("snapshot", self.snapshot_bytes),
        ]
    }

    /// Plans the memory of an array of this size. The sets get what is configured for them, or what
    /// [`ArrayConfig::memory_bytes`] leaves, or a fraction of all entries.
    ///
    /// # Errors
    /// If that is less than one set for each table, or if the total exceeds the budget.
    pub(crate) fn plan(config: &ArrayConfig, sizes: Sizes) -> Result<Self, Error> {
        let others = Self::beside_sets(config, sizes);
        let array_bytes = u64::from(sizes.regions) * u64::from(sizes.region_bytes);
        let tables = u64::from(sizes.tables.max(1));
        let least = tables * SET_BYTES;
        let chosen = config.index_bytes.or_else(|| {
            let budget = config.memory_bytes?;
            Some(budget.saturating_sub(others.total_bytes()))
        });
        let objects = array_bytes / u64::from(config.mean_object_bytes);
        let sets = match chosen {
            None => (objects * ENTRY_BYTES as u64 / INDEX_PART / SET_BYTES / tables).max(1),
            // More entries than a table has are useless.
            Some(bytes) => (bytes / SET_BYTES / tables).min((TABLE_ENTRIES / WAYS) as u64),
        };
        if let (0, Some(bytes)) = (sets, config.index_bytes) {
            return Err(Error::config(format!(
                "array.index_bytes = {bytes}: {array_bytes} bytes of objects of {} have {tables} tables, and each \
                 needs {SET_BYTES} bytes; use at least {least}, or a larger array.mean_object_bytes",
                config.mean_object_bytes
            )));
        }
        let sets_bytes = (sets * SET_BYTES * tables).max(least);
        let memory = Self { sets_bytes, ..others };
        let total = memory.total_bytes();
        match config.memory_bytes {
            Some(budget) if budget < total => Err(Error::config(format!(
                "array.memory_bytes = {budget}: an array of {array_bytes} bytes, with {tables} tables, needs {total} \
                 ({memory}); use at least that, a larger array.mean_object_bytes, or smaller array.open_bytes"
            ))),
            _ => Ok(memory),
        }
    }

    fn beside_sets(config: &ArrayConfig, sizes: Sizes) -> Self {
        let Sizes { regions, region_bytes, tables, groups, dead_keys_max } = sizes;
        let array_bytes = u64::from(regions) * u64::from(region_bytes);
        let (regions, tables) = (u64::from(regions), u64::from(tables));
        let dead = dead_keys_max.unwrap_or(tables * DEATHS_PER_TABLE as u64);
        let lengths = (region_bytes, config.write_bytes.min(region_bytes));
        let streams = (u64::from(groups) + 1, CLOSED_MAX);
        Self {
            sets_bytes: 0,
            tables_bytes: tables * size_of::<Descriptor>() as u64,
            regions_bytes: regions * size_of::<Region>() as u64,
            tombstones_bytes: dead * DEATH_BYTES,
            buffers_bytes: buffer_bytes(streams, lengths, config.open_bytes_of(array_bytes) as u64),
            snapshot_bytes: snapshot_bytes(sizes.tables, groups, sizes.regions),
        }
    }

    /// Sets in DRAM for each table.
    pub(crate) fn sets_per_table(&self, tables: u32) -> u32 {
        let sets = self.sets_bytes / SET_BYTES / u64::from(tables.max(1));
        u32::try_from(sets).expect("a table has 251 sets at most")
    }
}

impl fmt::Display for ArrayMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (what, bytes)) in self.lines().into_iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{what} {bytes}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        regions: 160,
        region_bytes: 1 << 20,
        tables: 10,
        groups: 32,
        dead_keys_max: Some(1000),
    };

    fn plan(config: &ArrayConfig) -> Result<ArrayMemory, String> {
        ArrayMemory::plan(config, SIZES).map_err(|error| error.to_string())
    }

    #[test]
    fn a_budget_of_the_index_has_a_set_for_each_table() {
        let sets = |index_bytes, (regions, tables)| {
            let config = ArrayConfig { index_bytes, ..ArrayConfig::default() };
            let sizes = Sizes { regions, tables, ..SIZES };
            let planned = ArrayMemory::plan(&config, sizes).map(|it| it.sets_per_table(tables));
            planned.map_err(|error| error.to_string())
        };
        // 2 bytes for each of 753 objects per table.
        assert_eq!(sets(None, (118, 10)), Ok(23));
        assert_eq!(sets(Some(64 * 10 * 5 + 63), (1024, 10)), Ok(5));
        assert_eq!(sets(Some(1 << 40), (1024, 10)), Ok(251));
        let said = sets(Some(639), (128, 10)).unwrap_err();
        assert!(
            said.contains("array.index_bytes = 639") && said.contains("use at least 640"),
            "{said}"
        );
    }

    #[test]
    fn one_budget_has_room_for_all_of_it_or_says_how_much_would() {
        let with = |memory_bytes, index_bytes| {
            plan(&ArrayConfig { memory_bytes, index_bytes, ..ArrayConfig::default() })
        };
        let usual = with(None, None).unwrap();
        assert!(usual.lines().iter().all(|(_, bytes)| *bytes > 0), "{usual}");
        assert_eq!(usual.tombstones_bytes, 24_000);
        // What the other items leave goes to the sets, in whole sets for each table.
        let most = with(Some(usual.total_bytes() + 640 * 7 + 639), None).unwrap();
        assert_eq!(most.sets_bytes, usual.sets_bytes + 640 * 7);
        assert_eq!(with(Some(1 << 40), None).unwrap().sets_per_table(10), 251);
        assert_eq!(with(Some(usual.total_bytes()), Some(6400)).unwrap().sets_bytes, 6400);
        let said = with(Some(1 << 20), None).unwrap_err();
        let least = usual.total_bytes() - usual.sets_bytes + 640;
        assert!(said.contains("array.memory_bytes = 1048576"), "{said}");
        assert!(said.contains(&format!("needs {least} (sets of the index 640, ")), "{said}");
        assert!(with(Some(least), None).is_ok() && with(Some(least - 1), None).is_err());
    }
}
