//! Divides the small-object engine's share of the device into regions for pages by set, and computes how many sets
//! there are.

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
/// One region that is being filled, one whose last write is in flight, one to reclaim, and one beside them.
const REGIONS_MIN: u64 = 4;
/// The tombstone log gets `1 / TOMBSTONE_PART` of the engine's share in addition: 128 bytes for a page. A page has about 20
/// objects, of which up to a fifth are replaced before they are evicted. Each of them needs a tombstone until then, and
/// the log works them off when it is half full.
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
    /// Divides `space` bytes. Each region pays for its part of the snapshot.
    ///
    /// # Errors
    /// If the result is too few regions.
    pub(super) fn plan(config: &Config, space: u64) -> Result<Self, Error> {
        let region_bytes = automatic_region_bytes(space);
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

fn automatic_region_bytes(space: u64) -> u32 {
    let power = |regions: u64| 1 << (space / regions).max(1).ilog2();
    let usual = power(REGIONS_AUTO).clamp(*REGION_BYTES_AUTO.start(), *REGION_BYTES_AUTO.end());
    let bytes = usual.min(power(REGIONS_FEW)).max(REGION_BYTES_MIN);
    u32::try_from(bytes).expect("the range is far below 4 GiB")
}
