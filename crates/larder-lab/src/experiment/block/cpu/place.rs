//! The cache device and the core: files or memory.

use std::path::Path;
use std::sync::Arc;

use larder_block::manage::Core;
use larder_device::label::Uuid;
use larder_device::{
    Device, ErrorKind, FileDevice, FileOptions, Io, IoBuffer, MemoryDevice, PlacementHandle,
};

use super::super::counted::{BLOCK_BYTES, core};
use crate::Error;
use crate::experiment::{Parameter, Settings};

pub(super) const DIR: Parameter = Parameter {
    name: "dir",
    default: ".",
    help: "directory of the file that is the cache device, six times as long as the longest that is written and 8 MiB \
           more",
};
pub(super) const CORE_DIR: Parameter = Parameter {
    name: "core_dir",
    default: ".",
    help: "directory of the file that is the core, as long as the longest that is written",
};
pub(super) const MIB: Parameter = Parameter {
    name: "mib",
    default: "4",
    help: "length of the file that is written, MiB, 1 to 1024; of 64 writes at least, and in memory 16 times as \
           long, up to 64 MiB",
};
/// Size of the writes that initialize a device before the measurement.
const PIECE_BYTES: usize = 1 << 20;

/// A cache device and a core. New ones hold zeros.
pub(super) struct Place {
    /// Name in metrics.
    pub(super) name: &'static str,
    pub(super) cache: Arc<dyn Device>,
    pub(super) core: Arc<dyn Device>,
    /// Whether transfers bypass the page cache.
    pub(super) is_direct: bool,
    /// The UUID of the block cache on the device, once there is one.
    pub(super) holds: Option<Uuid>,
}

/// Bytes of the cache device for a file of `file_bytes` bytes. On blocks of 4 KiB, a log needs twice the file length
/// for a pass in lines of 4 KiB. The rest keeps the device from filling up.
pub(super) fn cache_bytes(file_bytes: u64) -> u64 {
    file_bytes * 6 + (8 << 20)
}

impl Place {
    pub(super) fn memory(file_bytes: u64) -> Result<Self, Error> {
        let device = |bytes: u64| -> Result<Arc<dyn Device>, Error> {
            let length = usize::try_from(bytes).map_err(|_| Error::usage("too large"))?;
            Ok(Arc::new(MemoryDevice::with_blocks(vec![0; length], BLOCK_BYTES).map_err(failed)?))
        };
        let (cache, core) = (device(cache_bytes(file_bytes))?, device(file_bytes)?);
        // Touch all pages now, or the first writes would pay for them.
        write_over(&cache).and_then(|()| write_over(&core)).map_err(failed)?;
        Ok(Self { name: "memory", cache, core, is_direct: false, holds: None })
    }

    /// Uses unnamed files. They disappear with the process, however it ends.
    pub(super) fn files(settings: &Settings, file_bytes: u64) -> Result<Self, Error> {
        let (cache, cache_direct) = file(settings, DIR, cache_bytes(file_bytes))?;
        let (core, core_direct) = file(settings, CORE_DIR, file_bytes)?;
        let is_direct = cache_direct && core_direct;
        Ok(Self { name: "files", cache, core, is_direct, holds: None })
    }

    pub(super) fn cores(&self) -> Result<[Core; 1], Error> {
        Ok([Core { id: core()?, name: "core".to_owned(), device: Arc::clone(&self.core) }])
    }
}

/// Makes a file whose blocks are all written: in a filesystem that only reserved a block, its first write takes longer.
fn file(settings: &Settings, dir: Parameter, bytes: u64) -> Result<(Arc<dyn Device>, bool), Error> {
    let text = settings.text(dir.name);
    let named = tempfile::NamedTempFile::with_prefix_in("larder-block-cpu-", Path::new(text))
        .map_err(|cause| {
            let complaint =
                format!("no file can be made there: {cause}; name a directory that can be written");
            settings.refuse(dir.name, text, &complaint)
        })?;
    let options =
        FileOptions { capacity_bytes: Some(bytes), create: true, ..FileOptions::default() };
    let unfit = |error: larder_device::Error| unfit(settings, dir, bytes, &error);
    let device = FileDevice::open(named.path(), &options).map_err(unfit)?;
    let is_direct = device.direct();
    let device: Arc<dyn Device> = Arc::new(device);
    write_over(&device).map_err(unfit)?;
    Ok((device, is_direct))
}

/// An error that says what the user can do about a file that cannot be made or written.
fn unfit(settings: &Settings, dir: Parameter, bytes: u64, error: &larder_device::Error) -> Error {
    let mut message = format!("block-cpu: --set {}={}: {error}", dir.name, settings.text(dir.name));
    if error.kind() == ErrorKind::NoSpace {
        let takes = bytes >> 20;
        message +=
            &format!("; it takes {takes} MiB there: free as much, or name another directory");
        // Up to 4 MiB the file has the same length: see `Point::file_bytes`.
        if settings.get::<u64>(MIB.name).is_ok_and(|mib| mib > 4) {
            message += &format!(", or make {} less than {}", MIB.name, settings.text(MIB.name));
        }
    }
    Error::run(message)
}

fn write_over(device: &Arc<dyn Device>) -> Result<(), larder_device::Error> {
    let end = device.info().capacity_bytes;
    for offset in (0..end).step_by(PIECE_BYTES) {
        let bytes = usize::try_from(end - offset).map_or(PIECE_BYTES, |rest| rest.min(PIECE_BYTES));
        let io = Io::write(offset, IoBuffer::zeroed(bytes), PlacementHandle::DEFAULT);
        device.submit(io).wait().map_err(|failure| failure.error)?;
    }
    device.submit(Io::Flush).wait().map(drop).map_err(|failure| failure.error)
}

pub(super) fn failed(error: impl std::fmt::Display) -> Error {
    Error::run(format!("block-cpu: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::BLOCK_CPU;
    use super::*;

    #[test]
    fn a_directory_that_is_too_full_is_named_with_what_it_takes() {
        let of = |kind, mib: &str| {
            let set = [format!("mib={mib}")];
            let settings = Settings::new(BLOCK_CPU.name, BLOCK_CPU.parameters, &set).unwrap();
            let error = larder_device::Error::new(kind, "file device x: no");
            unfit(&settings, CORE_DIR, 64 << 20, &error).to_string()
        };
        let full = of(ErrorKind::NoSpace, "9");
        for part in ["--set core_dir=.: file device x: no", "64 MiB", "mib less than 9"] {
            assert!(full.contains(part), "{part}: {full}");
        }
        assert!(!of(ErrorKind::NoSpace, "4").contains("mib less"));
        assert!(!of(ErrorKind::Io, "9").contains("MiB"));
    }
}
