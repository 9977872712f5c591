//! Divides the array engine's share of the device into regions, and computes how many tables its index has.

use crate::base::error::Error;
use crate::config::ArrayConfig;
use crate::engine::array::memory::{ArrayMemory, Sizes};
use crate::engine::array::place::tables_for;
use crate::engine::array::stored::{REGION_SNAPSHOT_BYTES, snapshot_bytes};

use super::dead_keys::DEAD_KEY_SNAPSHOT_BYTES;
use super::snapshot::PART_HEADER_BYTES;
use crate::engine::tombstones::TombstonesPlace;

/// Target number of regions. With fewer, dropping one region drops too much of the cache.
const REGIONS_AUTO: u64 = 96;
const REGION_BYTES_AUTO: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 20;
/// Regions needed in addition to the open ones: one whose last write is in flight, and one to reclaim.
const REGIONS_BESIDE_OPEN: u64 = 2;

/// The engine's part of the device.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArrayLayout {
    pub(super) regions: u32,
    pub(super) region_bytes: u32,
    pub(super) tables: u32,
    pub(super) groups: u32,
    /// Bytes that the snapshot reserves for it, dead keys included.
    pub(super) snapshot_bytes: u64,
}

impl ArrayLayout {
    /// Divides `space` bytes. Each region and each table pays for its part of the snapshot, and so do the dead keys if
    /// there is a tombstone log.
    ///
    /// # Errors
    /// If the result is too few regions, or if there is too little memory for the index.
    pub(super) fn plan(
        config: &ArrayConfig,
        space: u64,
        tombstones: Option<TombstonesPlace>,
    ) -> Result<Self, Error> {
        if !config.is_on() {
            return Ok(Self::default());
        }
        let region_bytes = config.region_bytes.unwrap_or_else(|| automatic_region_bytes(space));
        let groups = config.groups();
        // Upper bound: the number of tables if the tables themselves took no space.
        let tables_max = tables_for(space, config.mean_object_bytes);
        let beside_regions = parts_bytes((tables_max, groups, 0), tombstones);
        let left = space.saturating_sub(beside_regions);
        let regions = left / (u64::from(region_bytes) + REGION_SNAPSHOT_BYTES);
        let least = u64::from(groups) + 1 + REGIONS_BESIDE_OPEN;
        if regions < least {
            return Err(Error::config(format!(
                "array.percent = {} leaves {space} bytes for the array engine: fewer than {least} regions of \
                 {region_bytes} bytes, which {groups} groups of times to live and the index need; use more flash, a \
                 larger share, smaller array.region_bytes, or array.ttl_groups = false",
                config.percent
            )));
        }
        let bytes = regions * u64::from(region_bytes);
        let tables = tables_for(bytes, config.mean_object_bytes);
        debug_assert!(tables <= tables_max, "the snapshot has room for {tables} tables");
        let regions = u32::try_from(regions)
            .map_err(|_| Error::config("more than 2^32 regions: use larger array.region_bytes"))?;
        let snapshot_bytes = parts_bytes((tables, groups, regions), tombstones);
        let layout = Self { regions, region_bytes, tables, groups, snapshot_bytes };
        ArrayMemory::plan(config, layout.sizes(tombstones))?;
        Ok(layout)
    }

    /// The sizes from which the engine's memory follows.
    fn sizes(&self, tombstones: Option<TombstonesPlace>) -> Sizes {
        let Self { regions, region_bytes, tables, groups, .. } = *self;
        let dead_keys_max = tombstones.map(|log| log.table_keys_max(tables));
        Sizes { regions, region_bytes, tables, groups, dead_keys_max }
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.regions) * u64::from(self.region_bytes)
    }
}

/// Upper bound of the snapshot bytes for these numbers of tables, groups and regions, and for the dead keys in the
/// tables. Two parts: one of the engine, one of the keys.
fn parts_bytes(
    (tables, groups, regions): (u32, u32, u32),
    tombstones: Option<TombstonesPlace>,
) -> u64 {
    let keys = tombstones.map_or(0, |log| log.table_keys_max(tables));
    2 * PART_HEADER_BYTES as u64
        + snapshot_bytes(tables, groups, regions)
        + keys * DEAD_KEY_SNAPSHOT_BYTES
}

fn automatic_region_bytes(space: u64) -> u32 {
    let power = 1 << (space / REGIONS_AUTO).max(1).ilog2();
    let bytes = power.clamp(*REGION_BYTES_AUTO.start(), *REGION_BYTES_AUTO.end());
    u32::try_from(bytes).expect("the range is far below 4 GiB")
}
