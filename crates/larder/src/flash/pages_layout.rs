//! Divides the small-object engine's share of the device into regions for pages by set, and computes how many sets
//! there are.

use larder_device::DeviceInfo;

use super::snapshot::PART_HEADER_BYTES;
use crate::base::error::Error;
use crate::base::layout::Layout;
use crate::config::Config;
use crate::engine::pages::{PAGE_BYTES, snapshot_bytes_max};

/// Target number of regions. With fewer, dropping one region drops too much of the engine.
const REGIONS_AUTO: u64 = 128;
const REGION_BYTES_AUTO: std::ops::RangeInclusive<u64> = 64 << 10..=8 << 20;
/// Shares that are too small for this number of regions of the usual size get smaller ones, of this size at least, in
/// which the directory takes a larger part.
const REGIONS_FEW: u64 = 8;
const REGION_BYTES_MIN: u64 = 16 << 10;
/// A device whose reclaim units or erase blocks are larger than that gets regions of one each, if the engine's share
/// has this number of them.
const UNITS_MIN: u64 = 16;
/// The least number of regions that are as long as those of large objects. Fewer would lose more of the share to the
/// region that is reclaimed than a page map on erase blocks takes.
const LIKE_LARGE_MIN: u64 = 10;
/// The directory of a larger region would take megabytes of memory.
const UNIT_BYTES_MAX: u64 = 128 << 20;
/// One region that is being filled, one whose last write is in flight, one to reclaim, and one beside them.
const REGIONS_MIN: u64 = 4;
/// The tombstone log gets `1 / TOMBSTONE_PART` of the engine's share in addition: 128 bytes for a page. A page has
/// about 20 objects, of which up to a fifth are replaced before they are evicted. Each of them needs a tombstone until
/// then, and the log works them off when it is half full.
const TOMBSTONE_PART: u64 = 32;

/// The engine's part of the device.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct PagesLayout {
    pub(super) regions: u32,
    pub(super) region_bytes: u32,
    pub(super) sets: u32,
    /// Bytes that the snapshot reserves for it.
    pub(super) snapshot_bytes: u64,
}

impl PagesLayout {
    /// Divides `space` bytes of a device.
    ///
    /// # Errors
    /// If the result is too few regions.
    pub(super) fn plan(config: &Config, space: u64, info: &DeviceInfo) -> Result<Self, Error> {
        let unit_bytes = info.placement.reclaim_unit_bytes;
        Self::with_regions(config, space, region_bytes(space, unit_bytes, large_regions(config)))
    }

    /// Divides `space` bytes into regions of this size. Each region pays for its part of the snapshot.
    ///
    /// # Errors
    /// If the result is too few regions.
    pub(super) fn with_regions(
        config: &Config,
        space: u64,
        region_bytes: u32,
    ) -> Result<Self, Error> {
        let fixed = PART_HEADER_BYTES as u64;
        let cost = u64::from(region_bytes) + snapshot_bytes_max(region_bytes);
        let regions = space.saturating_sub(fixed) / cost;
        let sets = config.soc.sets_for(regions * u64::from(region_bytes), config.memory());
        let least = REGIONS_MIN;
        let (Some(regions), Some(sets)) = (u32::try_from(regions).ok(), sets) else {
            return Err(Error::config(format!(
                "soc.layout = pages: {space} bytes are more than it can use; use a smaller soc.percent"
            )));
        };
        if u64::from(regions) < least {
            return Err(Error::config(format!(
                "soc.layout = pages: the share of small objects is {space} bytes, which are fewer than {least} \
                 regions of {region_bytes} bytes; use a larger soc.percent, more flash, or soc.layout = buckets"
            )));
        }
        let per_region = snapshot_bytes_max(region_bytes);
        let snapshot_bytes = fixed + u64::from(regions) * per_region;
        Ok(Self { regions, region_bytes, sets, snapshot_bytes })
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.regions) * u64::from(self.region_bytes)
    }

    /// What the layout of a device says.
    pub(super) fn of(layout: &Layout) -> Self {
        let Layout {
            soc_page_regions: regions,
            soc_page_region_bytes: region_bytes,
            soc_sets: sets,
            ..
        } = *layout;
        Self { regions, region_bytes, sets, snapshot_bytes: 0 }
    }

    /// The number of pages of each set that explains the layout.
    pub(super) fn pages_per_set(&self) -> u32 {
        let pages = self.bytes() / PAGE_BYTES as u64;
        u32::try_from(pages / u64::from(self.sets.max(1))).unwrap_or(u32::MAX)
    }
}

/// Bytes that the tombstone log gets for a share of this size.
pub(super) fn tombstone_bytes(space: u64) -> u64 {
    space / TOMBSTONE_PART
}

/// The configured size of regions of large objects.
fn large_regions(config: &Config) -> Option<u32> {
    if config.array.percent > 0.0 { config.array.region_bytes } else { config.loc.region_bytes }
}

/// Whole reclaim units where that is possible, and as long as the regions of large objects: on erase blocks they can
/// then be written without a page map.
fn region_bytes(space: u64, unit_bytes: Option<u64>, large: Option<u32>) -> u32 {
    let power = |regions: u64| 1 << (space / regions).max(1).ilog2();
    let usual = power(REGIONS_AUTO).clamp(*REGION_BYTES_AUTO.start(), *REGION_BYTES_AUTO.end());
    let wanted: u64 = usual.min(power(REGIONS_FEW)).max(REGION_BYTES_MIN);
    let unit_bytes = unit_bytes.filter(|unit| *unit > 0 && unit.is_multiple_of(PAGE_BYTES as u64));
    let has_room = |bytes: u64, units: u64| bytes <= (space / units).min(UNIT_BYTES_MAX);
    let large = large.map(u64::from).filter(|&it| it > 0 && has_room(it, LIKE_LARGE_MIN));
    let bytes = match (unit_bytes, large) {
        (Some(unit), Some(large)) if large.is_multiple_of(unit) => large,
        (Some(unit), _) if unit <= wanted => wanted / unit * unit,
        (Some(unit), _) if has_room(unit, UNITS_MIN) => unit,
        _ => wanted,
    };
    u32::try_from(bytes).expect("the limits are far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_whole_units_where_there_are_enough() {
        let alone = |space, unit| region_bytes(space, Some(unit), None);
        assert_eq!(region_bytes(64 << 20, None, None), 512 << 10);
        for (unit, expected) in [
            (256 << 10, 512 << 10),
            (192 << 10, 384 << 10),
            (3 << 20, 3 << 20),
            (4 << 20, 4 << 20),
            // Fewer than 16 of them.
            (5 << 20, 512 << 10),
            (13_079_937_024, 512 << 10),
            // No whole pages.
            (100_000, 512 << 10),
            (0, 512 << 10),
        ] {
            assert_eq!(alone(64 << 20, unit), expected, "units of {unit}");
        }
        assert_eq!(alone(1 << 40, 128 << 20), 128 << 20);
        assert_eq!(alone(1 << 40, 1 << 30), 8 << 20, "its directory is too large");
    }

    #[test]
    fn regions_are_as_long_as_those_of_large_objects_if_these_are_whole_units() {
        let with = |unit, large| region_bytes(64 << 20, unit, Some(large));
        assert_eq!(with(Some(1 << 20), 3 << 20), 3 << 20);
        assert_eq!(with(Some(64 << 10), 64 << 10), 64 << 10);
        assert_eq!(with(Some(1 << 20), 6 << 20), 6 << 20);
        assert_eq!(with(Some(1 << 20), 7 << 20), 1 << 20, "fewer than 10");
        assert_eq!(with(Some(1 << 20), 1536 << 10), 1 << 20, "no whole units");
        assert_eq!(with(None, 3 << 20), 512 << 10);
    }
}
