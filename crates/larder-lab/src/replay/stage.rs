//! The environment of one run: a drive, a cache on it, a clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder::{
    AnyRoute, Larder, Layout, Route, Routed, ShardOptions, Shards, Upkeep, VirtualClock, block_on,
};
use larder_device::{
    Device, DeviceStats, FileDevice, FileOptions, ModelDevice, OpenOptions, Opened, Payload,
    PlacementMode, Target,
};
use larder_ssd::managed::UnitState;

use super::configs::{config, drive_config, no_such_drive};
use super::options::{EngineOptions, ReplayOptions, Storage};
use super::outcome::UnitPicture;
use super::timeline::ShardSample;
use super::vssd::VssdDrive;
use crate::Error;

/// Reclaim unit handles of the simulated drive, as FDP drives in the field have them.
pub(super) const HANDLES: u16 = 8;

pub(super) struct Stage {
    pub(super) cache: Routed<AnyRoute>,
    pub(super) clock: Arc<VirtualClock>,
    /// The device, or that of each shard; empty for a cache in DRAM only.
    devices: Vec<Arc<dyn Device>>,
    model: Option<Arc<ModelDevice>>,
    /// How placement reaches a real device, and a notice to the user about it.
    pub(super) placement_path: Option<String>,
    pub(super) notice: Option<String>,
    /// Removed at the end.
    _file: Option<TemporaryFile>,
    /// Its blocks are freed at the end.
    _vssd: Option<VssdDrive>,
}

impl Stage {
    pub(super) fn set_up(options: &ReplayOptions, placement: bool) -> Result<Self, Error> {
        let mut model = None;
        let (mut file, mut vssd, mut engines) = (None, None, EngineOptions::default());
        let (mut placement_path, mut notice) = (None, None);
        let device: Option<Arc<dyn Device>> = match &options.storage {
            _ if options.flash_bytes == 0 => None,
            Storage::Model if options.shards > 1 => return Self::of_shards(options, placement),
            Storage::Model => {
                let drive = Arc::new(drive(options, placement, HANDLES)?);
                model = Some(Arc::clone(&drive));
                Some(drive)
            }
            Storage::File(path) => {
                check_file(path, options.flash_bytes)?;
                file = TemporaryFile::unless_exists(path);
                let device = FileDevice::create(path, options.flash_bytes);
                Some(Arc::new(device.map_err(|e| Error::run(e.to_string()))?))
            }
            Storage::Device(target, mode) => {
                let opened = open_device(target, *mode, options.flash_bytes, placement)?;
                (placement_path, notice) = (Some(opened.status.to_string()), opened.notice);
                Some(opened.device)
            }
            Storage::Vssd(place) => {
                let drive = VssdDrive::open(options, engines, place)?;
                engines = drive.engines(engines);
                let device = drive.device();
                vssd = Some(drive);
                Some(device)
            }
        };
        let stage = Self::open(options, engines, placement, device)?;
        Ok(Self { model, placement_path, notice, _file: file, _vssd: vssd, ..stage })
    }

    /// Opens a cache on a device that the caller made, and that others may share.
    pub(super) fn open(
        options: &ReplayOptions,
        engines: EngineOptions,
        placement: bool,
        device: Option<Arc<dyn Device>>,
    ) -> Result<Self, Error> {
        Self::open_by(options, engines, placement, device, Arc::default())
    }

    /// The same with a clock that the caller also advances.
    pub(super) fn open_by(
        options: &ReplayOptions,
        engines: EngineOptions,
        placement: bool,
        device: Option<Arc<dyn Device>>,
        clock: Arc<VirtualClock>,
    ) -> Result<Self, Error> {
        let config = config(options, engines, placement);
        let cache = Larder::open(config, device.clone(), Arc::clone(&clock) as _);
        let cache = block_on(cache).map_err(|error| refused(&error))?;
        Ok(Self::on(AnyRoute::One(Arc::new(cache)), device.into_iter().collect(), clock))
    }

    /// A set of shards, each with its own simulated drive.
    fn of_shards(options: &ReplayOptions, placement: bool) -> Result<Self, Error> {
        let drives = (0..options.shards).map(|_| drive(options, placement, HANDLES));
        let drives = drives.map(|drive| Ok(Arc::new(drive?) as Arc<dyn Device>));
        let devices: Vec<Arc<dyn Device>> = drives.collect::<Result<_, Error>>()?;
        let clock: Arc<VirtualClock> = Arc::default();
        // Nothing waits and no drive fails, and every run must be the same.
        let of_set =
            ShardOptions { get_wait: None, upkeep: Upkeep::Callers, ..ShardOptions::default() };
        let config = config(options, EngineOptions::default(), placement);
        let given = devices.iter().cloned().map(Some).collect();
        let cache = Shards::open_with(config, of_set, given, Arc::clone(&clock) as _);
        let cache = block_on(cache).map_err(|error| refused(&error))?;
        Ok(Self::on(AnyRoute::Shards(Arc::new(cache)), devices, clock))
    }

    fn on(cache: AnyRoute, devices: Vec<Arc<dyn Device>>, clock: Arc<VirtualClock>) -> Self {
        Self {
            cache: Routed::new(cache),
            clock,
            devices,
            model: None,
            placement_path: None,
            notice: None,
            _file: None,
            _vssd: None,
        }
    }

    /// The cache, or that of some shard: everything that follows from the options is the same for all.
    pub(super) fn some_cache(&self) -> &Larder {
        self.cache.route().cache_for(b"")
    }

    /// The counters of each shard, if there are several.
    pub(super) fn shards(&self) -> Vec<ShardSample> {
        let AnyRoute::Shards(set) = self.cache.route() else { return Vec::new() };
        let sample = |(shard, device): (larder::Shard<'_>, &Arc<dyn Device>)| {
            let (stats, device) = (shard.cache().map(Larder::stats)?, device.stats());
            Some(ShardSample {
                number: shard.number(),
                gets: stats.gets,
                hits: stats.hits(),
                host_bytes: device.host_written_bytes,
                media_bytes: device.media_written_bytes,
                erased_bytes: device.erased_bytes,
                copied_bytes: device.copied_bytes,
            })
        };
        set.shards().zip(&self.devices).filter_map(sample).collect()
    }

    /// Why a shard does not serve, if one does not.
    pub(super) fn lost_shard(&self) -> Option<String> {
        let AnyRoute::Shards(set) = self.cache.route() else { return None };
        let mut down = set.shards().filter_map(|shard| Some((shard.number(), shard.down()?)));
        down.next().map(|(number, why)| format!("shard {number}: {why}"))
    }

    pub(super) fn device_stats(&self) -> DeviceStats {
        let all: Vec<_> = self.devices.iter().map(|device| device.stats()).collect();
        DeviceStats::of_all(&all)
    }

    /// Bytes of all devices; 0 without one.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.devices.iter().map(|device| device.info().capacity_bytes).sum()
    }

    /// The content of the simulated drive's units. Empty for other devices, and for several drives.
    pub(super) fn picture(&self) -> Vec<UnitPicture> {
        let (Some(model), Some(layout)) = (&self.model, self.some_cache().layout()) else {
            return Vec::new();
        };
        model.with_ssd(|ssd| {
            let pages_per_unit = ssd.config().geometry.pages_per_unit;
            let units = (0..).zip(ssd.units());
            units
                .map(|(number, unit)| {
                    let mut picture = UnitPicture {
                        dead: unit.written_pages - unit.live_pages,
                        free: pages_per_unit - unit.written_pages,
                        open: unit.state == UnitState::Open,
                        ..UnitPicture::default()
                    };
                    ssd.live_pages_of(number)
                        .for_each(|page| *class(&mut picture, page, layout) += 1);
                    picture
                })
                .collect()
        })
    }
}

/// Converts an error: invalid settings are usage errors.
fn refused(error: &larder::Error) -> Error {
    match error.kind() {
        larder::ErrorKind::Config => Error::usage(error.to_string()),
        _ => Error::run(error.to_string()),
    }
}

/// Opens a real device. A run without placement requests none.
fn open_device(
    target: &Target,
    mode: PlacementMode,
    flash_bytes: u64,
    placement: bool,
) -> Result<Opened, Error> {
    let file = FileOptions { capacity_bytes: Some(flash_bytes), ..FileOptions::default() };
    let placement = if placement { mode } else { PlacementMode::Off };
    let opened = larder_device::open(&target.to_string(), &OpenOptions { placement, file });
    opened.map_err(|error| Error::run(format!("--device {target}: {error}")))
}

fn class<'a>(picture: &'a mut UnitPicture, page: u64, layout: &Layout) -> &'a mut u32 {
    let offset = page * larder_ssd::managed::PAGE_BYTES;
    if offset < layout.metadata_bytes {
        &mut picture.metadata
    } else if layout.array_range().contains(&offset) {
        &mut picture.array
    } else if offset < layout.soc_log_offset {
        &mut picture.loc
    } else {
        &mut picture.soc
    }
}

/// The simulated drive of `options`, with `handles` reclaim unit handles.
pub(super) fn drive(
    options: &ReplayOptions,
    placement: bool,
    handles: u16,
) -> Result<ModelDevice, Error> {
    let config = drive_config(options, placement, handles)?;
    ModelDevice::new(config, Payload::Memory).map_err(|error| no_such_drive(&error))
}

/// Refuses a file that would have to grow, because it was not made for this purpose.
fn check_file(path: &Path, flash_bytes: u64) -> Result<(), Error> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(Error::run(format!("--device file:{}: is not a regular file", path.display())))
        }
        Ok(found) if found.len() < flash_bytes => Err(Error::run(format!(
            "--device file:{}: exists and has {} bytes, less than --flash; remove it or name another",
            path.display(),
            found.len()
        ))),
        _ => Ok(()),
    }
}

/// A file that a replay made for itself. An existing file is not removed.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn unless_exists(path: &Path) -> Option<Self> {
        (!path.exists()).then(|| Self(path.to_owned()))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
