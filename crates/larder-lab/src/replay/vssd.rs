//! A drive of the model with the cache on a virtual SSD: blocks that are written sequentially, and a device on top of
//! them.
//!
//! There is as much flash as in the managed drive of the same options, including over-provisioning. On blocks, the
//! cache can use most of the over-provisioning: only what cleaning of the random area needs is kept.

use std::sync::Arc;

use larder_blocks::vssd::{ImageFile, MemoryKeeper};
use larder_blocks::{BlockStore, DeviceOnBlocks, OnBlocksCounts, VssdArray, VssdBlocks};
use larder_device::{Device, block_on};
use larder_ssd::managed::{self, PAGE_BYTES};
use larder_ssd::nand::{DieArray, NandGeometry};
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_vssd::{Isolation, MemoryImages, Request, Throughputs, VssdId};

use super::configs::{config, drive_config, no_such_drive};
use super::counted::CountedDrive;
use super::options::{EngineOptions, ReplayOptions, VssdPlace};
use crate::Error;

/// Dies of the vSSD, each on its own channel. The drive has the same number again for other tenants.
const DIES: u32 = 4;
/// Bytes that a die programs at once.
const STRIPE_BYTES: u64 = 16 << 10;
/// Blocks with fewer stripes than this would consist mostly of headers and tails.
const STRIPES_MIN: u64 = 4;
const PAGE: u32 = 4096;

/// The device of a cache, on its own vSSD.
pub struct VssdDrive {
    device: Arc<DeviceOnBlocks>,
    store: Arc<VssdBlocks>,
    region_bytes: u32,
}

impl std::fmt::Debug for VssdDrive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let info = self.device.info();
        f.debug_struct("VssdDrive").field("info", info).finish_non_exhaustive()
    }
}

impl VssdDrive {
    /// Opens the vSSD that `place` names.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such vSSD, or no cache fits on it; [`Error::Run`] if it has blocks, or if its
    /// image cannot be opened.
    pub fn open(
        options: &ReplayOptions,
        engines: EngineOptions,
        place: &VssdPlace,
    ) -> Result<Self, Error> {
        let (path, number) = match place {
            VssdPlace::Memory(isolation) => return Self::in_memory(options, engines, *isolation),
            VssdPlace::Image(path, number) => (path, *number),
        };
        options.check()?;
        let fail = |error: larder_device::Error| {
            Error::run(format!("--image {}: {error}", path.display()))
        };
        let (array, _) =
            VssdArray::open_image(ImageFile::open(path).map_err(fail)?).map_err(fail)?;
        let known: Vec<u32> = array.list().iter().map(|info| info.id.0).collect();
        if !known.contains(&number) {
            return Err(Error::usage(format!(
                "--vssd {number}: {} has {known:?}; make one by `larder vssd create`",
                path.display()
            )));
        }
        let store = Arc::new(array.store(VssdId(number)).map_err(fail)?);
        let blocks = store.list().len();
        if blocks > 0 {
            return Err(Error::run(format!(
                "--vssd {number}: it has {blocks} blocks, and a replay would free them: take an empty one, or end it \
                 by `larder vssd delete --destroy-data` and make it anew"
            )));
        }
        Self::on(store, options, engines)
    }

    /// A new vSSD in memory, with as much flash as the drive of `options`, divided for the cache of `options`.
    ///
    /// # Errors
    /// [`Error::Usage`] if such a drive, or such a cache on it, could not work.
    pub fn in_memory(
        options: &ReplayOptions,
        engines: EngineOptions,
        isolation: Isolation,
    ) -> Result<Self, Error> {
        options.check()?;
        let geometry = drive_config(options, false, 1)?.geometry;
        let media_bytes = geometry.physical_pages() * PAGE_BYTES;
        let array = array(media_bytes, geometry.unit_bytes(), isolation)
            .map_err(|error| no_such_drive(&error))?;
        let request = Request { isolation, mb_s: DIES, bytes: 1 };
        let made = array.alloc(request).and_then(|id| array.store(id));
        let store = Arc::new(made.map_err(|error| no_such_drive(&error))?);
        Self::on(store, options, engines)
    }

    /// A device for the cache of `options` on all of `store`.
    fn on(
        store: Arc<VssdBlocks>,
        options: &ReplayOptions,
        engines: EngineOptions,
    ) -> Result<Self, Error> {
        let block_bytes = u32::try_from(store.info().block_bytes)
            .map_err(|_| Error::usage("blocks of 4 GiB or more are no regions of a cache"))?;
        let region_bytes = engines.region_bytes.unwrap_or(block_bytes);
        let engines = EngineOptions { region_bytes: Some(region_bytes), ..engines };
        let division = config(options, engines, false).on_blocks(store.info());
        let division = division.map_err(|error| Error::usage(error.to_string()))?;
        let device = block_on(DeviceOnBlocks::format(Arc::clone(&store) as _, &division));
        let device = Arc::new(device.map_err(|error| Error::run(error.to_string()))?);
        Ok(Self { device, store, region_bytes })
    }

    /// The device for the cache.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.device) as _
    }

    /// The engine options for its cache: regions must have the size of blocks.
    pub fn engines(&self, engines: EngineOptions) -> EngineOptions {
        EngineOptions { region_bytes: Some(self.region_bytes), ..engines }
    }

    /// Bytes that the device has written beyond the requested ones.
    pub fn counts(&self) -> OnBlocksCounts {
        self.device.counts()
    }
}

/// The cache's data is useless without the cache, so its blocks are freed. The wear of the dies stays.
impl Drop for VssdDrive {
    fn drop(&mut self) {
        for state in self.store.list() {
            // Drop cannot report an error. The next replay refuses an image that still has blocks.
            let _ = self.store.free(state.block).wait();
        }
        let _ = self.store.flush().wait();
    }
}

impl CountedDrive for VssdDrive {
    fn stats(&self) -> managed::Stats {
        let stats = self.device.stats();
        managed::Stats {
            host_pages: stats.host_written_bytes / PAGE_BYTES,
            media_pages: stats.flash_written_bytes() / PAGE_BYTES,
            copied_pages: stats.copied_bytes.unwrap_or(0) / PAGE_BYTES,
            deallocated_pages: stats.deallocated_bytes / PAGE_BYTES,
            ..managed::Stats::default()
        }
    }

    fn capacity_bytes(&self) -> u64 {
        self.device.info().capacity_bytes
    }
}

/// Drives with enough flash for a vSSD of `isolation`, in blocks of about `block_bytes`.
fn array(
    media_bytes: u64,
    block_bytes: u64,
    isolation: Isolation,
) -> Result<VssdArray, larder_device::Error> {
    let stripes = (block_bytes / u64::from(DIES) / STRIPE_BYTES).max(STRIPES_MIN);
    let blocks = media_bytes / u64::from(DIES) / (stripes * STRIPE_BYTES);
    // A soft plane is a quarter of a die, so the dies are four times as large.
    let tenants_of_a_die = match isolation {
        Isolation::Channel | Isolation::Die => 1,
        Isolation::Software { .. } | Isolation::None => 4,
    };
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let geometry = NandGeometry {
        array: DieArray { channels: 2 * DIES, dies_per_channel: 1 },
        planes: 1,
        bits: 1,
        blocks_per_die: narrow(blocks.saturating_mul(tenants_of_a_die)),
        pages_per_block: narrow(stripes),
        page_bytes: narrow(STRIPE_BYTES),
        mapping_bytes: PAGE,
    };
    let config = RawConfig { page_words: true, ..RawConfig::new(geometry) };
    let drive = RawSsd::new(config).map_err(|error| {
        larder_device::Error::new(larder_device::ErrorKind::Setup, error.to_string())
    })?;
    let rates = Throughputs { channel_mb_s: 1, die_mb_s: 1, soft_plane_mb_s: 1 };
    let (images, keeper) = (Box::new(MemoryImages::default()), Box::new(MemoryKeeper::default()));
    VssdArray::create(vec![drive], images, keeper, *b"a cache's vSSDs.", rates)
}
