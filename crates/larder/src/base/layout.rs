//! How the cache divides its device.
//!
//! ```text
//!   0     metadata_bytes   loc_offset             array_offset     soc_log_offset  soc_offset    usable_bytes
//!   ├ label, snapshot ┼─ tombstones ─┼─ LOC: regions … ─ gap ─┼─ array: regions … ─┼─ SOC log ─┼─ SOC: buckets … ─┤
//!                                                                                         or regions of pages
//! ```

use std::ops::Range;

use crate::base::ttl_groups::bounds_s;

/// Maximum number of segments of the log.
pub(crate) const LOG_SEGMENTS_MAX: u64 = (1 << 24) - 1;

/// Bytes of a block of the tombstone log, and of a bucket.
const BLOCK_BYTES: u32 = 4096;
const TOMBSTONES: [u8; 4] = *b"TOMB";
pub(crate) const REGIONS: [u8; 4] = *b"LREG";
/// Regions of the array engine.
pub(crate) const ARRAY: [u8; 4] = *b"ARRY";
const LOG_SEGMENTS: [u8; 4] = *b"SLOG";
pub(crate) const BUCKETS: [u8; 4] = *b"SBKT";
/// Regions of pages by set.
pub(crate) const PAGES: [u8; 4] = *b"SPGS";
#[cfg(test)]
const PLAIN: [u8; 4] = *b"TEST";

/// A part of the device, as the superblock lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) kind: [u8; 4],
    pub(crate) offset: u64,
    pub(crate) units: u64,
    pub(crate) unit_bytes: u32,
    /// More details: for the array the number of tables and of TTL groups; for pages by set the number of sets, and 0;
    /// 0 for all others.
    pub(crate) details: [u32; 2],
}

/// The position on the device of each part of the cache. All offsets and sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Layout {
    /// Capacity of the device.
    pub capacity_bytes: u64,
    /// Bytes of the device that the cache uses.
    pub usable_bytes: u64,
    /// Size of label and snapshot, from offset 0.
    pub metadata_bytes: u64,
    /// Size of the tombstone log, from offset `metadata_bytes`; 0 without a log.
    pub tombstone_log_bytes: u64,
    /// Start of the regions of the large-object engine.
    pub loc_offset: u64,
    /// Number of these regions; 0 switches the engine off.
    pub loc_regions: u32,
    /// Size of these regions.
    pub region_bytes: u32,
    /// Start of the regions of the array engine; 0 without the engine.
    pub array_offset: u64,
    /// Number of these regions, for objects and tables together; 0 switches the engine off.
    pub array_regions: u32,
    /// Size of these regions; 0 without the engine.
    pub array_region_bytes: u32,
    /// Number of tables, of 16 KiB, of the array engine's index; 0 without the engine.
    pub array_tables: u32,
    /// Number of TTL groups, each of which fills its own regions: 32 or 1; 0 without the engine.
    pub array_ttl_groups: u32,
    /// Start of the buckets or pages of the small-object engine.
    pub soc_offset: u64,
    /// Number of buckets; 0 without the engine, or if it has pages by set.
    pub soc_buckets: u64,
    /// Number of regions of pages by set; 0 without the engine, or if it has buckets.
    pub soc_page_regions: u32,
    /// Size of these regions; 0 without pages.
    pub soc_page_region_bytes: u32,
    /// Number of sets; 0 without pages.
    pub soc_sets: u32,
    /// Start of the log in front of the buckets; `soc_offset` without a log.
    pub soc_log_offset: u64,
    /// Number of the log's segments; 0 means no log.
    pub soc_log_segments: u32,
    /// Size of these segments, a power of 2; 0 without a log.
    pub soc_log_segment_bytes: u32,
    /// Start of the example engine's ring, for tests.
    #[cfg(test)]
    pub(crate) plain_offset: u64,
    /// Number of its blocks.
    #[cfg(test)]
    pub(crate) plain_blocks: u64,
}

impl Layout {
    /// The sections of the superblock, in the order of the device.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let section = |kind, offset, units, unit_bytes| Section {
            kind,
            offset,
            units,
            unit_bytes,
            details: [0, 0],
        };
        let blocks = self.tombstone_log_bytes / u64::from(BLOCK_BYTES);
        // List engines that are off too: an opening compares their offsets with those of the configuration.
        let mut sections = vec![
            section(TOMBSTONES, self.metadata_bytes, blocks, BLOCK_BYTES),
            section(REGIONS, self.loc_offset, self.loc_regions.into(), self.region_bytes),
            section(
                LOG_SEGMENTS,
                self.soc_log_offset,
                self.soc_log_segments.into(),
                self.soc_log_segment_bytes,
            ),
            section(BUCKETS, self.soc_offset, self.soc_buckets, BLOCK_BYTES),
            #[cfg(test)]
            section(PLAIN, self.plain_offset, self.plain_blocks, BLOCK_BYTES),
        ];
        // List the array only if it is on: caches from before the array existed have no offset for it.
        if self.array_regions > 0 {
            let (offset, regions) = (self.array_offset, self.array_regions.into());
            let details = [self.array_tables, self.array_ttl_groups];
            let array = section(ARRAY, offset, regions, self.array_region_bytes);
            sections.push(Section { details, ..array });
        }
        // The same holds for pages by set.
        if self.soc_page_regions > 0 {
            let (regions, sets) = (self.soc_page_regions.into(), self.soc_sets);
            let pages = section(PAGES, self.soc_offset, regions, self.soc_page_region_bytes);
            sections.push(Section { details: [sets, 0], ..pages });
        }
        sections
    }

    /// Bytes of flash for small objects: buckets, or regions of pages. The log in front of buckets is not in it.
    ///
    /// ```
    /// assert_eq!(larder::Layout::default().soc_bytes(), 0);
    /// ```
    pub fn soc_bytes(&self) -> u64 {
        let pages = u64::from(self.soc_page_regions) * u64::from(self.soc_page_region_bytes);
        self.soc_buckets.saturating_mul(BLOCK_BYTES.into()).saturating_add(pages)
    }

    /// Byte range of the array engine's regions; empty without the engine.
    ///
    /// ```
    /// assert!(larder::Layout::default().array_range().is_empty());
    /// ```
    pub fn array_range(&self) -> Range<u64> {
        let bytes = u64::from(self.array_regions) * u64::from(self.array_region_bytes);
        self.array_offset..self.array_offset.saturating_add(bytes)
    }

    /// Number of regions of all engines. Regions are numbered in the order of the device: those of the large-object
    /// engine, then those of the array, then those of pages by set.
    pub(crate) fn regions(&self) -> u32 {
        self.large_regions().saturating_add(self.soc_page_regions)
    }

    /// Number of regions of large objects.
    pub(crate) fn large_regions(&self) -> u32 {
        self.loc_regions.saturating_add(self.array_regions)
    }

    /// This layout with these sections. `None` if a section is unknown or too large.
    pub(crate) fn with_sections(self, sections: &[Section]) -> Option<Self> {
        sections.iter().try_fold(self, |layout, section| {
            let Section { kind, offset, units, unit_bytes, details } = *section;
            let in_blocks = unit_bytes == BLOCK_BYTES;
            match kind {
                TOMBSTONES if in_blocks && offset == layout.metadata_bytes => {
                    let tombstone_log_bytes = units.checked_mul(BLOCK_BYTES.into())?;
                    Some(Self { tombstone_log_bytes, ..layout })
                }
                REGIONS => {
                    let loc_regions = u32::try_from(units).ok()?;
                    Some(Self {
                        loc_offset: offset,
                        loc_regions,
                        region_bytes: unit_bytes,
                        ..layout
                    })
                }
                ARRAY => {
                    let array_regions = u32::try_from(units).ok().filter(|&regions| regions > 0)?;
                    // Region numbers cover both engines.
                    layout.loc_regions.checked_add(array_regions)?;
                    let [array_tables, array_ttl_groups] = details;
                    bounds_s(array_ttl_groups).filter(|_| array_tables > 0)?;
                    Some(Self {
                        array_offset: offset,
                        array_regions,
                        array_region_bytes: unit_bytes,
                        array_tables,
                        array_ttl_groups,
                        ..layout
                    })
                }
                LOG_SEGMENTS => Some(Self {
                    soc_log_offset: offset,
                    soc_log_segments: u32::try_from(units).ok()?,
                    soc_log_segment_bytes: unit_bytes,
                    ..layout
                }),
                BUCKETS if in_blocks => {
                    Some(Self { soc_offset: offset, soc_buckets: units, ..layout })
                }
                PAGES => {
                    let soc_page_regions =
                        u32::try_from(units).ok().filter(|&regions| regions > 0)?;
                    // Region numbers cover all engines.
                    layout.large_regions().checked_add(soc_page_regions)?;
                    let [soc_sets, _] = details;
                    let fits = soc_sets > 0 && layout.soc_buckets == 0;
                    fits.then_some(Self {
                        soc_offset: offset,
                        soc_page_regions,
                        soc_page_region_bytes: unit_bytes,
                        soc_sets,
                        ..layout
                    })
                }
                #[cfg(test)]
                PLAIN => Some(Self { plain_offset: offset, plain_blocks: units, ..layout }),
                _ => None,
            }
        })
    }
}
