//! A zoned block device on Linux.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Zone, ZoneLimits, ZonedDevice, ioctl, queue};
use crate::device::Device;
use crate::device::Extent;
use crate::error::{Error, ErrorKind};
use crate::file::FileDevice;
use crate::file_options::{DirectIo, FileOptions};
use crate::info::{DeviceInfo, DeviceStats};
use crate::io::{CheckedIo, IoFuture};
use crate::sys;

/// The queue of a zoned block device in `/sys`; `None` for another file.
fn queue_of(file: &File) -> Option<PathBuf> {
    let is_block = file.metadata().is_ok_and(|metadata| sys::is_block(&metadata));
    let queue = sys::queue_below(file).filter(|_| is_block)?;
    queue::model(&queue).map(|_| queue)
}

/// A zoned block device, such as a zoned namespace (`/dev/nvme0n1`).
#[derive(Debug)]
pub struct ZonedFile {
    device: FileDevice,
    /// Used for zone operations, because `device` does not expose its file.
    zones: File,
    limits: ZoneLimits,
}

impl ZonedFile {
    /// Whether `path` is a zoned block device, whose zones must be written in order.
    pub fn is_there(path: impl AsRef<Path>) -> bool {
        File::open(path).is_ok_and(|file| queue_of(&file).is_some())
    }

    /// Opens it past the page cache, which does not keep the order of writes.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if it is no zoned block device, or cannot be opened; [`ErrorKind::InUse`] if another cache
    /// has it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let setup =
            |what: String| Error::new(ErrorKind::Setup, format!("{}: {what}", path.display()));
        let zones = File::options().read(true).write(true).open(path);
        let zones = zones.map_err(|cause| setup(cause.to_string()))?;
        let Some(queue) = queue_of(&zones) else {
            let what =
                "it is no zoned block device (/sys/block/…/queue/zoned says so); open it as a file";
            return Err(setup(what.to_owned()));
        };
        let options = FileOptions { direct: DirectIo::Required, ..FileOptions::default() };
        let device = FileDevice::open(path, &options)?;
        Ok(Self { device, zones, limits: queue::limits(&queue) })
    }

    fn failed(&self, what: &str, zone: &Zone, cause: &io::Error) -> Error {
        let name = &self.device.info().name;
        Error::new(ErrorKind::Io, format!("{name}: {what} of the zone at {}: {cause}", zone.start))
    }
}

impl Device for ZonedFile {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        self.device.start(io)
    }

    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }

    fn boot(&self) -> Option<u64> {
        self.device.boot()
    }

    fn stored_at(&self, range: Range<u64>) -> Vec<Extent> {
        self.device.stored_at(range)
    }
}

impl ZonedDevice for ZonedFile {
    fn limits(&self) -> ZoneLimits {
        self.limits
    }

    fn report(&self) -> Result<Vec<Zone>, Error> {
        ioctl::report(&self.zones).map_err(|cause| {
            let name = &self.device.info().name;
            Error::new(ErrorKind::Io, format!("{name}: report of its zones: {cause}"))
        })
    }

    fn reset(&self, zone: &Zone) -> Result<(), Error> {
        ioctl::reset(&self.zones, zone).map_err(|cause| self.failed("reset", zone, &cause))
    }

    fn finish(&self, zone: &Zone) -> Result<(), Error> {
        ioctl::finish(&self.zones, zone).map_err(|cause| self.failed("finish", zone, &cause))
    }
}
