//! Records of the block caches of this system, so that `larder block create` can warn about a core that another cache
//! has.
//!
//! A record is a file, named by the UUID of a cache, with the path of its device when it was last created, started or
//! attached. It is only a hint: the device itself is then read, without a lock, since the cache may be running.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::BinaryBytes;
use larder_block::ErrorKind;
use larder_block::layout::SECTOR_BYTES;
use larder_block::manage::{self, CachedElsewhere, Core, DirtyElsewhere};
use larder_device::label::Uuid;
use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Error as DeviceError, Io, IoFailure, IoFuture,
    block_on,
};

use super::target;
use crate::args::TargetArg;
use crate::data_directory::default_directory;

const DIRECTORY: &str = "block-caches";
/// Longest record; paths are shorter.
const RECORD_BYTES_MAX: u64 = 8192;
/// Block size for reading another cache device.
const BLOCK_BYTES: u32 = 512;

/// Records where a cache is. A failure is only reported; nothing depends on the record.
pub(super) fn record(cache: Uuid, target: &TargetArg) {
    // A memory device ends with the process, so there is nothing to record.
    let TargetArg::Device(target) = target::absolute(target) else { return };
    let Ok(directory) = directory() else { return };
    let written = fs::create_dir_all(&directory).and_then(|()| {
        let temporary = tempfile::NamedTempFile::new_in(&directory)?;
        fs::write(temporary.path(), target.path.as_os_str().as_encoded_bytes())?;
        temporary.persist(directory.join(cache.to_string())).map_err(|failed| failed.error)
    });
    if let Err(error) = written {
        eprintln!(
            "note: {}: {error}: a later `larder block create` will not know of this cache",
            directory.display()
        );
    }
}

/// Warns about each core that is also a core of another known cache.
pub(super) fn warn_of_others(cache: &TargetArg, cores: &[Core]) {
    let own = match target::absolute(cache) {
        TargetArg::Device(target) => Some(target.path),
        _ => None,
    };
    let Ok(directory) = directory() else { return };
    for (uuid, record, path) in records(&directory) {
        // `create` itself looks at its own device.
        if Some(&path) == own.as_ref() {
            continue;
        }
        match look(&path, uuid, cores) {
            Ok(found) => {
                found.iter().for_each(|one| eprintln!("warning: {}", warning(one, &path)));
            }
            // Something else is on the device now, so the record is outdated.
            Err(LookupFailure::Other) => drop(fs::remove_file(record)),
            Err(LookupFailure::Absent) => {}
        }
    }
}

fn directory() -> Result<PathBuf, larder_workload::Error> {
    Ok(default_directory()?.join(DIRECTORY))
}

/// UUIDs of caches, their records, and the paths of their devices.
fn records(directory: &Path) -> Vec<(Uuid, PathBuf, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let read = |record: PathBuf| {
        let uuid = record.file_name()?.to_str()?.parse().ok()?;
        let is_short = fs::metadata(&record).is_ok_and(|it| it.len() <= RECORD_BYTES_MAX);
        let path = fs::read_to_string(&record).ok().filter(|_| is_short)?;
        Some((uuid, record, PathBuf::from(path)))
    };
    let mut records: Vec<_> = entries.flatten().filter_map(|entry| read(entry.path())).collect();
    records.sort_by(|(_, one, _), (_, other, _)| one.cmp(other));
    records
}

/// Why a cache was not found at its recorded place.
enum LookupFailure {
    /// The device cannot be read now, and may come back.
    Absent,
    /// Something else is there.
    Other,
}

fn look(path: &Path, uuid: Uuid, cores: &[Core]) -> Result<Vec<CachedElsewhere>, LookupFailure> {
    let peek: Arc<dyn Device> = Arc::new(Peek::at(path).map_err(|_| LookupFailure::Absent)?);
    let unseen = |error: larder_block::Error| match error.kind() {
        ErrorKind::Format => LookupFailure::Other,
        _ => LookupFailure::Absent,
    };
    if block_on(manage::look(&peek)).map_err(unseen)?.uuid != uuid {
        return Err(LookupFailure::Other);
    }
    block_on(manage::cached_elsewhere(&peek, cores)).map_err(unseen)
}

fn warning(found: &CachedElsewhere, path: &Path) -> String {
    let CachedElsewhere { core, name, cache, number, dirty } = found;
    let path = path.display();
    let what = match dirty {
        DirtyElsewhere::Sectors(sectors) => {
            let bytes = BinaryBytes(sectors * SECTOR_BYTES as u64);
            format!(
                "which has {bytes} of dirty data for it: before you start this cache, `larder block recover {path}` \
                 writes them to the core"
            )
        }
        DirtyElsewhere::Unknown => format!(
            "which runs or was not stopped in order, and may have dirty data for it: before you start this cache, stop \
             that one, and `larder block recover {path}` writes them to the core"
        ),
        DirtyElsewhere::Nothing => format!(
            "which has no dirty data for it; `larder block cores {path} --remove {}` takes it from that cache",
            number.get()
        ),
    };
    format!(
        "core {} ({name}) is core {} of the cache {cache} on {path}, {what}",
        core.get(),
        number.get()
    )
}

/// A cache device opened read-only without a lock: its cache may be running, or about to start.
struct Peek {
    file: File,
    info: DeviceInfo,
}

impl Peek {
    fn at(path: &Path) -> io::Result<Self> {
        let kind = fs::metadata(path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut file = File::open(path)?;
        let bytes = file.seek(SeekFrom::End(0))?;
        let capacity = bytes - bytes % u64::from(BLOCK_BYTES);
        let info = DeviceInfo::new(path.display().to_string(), capacity, BLOCK_BYTES, 1 << 20);
        Ok(Self { file, info })
    }
}

impl Device for Peek {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        let Io::Read { offset, .. } = io.get() else {
            let refused = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
            return io.fail(DeviceError::from_os("a device that is only looked at", refused));
        };
        let offset = *offset;
        let mut buffer = io.into_inner().into_buffer();
        let read = self.file.read_exact_at(buffer.as_mut_slice(), offset);
        IoFuture::ready(match read {
            Ok(()) => Ok(buffer),
            Err(error) => {
                let error = DeviceError::from_os(format!("{}: reading", self.info.name), error);
                Err(IoFailure { error, buffer })
            }
        })
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}
