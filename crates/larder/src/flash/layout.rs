//! How the cache divides its device.
//!
//! ```text
//!   0                metadata_bytes     loc_offset              soc_offset            usable_bytes
//!   ├── superblock ── snapshot ──┼── tombstones ──┼── LOC: regions … ─ gap ─┼── SOC: buckets … ──┤
//! ```

use larder_device::DeviceInfo;

use super::dead_keys::{DEAD_KEY_SNAPSHOT_BYTES, DEAD_KEYS_SNAPSHOT_HEADER_BYTES};
use super::metadata::{SNAPSHOT_HEADER_BYTES, SUPERBLOCK_BYTES};
use super::unit;
use crate::config::{Config, CrashSafety};
use crate::error::Error;
use crate::loc::{self, snapshot::snapshot_bytes_max};
use crate::soc::{BUCKET_BYTES, BUCKET_SNAPSHOT_BYTES};
use crate::tombstones::LogPlace;

const BLOCK: u64 = 4096;
/// The tombstone log gets this part of the cache, at least and at most so much: room for sixteen
/// bytes for each 8 KiB of objects, a fraction of which are replaced before they are evicted.
const LOG_PART: u64 = 512;
const LOG_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=64 << 20;
const REGION_BYTES_AUTO: std::ops::RangeInclusive<u64> = 1 << 20..=32 << 20;
/// With fewer regions, dropping one drops too much of the cache.
const REGIONS_AUTO: u64 = 64;
/// Or as many times the regions that are reclaimed together.
const REGIONS_MIN: u64 = 2;

/// Where on the device each part of the cache lies. All offsets and sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Capacity of the device.
    pub capacity_bytes: u64,
    /// What the cache uses of it.
    pub usable_bytes: u64,
    /// Superblock and snapshot, from 0 on.
    pub metadata_bytes: u64,
    /// The tombstone log, from `metadata_bytes` on; 0 where there is none.
    pub log_bytes: u64,
    /// Where the regions of the large-object engine begin.
    pub loc_offset: u64,
    /// Their number; 0 switches the engine off.
    pub loc_regions: u32,
    /// Their size.
    pub region_bytes: u32,
    /// Where the buckets of the small-object engine begin.
    pub soc_offset: u64,
    /// Their number; 0 switches the engine off.
    pub soc_buckets: u64,
}

impl Layout {
    /// Divides the device as the configuration asks.
    pub(crate) fn plan(config: &Config, info: &DeviceInfo) -> Result<Self, Error> {
        let usable = share(info.capacity_bytes, config.utilization_percent) / BLOCK * BLOCK;
        // Each bucket pays for its share of the snapshot.
        let bucket_cost = (BUCKET_BYTES + BUCKET_SNAPSHOT_BYTES) as u64;
        let soc_space = share(usable, config.soc_percent);
        let log_bytes = match config.crash_safety {
            CrashSafety::Off => 0,
            CrashSafety::Process => {
                (usable / LOG_PART / BLOCK * BLOCK).clamp(*LOG_BYTES.start(), *LOG_BYTES.end())
            }
        };
        let fixed = SUPERBLOCK_BYTES as u64 + BLOCK + log_bytes;
        let soc_buckets = soc_space.min(usable.saturating_sub(fixed)) / bucket_cost;
        let soc_offset = usable - soc_buckets * BUCKET_BYTES as u64;
        let buckets_snapshot = soc_buckets * BUCKET_SNAPSHOT_BYTES as u64;
        let dead_keys_snapshot = dead_keys_snapshot_bytes(log_bytes, soc_buckets);
        let loc_space = soc_offset.saturating_sub(fixed + buckets_snapshot + dead_keys_snapshot);
        let region_bytes = match config.region_bytes {
            Some(bytes) => bytes,
            None if config.ru_aware_eviction => {
                unit::fitting_region_bytes(automatic_region_bytes(loc_space), info)?
            }
            None => automatic_region_bytes(loc_space),
        };
        let region_cost = u64::from(region_bytes) + snapshot_bytes_max(region_bytes);
        let wants_loc = config.soc_percent < 100.0;
        // Regions that are reclaimed together are all there, or none of them.
        let together = u64::from(unit::regions_per_unit(config, info, region_bytes)?.unwrap_or(1));
        let regions_min = REGIONS_MIN * together;
        let loc_regions = if wants_loc { loc_space / region_cost / together * together } else { 0 };
        if wants_loc && loc_regions < regions_min {
            return Err(Error::config(format!(
                "a flash cache of {usable} bytes leaves {loc_space} for the large-object engine: \
                 fewer than {regions_min} regions \
                 of {region_bytes} bytes; use more flash, smaller regions, or soc_percent = 100"
            )));
        }
        if config.soc_percent > 0.0 && soc_buckets == 0 {
            return Err(Error::config(format!(
                "soc_percent = {} of {usable} bytes is less than one bucket; use more flash or \
                 soc_percent = 0",
                config.soc_percent
            )));
        }
        if loc_regions * u64::from(region_bytes) > loc::BYTES_MAX {
            return Err(Error::config(format!(
                "the large-object engine can use {} bytes of one device and would get more; use a \
                 smaller utilization_percent, or several caches",
                loc::BYTES_MAX
            )));
        }
        let snapshot = SNAPSHOT_HEADER_BYTES as u64
            + dead_keys_snapshot
            + buckets_snapshot
            + loc_regions * snapshot_bytes_max(region_bytes);
        let metadata_bytes = SUPERBLOCK_BYTES as u64 + snapshot.next_multiple_of(BLOCK);
        Ok(Self {
            capacity_bytes: info.capacity_bytes,
            usable_bytes: usable,
            metadata_bytes,
            log_bytes,
            loc_offset: metadata_bytes + log_bytes,
            loc_regions: u32::try_from(loc_regions)
                .map_err(|_| Error::config("more than 2^32 regions: use larger ones"))?,
            region_bytes,
            soc_offset,
            soc_buckets,
        })
    }

    /// Where the tombstone log lies, if there is one.
    pub(crate) fn log(&self) -> Option<LogPlace> {
        (self.log_bytes > 0)
            .then_some(LogPlace { offset: self.metadata_bytes, blocks: self.log_bytes / BLOCK })
    }

    /// Longest object (key and value, in bytes) that flash can hold with this layout and this bound
    /// for small ones.
    pub(crate) fn object_bytes_max(&self, soc_max_object_bytes: usize) -> usize {
        let soc = if self.soc_buckets > 0 { soc_max_object_bytes } else { 0 };
        let loc = if self.loc_regions > 0 { loc::object_bytes_max(self.region_bytes) } else { 0 };
        soc.max(loc)
    }
}

/// What the snapshot keeps of dead keys takes at most.
fn dead_keys_snapshot_bytes(log_bytes: u64, soc_buckets: u64) -> u64 {
    if log_bytes == 0 {
        return 0;
    }
    let log = LogPlace { offset: 0, blocks: log_bytes / BLOCK };
    DEAD_KEYS_SNAPSHOT_HEADER_BYTES + log.keys_max(soc_buckets) * DEAD_KEY_SNAPSHOT_BYTES
}

/// A percentage of `bytes`, rounded down.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn share(bytes: u64, percent: f64) -> u64 {
    // The configuration's percentages are 0 to 100, so the product is not negative and not above
    // `bytes`.
    ((bytes as f64 * (percent / 100.0)) as u64).min(bytes)
}

fn automatic_region_bytes(loc_space: u64) -> u32 {
    let wanted = (loc_space / REGIONS_AUTO).max(1);
    let power = 1 << wanted.ilog2();
    let bytes = power.clamp(*REGION_BYTES_AUTO.start(), *REGION_BYTES_AUTO.end());
    u32::try_from(bytes).expect("the range is far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::PlacementInfo;
    use proptest::prelude::*;

    fn info(capacity_bytes: u64) -> DeviceInfo {
        DeviceInfo {
            name: "test".to_owned(),
            capacity_bytes,
            block_bytes: 4096,
            max_transfer_bytes: 1 << 18,
            placement: PlacementInfo::none(),
        }
    }

    #[test]
    fn too_little_flash_is_refused_with_the_way_out() {
        let error = Layout::plan(&Config::default(), &info(1 << 20)).unwrap_err();
        assert!(error.to_string().contains("soc_percent = 100"), "{error}");
    }

    #[test]
    fn all_flash_can_go_to_small_objects() {
        let config = Config { soc_percent: 100.0, ..Config::default() };
        let layout = Layout::plan(&config, &info(64 << 20)).unwrap();
        assert_eq!(layout.loc_regions, 0);
        assert!(layout.soc_buckets > 16_000);
    }

    #[test]
    fn regions_that_share_a_unit_are_all_there() {
        let mut info = info(64 << 20);
        let config = Config { ru_aware_eviction: true, ..Config::default() };
        assert!(Layout::plan(&config, &info).unwrap_err().to_string().contains("does not say"));
        info.placement.reclaim_unit_bytes = Some(5 << 20);
        let layout = Layout::plan(&config, &info).unwrap();
        assert_eq!((layout.region_bytes, layout.loc_regions), (1 << 20, 60));
        info.placement.reclaim_unit_bytes = Some(320 << 10);
        let layout = Layout::plan(&config, &info).unwrap();
        assert_eq!((layout.region_bytes, layout.loc_regions), (960 << 10, 65));
        info.placement.reclaim_unit_bytes = Some(32 << 20);
        let error = Layout::plan(&config, &info).unwrap_err().to_string();
        assert!(error.contains("fewer than 64 regions"), "two units of regions: {error}");
    }

    proptest! {
        #[test]
        fn parts_never_overlap(
            capacity in 4_u64 << 20..4 << 30,
            utilization in 10.0..100.0_f64,
            soc in 0.0..=100.0_f64,
        ) {
            let config = Config { utilization_percent: utilization, soc_percent: soc, ..Config::default() };
            if let Ok(layout) = Layout::plan(&config, &info(capacity / 4096 * 4096)) {
                let loc_end = layout.loc_offset + u64::from(layout.loc_regions) * u64::from(layout.region_bytes);
                prop_assert_eq!(layout.metadata_bytes + layout.log_bytes, layout.loc_offset);
                prop_assert!(loc_end <= layout.soc_offset, "{layout:?}");
                prop_assert_eq!(layout.soc_offset + layout.soc_buckets * 4096, layout.usable_bytes);
                prop_assert!(layout.usable_bytes <= capacity);
                prop_assert_eq!(layout.loc_offset % 4096, 0);
            }
        }
    }
}
