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
    /// snapshot and small objects are mapped page by page. The capacity is the largest that the store has room for.
    /// Opening the device again needs the same options: compute them from the same configuration and the same store, or
    /// save them.
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

    /// Options for a device of this capacity, whether or not the store has room for it.
    fn divide(
        &self,
        store: &StoreInfo,
        capacity_bytes: u64,
    ) -> Result<DeviceOnBlocksOptions, Error> {
        let block_bytes = store.block_bytes;
        let handles = if store.blocks < BLOCKS_FOR_HANDLES { 1 } else { HANDLES };
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
        let (region_bytes, regions_bytes, front_bytes) = regions_of(&layout)?;
        if regions_bytes > 0 && !region_bytes.is_multiple_of(block_bytes) {
            let engine = if layout.array_regions > 0 { "array" } else { "loc" };
            return Err(Error::config(format!(
                "regions of {region_bytes} bytes on {} with blocks of {block_bytes}: a region must be whole blocks; \
                 set {engine}.region_bytes = {}",
                store.name,
                region_bytes.next_multiple_of(block_bytes)
            )));
        }
        Ok(DeviceOnBlocksOptions {
            capacity_bytes,
            front_bytes,
            tail_bytes: capacity_bytes - front_bytes - regions_bytes,
            spare_percent: SPARE_PERCENT,
            slots_together: u32::try_from(region_bytes / block_bytes).unwrap_or(1).max(1),
            handles,
        })
    }
}
