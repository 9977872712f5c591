//! What one run plays on: a drive, a cache on it, a clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder::{Larder, Layout, VirtualClock, block_on};
use larder_device::{
    Device, DeviceStats, FileDevice, FileOptions, ModelDevice, OpenOptions, Opened, Payload,
    PlacementMode, Target,
};
use larder_ssd::managed::UnitState;

use super::configs::{config, drive_config, no_such_drive};
use super::options::{EngineOptions, ReplayOptions, Storage};
use super::outcome::UnitPicture;
use super::vssd::VssdDrive;
use crate::Error;

/// Reclaim unit handles of the simulated drive, as FDP drives in the field have them.
pub(super) const HANDLES: u16 = 8;

pub(super) struct Stage {
    pub(super) cache: Larder,
    pub(super) clock: Arc<VirtualClock>,
    device: Option<Arc<dyn Device>>,
    model: Option<Arc<ModelDevice>>,
    /// How placement reaches a real device, and what the user must be told of it.
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

    /// A cache on a device that somebody else made, and may share with others.
    pub(super) fn open(
        options: &ReplayOptions,
        engines: EngineOptions,
        placement: bool,
        device: Option<Arc<dyn Device>>,
    ) -> Result<Self, Error> {
        Self::open_by(options, engines, placement, device, Arc::default())
    }

    /// The same under a clock that somebody else moves too.
    pub(super) fn open_by(
        options: &ReplayOptions,
        engines: EngineOptions,
        placement: bool,
        device: Option<Arc<dyn Device>>,
        clock: Arc<VirtualClock>,
    ) -> Result<Self, Error> {
        let config = config(options, engines, placement);
        let cache = Larder::open(config, device.clone(), Arc::clone(&clock) as _);
        let cache = block_on(cache).map_err(|error| match error.kind() {
            larder::ErrorKind::Config => Error::usage(error.to_string()),
            _ => Error::run(error.to_string()),
        })?;
        Ok(Self {
            cache,
            clock,
            device,
            model: None,
            placement_path: None,
            notice: None,
            _file: None,
            _vssd: None,
        })
    }

    pub(super) fn device_stats(&self) -> DeviceStats {
        self.device.as_ref().map(|device| device.stats()).unwrap_or_default()
    }

    /// Bytes of the device; 0 without one.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.device.as_ref().map_or(0, |device| device.info().capacity_bytes)
    }

    /// The simulated drive's units, by what they hold. Empty for other devices.
    pub(super) fn picture(&self) -> Vec<UnitPicture> {
        let (Some(model), Some(layout)) = (&self.model, self.cache.layout()) else {
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

/// A real device. A run without placement asks for none.
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

/// The simulated drive of `options`, with that many reclaim unit handles.
pub(super) fn drive(
    options: &ReplayOptions,
    placement: bool,
    handles: u16,
) -> Result<ModelDevice, Error> {
    let config = drive_config(options, placement, handles)?;
    ModelDevice::new(config, Payload::Memory).map_err(|error| no_such_drive(&error))
}

/// Refuses a file that would have to grow: whoever made it did not make it for this.
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

/// A file that a replay made for itself. One that was there before is left in place.
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
