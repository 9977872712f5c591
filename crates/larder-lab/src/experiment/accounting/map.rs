//! The costs of the block map: memory for each terabyte, and time for each append.

use std::time::Instant;

use larder_ssd::managed::{Geometry, ManagedConfig, ManagedSsd};
use larder_ssd::nand::{DieArray, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{Isolation, MemoryImages, Pages, Request, Throughputs, Vssds};

use super::failed;
use crate::Error;

/// Core time in nanoseconds for each 4 KiB, appended in requests of 64 KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapTime {
    /// With a block map; includes the allocation and freeing of blocks.
    pub(super) blocks_ns: f64,
    /// With a page map, written sequentially, so that garbage collection has nothing to copy.
    pub(super) pages_ns: f64,
}

/// Pages in a request.
const REQUEST_PAGES: u32 = 16;
const RATES: Throughputs = Throughputs { channel_mb_s: 1, die_mb_s: 1, soft_plane_mb_s: 1 };

fn array(geometry: NandGeometry) -> Result<Vssds<MemoryImages>, Error> {
    let drive = RawSsd::new(RawConfig::new(geometry)).map_err(failed)?;
    let made = Vssds::create(vec![drive], MemoryImages::default(), *b"a lab's accounts", RATES);
    made.map_err(|refused| Error::run(refused.to_string()))
}

/// Megabytes of map for each terabyte of flash, with blocks of 2 MiB and one die for each tenant. This is the largest
/// possible number of entries. The simulated drive has 1/`scale` of a terabyte.
#[allow(clippy::cast_precision_loss)]
pub(super) fn mb_per_tb(scale: u32) -> Result<f64, Error> {
    let geometry = NandGeometry {
        array: DieArray { channels: 16, dies_per_channel: 4 },
        planes: 4,
        bits: 1,
        blocks_per_die: (7451 / scale).max(16),
        pages_per_block: 32,
        page_bytes: 16 << 10,
        mapping_bytes: 16 << 10,
    };
    let mut array = array(geometry)?;
    for _ in 0..geometry.array.dies() {
        let die = Request { isolation: Isolation::Die, mb_s: 1, bytes: 1 };
        array.alloc(die).map_err(failed)?;
    }
    let block_bytes = u64::from(geometry.block_pages()) * u64::from(geometry.mapping_bytes);
    let bytes = u64::from(geometry.blocks()) * block_bytes;
    // Megabytes for each terabyte are the same as bytes for each megabyte.
    Ok(array.map_bytes() as f64 / (bytes as f64 / 1e6))
}

/// Appends `gib` GiB to blocks, and writes the same amount to a drive with a page map.
pub(super) fn time(gib: u64) -> Result<MapTime, Error> {
    let geometry = NandGeometry {
        array: DieArray { channels: 8, dies_per_channel: 2 },
        planes: 4,
        bits: 1,
        blocks_per_die: 64,
        pages_per_block: 32,
        page_bytes: 16 << 10,
        mapping_bytes: 4096,
    };
    let requests = (gib << 30) / 4096 / u64::from(REQUEST_PAGES);
    Ok(MapTime { blocks_ns: blocks(geometry, requests)?, pages_ns: pages(geometry, requests)? })
}

#[allow(clippy::cast_precision_loss)]
fn ns_a_page(begun: Instant, requests: u64) -> f64 {
    begun.elapsed().as_nanos() as f64 / (requests * u64::from(REQUEST_PAGES)) as f64
}

fn blocks(geometry: NandGeometry, requests: u64) -> Result<f64, Error> {
    let mut array = array(geometry)?;
    let channels = geometry.array.channels;
    let request = Request { isolation: Isolation::Channel, mb_s: channels, bytes: 1 };
    let vssd = array.alloc(request).map_err(failed)?;
    let info = array.info(vssd).map_err(failed)?;
    let mut full = std::collections::VecDeque::new();
    let begun = Instant::now();
    let mut open = None;
    for _ in 0..requests {
        let (block, at) = match open.take() {
            Some(open) => open,
            None => {
                if full.len() + 1 >= info.blocks as usize
                    && let Some(oldest) = full.pop_front()
                {
                    array.free_block(vssd, oldest).map_err(failed)?;
                }
                (array.alloc_block(vssd, 0).map_err(failed)?, 0)
            }
        };
        array.append(vssd, block, at, Pages::Count(REQUEST_PAGES)).map_err(failed)?;
        let at = at + u64::from(REQUEST_PAGES);
        if at < info.block_pages {
            open = Some((block, at));
        } else {
            full.push_back(block);
        }
    }
    Ok(ns_a_page(begun, requests))
}

fn pages(geometry: NandGeometry, requests: u64) -> Result<f64, Error> {
    let media_bytes = u64::from(geometry.blocks())
        * u64::from(geometry.block_pages())
        * u64::from(geometry.mapping_bytes);
    let logical_bytes = media_bytes / 117 * 100 / (1 << 20) * (1 << 20);
    let unit_bytes = u64::from(geometry.block_pages()) * u64::from(geometry.mapping_bytes);
    let geometry =
        Geometry::with_overprovisioning(logical_bytes, unit_bytes, 17.0).map_err(failed)?;
    let mut ssd = ManagedSsd::new(ManagedConfig::new(geometry)).map_err(failed)?;
    let requests_of_drive = geometry.logical_pages / u64::from(REQUEST_PAGES);
    let begun = Instant::now();
    for request in 0..requests {
        let lpn = request % requests_of_drive * u64::from(REQUEST_PAGES);
        ssd.write(lpn, REQUEST_PAGES.into(), 0).map_err(failed)?;
    }
    Ok(ns_a_page(begun, requests))
}
