//! Computes how to divide a device on blocks so that regions are aligned to blocks.

use larder_blocks::{DeviceOnBlocksOptions, StoreInfo};
use larder_device::{DeviceInfo, PlacementInfo};

use crate::base::error::Error;
use crate::base::layout::Layout;
use crate::config::Config;

/// Page size of such a device in bytes.
const PAGE_BYTES: u32 = 4096;
/// Any value works: layouts do not depend on it.
const TRANSFER_BYTES: u32 = 1 << 20;
/// Spare blocks for cleaning small objects and metadata, in percent of the blocks that these fill.
const SPARE_PERCENT: u32 = 25;
/// One each for metadata, small objects, the log in front of them, and large objects.
const HANDLES: u16 = 4;
/// With fewer blocks than this, the blocks that several handles take are not worth it.
const BLOCKS_FOR_HANDLES: u64 = 200;

/// Attempts to find a capacity with which the regions of small objects begin with a block. Each takes less from the
/// capacity than the one before; few are needed.
const ATTEMPTS_MAX: usize = 64;

/// The part of a layout that becomes slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slots {
    from: u64,
    until: u64,
    /// Blocks that form a unit for their writer.
    together: u64,
}

impl Slots {
    /// The regions of large objects.
    ///
    /// # Errors
    /// If there are two engines of large objects.
    fn of_large(layout: &Layout, block_bytes: u64) -> Result<Self, Error> {
        let (region_bytes, bytes, from) = regions_of(layout)?;
        Ok(Self { from, until: from + bytes, together: (region_bytes / block_bytes).max(1) })
    }

    /// The regions of large objects, and those of pages by set if these are as many blocks.
    ///
    /// # Errors
    /// If there are two engines of large objects.
    fn of_all(layout: &Layout, block_bytes: u64) -> Result<Self, Error> {
        let slots = Self::of_large(layout, block_bytes)?;
        let (has_large, page_region_bytes) =
            (slots.from < slots.until, u64::from(layout.soc_page_region_bytes));
        let is_blocks = page_region_bytes > 0 && page_region_bytes.is_multiple_of(block_bytes);
        let together = page_region_bytes / block_bytes;
        // A write at the start of a region discards all its blocks: the end of a region that is not filled is written
        // alone, which a block with old data would refuse.
        if !is_blocks || has_large && together != slots.together {
            return Ok(slots);
        }
        let from = if has_large { slots.from } else { layout.soc_offset };
        Ok(Self { from, until: layout.usable_bytes, together })
    }

    /// Bytes by which the last unit is not full.
    fn excess_bytes(&self, block_bytes: u64) -> u64 {
        (self.until - self.from) % (self.together * block_bytes)
    }

    /// Options for a device of this capacity.
    fn options(&self, capacity_bytes: u64, handles: u16) -> DeviceOnBlocksOptions {
        DeviceOnBlocksOptions {
            capacity_bytes,
            front_bytes: self.from,
            tail_bytes: capacity_bytes - self.until,
            spare_percent: SPARE_PERCENT,
            slots_together: u32::try_from(self.together).unwrap_or(1),
            handles,
        }
    }
}

/// Bytes of a region, bytes of all regions, and offset of the first region, for the only engine of large objects.
///
/// # Errors
/// If there are two such engines.
fn regions_of(layout: &Layout) -> Result<(u64, u64, u64), Error> {
    let bytes = |regions: u32, region_bytes: u32| u64::from(regions) * u64::from(region_bytes);
    match (layout.loc_regions, layout.array_regions) {
        (1.., 1..) => Err(Error::config(
            "array.percent: leaves room for an engine of large objects beside the array, and blocks are for one of \
             them; set array.percent so that it has all that small objects leave, or to 0",
        )),
        (0, regions @ 1..) => {
            let region_bytes = layout.array_region_bytes;
            Ok((region_bytes.into(), bytes(regions, region_bytes), layout.array_offset))
        }
        (regions, 0) => {
            let region_bytes = layout.region_bytes;
            Ok((region_bytes.into(), bytes(regions, region_bytes), layout.loc_offset))
        }
    }
}

impl Config {
    /// How [`DeviceOnBlocks`](larder_blocks::DeviceOnBlocks) has to divide a block store for a cache with this
    /// configuration: regions of large objects become slots, which are written sequentially; label, tombstones,
    /// snapshot and buckets of small objects are mapped page by page. Regions of pages by set
    /// ([`SocLayout::Pages`](crate::SocLayout::Pages)) are slots too, if the share of small objects has room for 10
    /// regions as long as those of large objects, and these are set, and at most 128 MiB; otherwise they are mapped.
    /// The capacity is the largest that the store has room for, less what makes them begin with a block. Opening the
    /// device again needs the same options: compute them from the same configuration and the same store, or save them.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the configuration is wrong, if the store is too small, or if
    /// regions and blocks do not fit: a region must be a whole number of blocks
    /// ([`LocConfig::region_bytes`](crate::LocConfig::region_bytes),
    /// [`ArrayConfig::region_bytes`](crate::ArrayConfig::region_bytes)). Several regions in a block would be refilled
    /// at different times, but a block can be rewritten only as a whole. Also if there are both regions of large
    /// objects and an array: blocks can hold only one of them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use larder::{Config, Larder, LocConfig, RealClock, block_on};
    /// use larder_blocks::{BlockStore, DeviceOnBlocks, MemoryBlocks};
    ///
    /// let store = Arc::new(MemoryBlocks::new(64, 1 << 20, 4096).unwrap());
    /// let loc = LocConfig { region_bytes: Some(1 << 20), ..LocConfig::default() };
    /// let config = Config { dram_bytes: 1 << 20, loc, ..Config::default() };
    /// let options = config.on_blocks(store.info())?;
    /// let device = block_on(DeviceOnBlocks::format(store, &options)).unwrap();
    /// let cache = block_on(Larder::open(config, Some(Arc::new(device)), Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", &[7; 100_000], None))?;
    /// assert_eq!(block_on(cache.get(b"bread"))?.unwrap().len(), 100_000);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn on_blocks(&self, store: &StoreInfo) -> Result<DeviceOnBlocksOptions, Error> {
        self.check()?;
        let block_bytes = store.block_bytes;
        let mut blocks = store.blocks;
        loop {
            let capacity_bytes = blocks.saturating_mul(block_bytes);
            let options = self.divide(store, capacity_bytes)?;
            let needed = options
                .blocks_needed(store)
                .map_err(|error| Error::config(format!("a cache on {}: {error}", store.name)))?;
            match needed.checked_sub(store.blocks) {
                None | Some(0) => return Ok(options),
                Some(missing) if missing < blocks => blocks -= missing,
                Some(_) => {
                    return Err(Error::config(format!(
                        "{} has {} blocks of {block_bytes} bytes: too few for a cache; use more, or smaller ones",
                        store.name, store.blocks
                    )));
                }
            }
        }
    }

    /// Options for a device of about this capacity, whether or not the store has room for it.
    fn divide(
        &self,
        store: &StoreInfo,
        capacity_bytes: u64,
    ) -> Result<DeviceOnBlocksOptions, Error> {
        let block_bytes = store.block_bytes;
        let handles = if store.blocks < BLOCKS_FOR_HANDLES { 1 } else { HANDLES };
        // A gap may lie between the regions of large objects and those of small ones. If it is no whole blocks, a
        // device without the rest of it has the same regions.
        let mut aligned_bytes = capacity_bytes;
        for _ in 0..ATTEMPTS_MAX {
            let layout = self.layout_on_blocks(store, aligned_bytes, handles)?;
            let slots = Slots::of_all(&layout, block_bytes)?;
            match slots.excess_bytes(block_bytes) {
                0 => return Ok(slots.options(aligned_bytes, handles)),
                excess => aligned_bytes = aligned_bytes.saturating_sub(excess),
            }
        }
        let layout = self.layout_on_blocks(store, capacity_bytes, handles)?;
        Ok(Slots::of_large(&layout, block_bytes)?.options(capacity_bytes, handles))
    }

    /// The layout on a device of this capacity.
    ///
    /// # Errors
    /// If there is none, or if regions of large objects are no whole blocks.
    fn layout_on_blocks(
        &self,
        store: &StoreInfo,
        capacity_bytes: u64,
        handles: u16,
    ) -> Result<Layout, Error> {
        let block_bytes = store.block_bytes;
        let placement = PlacementInfo {
            handles: store.streams.max(handles),
            reclaim_unit_bytes: Some(block_bytes),
            ..PlacementInfo::none()
        };
        let info = DeviceInfo {
            placement,
            ..DeviceInfo::new(&*store.name, capacity_bytes, PAGE_BYTES, TRANSFER_BYTES)
        };
        let layout = Layout::plan(self, &info)?;
        let (region_bytes, regions_bytes, _) = regions_of(&layout)?;
        if regions_bytes > 0 && !region_bytes.is_multiple_of(block_bytes) {
            let engine = if layout.array_regions > 0 { "array" } else { "loc" };
            return Err(Error::config(format!(
                "regions of {region_bytes} bytes on {} with blocks of {block_bytes}: a region must be whole blocks; \
                 set {engine}.region_bytes = {}",
                store.name,
                region_bytes.next_multiple_of(block_bytes)
            )));
        }
        Ok(layout)
    }
}
