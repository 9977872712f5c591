//! Calls of the operating system that the file device needs and the standard library does not offer.
//!
//! Linux supports all of them. Elsewhere the answers are the minimum: nothing can be preallocated or punched out, and
//! direct I/O is refused.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::info::VolatileCache;

/// The first 64 bits of the identifier that the kernel draws at each boot. `None` where there is none.
pub(crate) fn boot() -> Option<u64> {
    let identifier = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = identifier.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).ok()
}

/// Whether a block device has a volatile write cache, according to sysfs. `queue` is the device's sysfs directory.
pub(crate) fn volatile_cache(queue: &Path) -> VolatileCache {
    match std::fs::read_to_string(queue.join("write_cache")).as_deref().map(str::trim) {
        Ok("write back") => VolatileCache::Yes,
        Ok("write through") => VolatileCache::No,
        _ => VolatileCache::Unknown,
    }
}

/// Bytes that a single write leaves either whole or untouched after a loss of power, according to sysfs. `None` where
/// it does not say.
pub(crate) fn atomic_write_bytes(queue: &Path) -> Option<u32> {
    let said = std::fs::read_to_string(queue.join("atomic_write_unit_max_bytes")).ok()?;
    said.trim().parse().ok().filter(|bytes| *bytes > 0)
}

/// Bytes of metadata per block of a block device, according to the files next to its sysfs `queue`; 0 where sysfs does
/// not say.
pub(crate) fn metadata_bytes(queue: &Path) -> u16 {
    let Some(disk) = queue.parent() else { return 0 };
    if let Ok(said) = std::fs::read_to_string(disk.join("metadata_bytes")) {
        return said.trim().parse().unwrap_or(0);
    }
    // An older kernel reports only the protection information.
    match std::fs::read_to_string(disk.join("integrity/format")).as_deref().map(str::trim) {
        Ok(format) if format.starts_with("T10-DIF") => 8,
        Ok(format) if format.starts_with("EXT-DIF") => 16,
        _ => 0,
    }
}

/// What direct I/O on a file needs, in bytes. Blocks of 0 bytes mean that the file has no direct I/O.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectNeeds {
    /// Alignment of the memory.
    pub(crate) memory_bytes: u32,
    /// Unit of offsets and lengths.
    pub(crate) offset_bytes: u32,
}

#[cfg(target_os = "linux")]
mod platform {
    use super::{DirectNeeds, File, Path, io};
    use std::path::PathBuf;

    use rustix::fs::{FallocateFlags, OFlags};

    /// Flags of the `fallocate` that gives a range of the file back to the filesystem.
    pub(crate) const PUNCH_HOLE: FallocateFlags =
        FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

    /// Reserves the first `bytes` bytes, growing the file to that size.
    pub(crate) fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
        loop {
            match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
                Err(rustix::io::Errno::INTR) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Flags of the `fallocate` that makes a range of the file read as zeros; its blocks stay reserved.
    pub(crate) const ZERO_RANGE: FallocateFlags =
        FallocateFlags::ZERO_RANGE.union(FallocateFlags::KEEP_SIZE);

    pub(crate) fn zero_range(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(file, ZERO_RANGE, offset, bytes)?)
    }

    pub(crate) fn punch_hole(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(file, PUNCH_HOLE, offset, bytes)?)
    }

    /// The flag of a ring's write that must survive a loss of power.
    pub(crate) const DURABLE_WRITE: u32 = rustix::io::ReadWriteFlags::DSYNC.bits();

    /// Writes so that the bytes survive a loss of power.
    pub(crate) fn write_durably_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let (flags, parts) = (rustix::io::ReadWriteFlags::DSYNC, [io::IoSlice::new(bytes)]);
        Ok(rustix::io::pwritev2(file, &parts, offset, flags)?)
    }

    /// Reads into `parts` in order.
    pub(crate) fn read_list_at(
        file: &File,
        parts: Vec<&mut [u8]>,
        offset: u64,
    ) -> io::Result<usize> {
        let mut parts: Vec<_> = parts.into_iter().map(io::IoSliceMut::new).collect();
        Ok(rustix::io::preadv(file, &mut parts, offset)?)
    }

    /// Writes `parts` in order; with `durably`, the bytes survive a loss of power.
    pub(crate) fn write_list_at(
        file: &File,
        parts: Vec<&mut [u8]>,
        offset: u64,
        durably: bool,
    ) -> io::Result<usize> {
        let parts: Vec<_> = parts.into_iter().map(|part| io::IoSlice::new(part)).collect();
        if !durably {
            return Ok(rustix::io::pwritev(file, &parts, offset)?);
        }
        Ok(rustix::io::pwritev2(file, &parts, offset, rustix::io::ReadWriteFlags::DSYNC)?)
    }

    /// Bytes free in the filesystem, and bytes already allocated to `file`.
    pub(crate) fn space(file: &File) -> Option<(u64, u64)> {
        let filesystem = rustix::fs::fstatvfs(file).ok()?;
        let blocks = u64::try_from(rustix::fs::fstat(file).ok()?.st_blocks).ok()?;
        Some((filesystem.f_bfree.checked_mul(filesystem.f_frsize)?, blocks.checked_mul(512)?))
    }

    /// `ECANCELED`.
    pub(crate) fn is_cancelled(error: &io::Error) -> bool {
        error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error())
    }

    /// `ENODEV` and `ENXIO`: the device behind the node is gone. `ESHUTDOWN` and what counts as `ENOTCONN` mean the
    /// same.
    pub(crate) fn is_gone(error: &io::Error) -> bool {
        use rustix::io::Errno;
        let gone = [Errno::NODEV, Errno::NXIO, Errno::SHUTDOWN];
        error.kind() == io::ErrorKind::NotConnected
            || gone.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }

    /// The kernel does not support an operation, or not for such a file.
    pub(crate) fn is_unknown(error: &io::Error) -> bool {
        use rustix::io::Errno;
        let unknown = [Errno::OPNOTSUPP, Errno::INVAL, Errno::NOTTY, Errno::NOSYS];
        unknown.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }

    /// The kernel does not support, or cannot use, an extra argument of a request.
    pub(crate) fn is_misunderstood(error: &io::Error) -> bool {
        use rustix::io::Errno;
        let refused = [Errno::OPNOTSUPP, Errno::INVAL, Errno::FAULT];
        refused.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }

    /// Opens a block device exclusively. While it is open, no other program can open it so, mount it or make it part of
    /// another device.
    pub(crate) fn open_alone(path: &Path, read_only: bool) -> io::Result<File> {
        use std::os::unix::fs::OpenOptionsExt;
        let alone = i32::try_from(OFlags::EXCL.bits()).unwrap_or(0);
        File::options().read(true).write(!read_only).custom_flags(alone).open(path)
    }

    /// Opens an open file a second time, with flags of its own, even if it was renamed.
    pub(crate) fn open_again(file: &File) -> io::Result<File> {
        use std::os::fd::AsRawFd;
        File::options().read(true).write(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }

    /// Whether a node is a block device.
    pub(crate) fn is_block(metadata: &std::fs::Metadata) -> bool {
        std::os::unix::fs::FileTypeExt::is_block_device(&metadata.file_type())
    }

    /// Logical block size of a block device in bytes; `None` for other files.
    pub(crate) fn logical_block_bytes(file: &File) -> Option<u32> {
        file.metadata().ok().filter(is_block)?;
        rustix::fs::ioctl_blksszget(file).ok().filter(|bytes| bytes.is_power_of_two())
    }

    /// What direct I/O on a regular file needs, where the kernel and filesystem report it (Linux 6.1).
    pub(crate) fn direct_needs(file: &File) -> Option<DirectNeeds> {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        let said = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
        (said.stx_mask & StatxFlags::DIOALIGN.bits() != 0).then_some(DirectNeeds {
            memory_bytes: said.stx_dio_mem_align,
            offset_bytes: said.stx_dio_offset_align,
        })
    }

    /// The sysfs path that exists as long as the block device does.
    pub(crate) fn shown_at(file: &File) -> Option<PathBuf> {
        let metadata = file.metadata().ok().filter(is_block)?;
        let number = std::os::unix::fs::MetadataExt::rdev(&metadata);
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        Some(format!("/sys/dev/block/{major}:{minor}").into()).filter(|it: &PathBuf| it.exists())
    }

    /// The sysfs `queue` of the block device that a file is, or that its filesystem is on. `None` where sysfs shows
    /// none: for a filesystem over several devices, in memory, or on another computer.
    pub(crate) fn queue_below(file: &File) -> Option<PathBuf> {
        use std::os::unix::fs::MetadataExt;
        let metadata = file.metadata().ok()?;
        let number = if is_block(&metadata) { metadata.rdev() } else { metadata.dev() };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let shown = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let is_partition = shown.join("partition").exists();
        let whole = if is_partition { shown.parent()? } else { &shown };
        Some(whole.join("queue")).filter(|queue| queue.exists())
    }

    /// The sysfs path of a character device.
    pub(crate) fn character_shown_at(file: &File) -> io::Result<PathBuf> {
        let number = std::os::unix::fs::MetadataExt::rdev(&file.metadata()?);
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        std::fs::canonicalize(format!("/sys/dev/char/{major}:{minor}"))
    }

    /// Whether a node is a character device.
    pub(crate) fn is_character(metadata: &std::fs::Metadata) -> bool {
        std::os::unix::fs::FileTypeExt::is_char_device(&metadata.file_type())
    }

    /// Whether the kernel refused because the device is in use.
    pub(crate) fn is_busy(error: &io::Error) -> bool {
        error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error())
    }

    pub(crate) fn set_direct(file: &File, on: bool) -> io::Result<()> {
        let mut flags = rustix::fs::fcntl_getfl(file)?;
        flags.set(OFlags::DIRECT, on);
        Ok(rustix::fs::fcntl_setfl(file, flags)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use super::{DirectNeeds, File, Path, io};

    pub(crate) fn preallocate(_: &File, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn zero_range(_: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn punch_hole(_: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported here: a flush follows the write.
    pub(crate) fn write_durably_at(_: &File, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn space(_: &File) -> Option<(u64, u64)> {
        None
    }

    pub(crate) fn is_cancelled(_: &io::Error) -> bool {
        false
    }

    pub(crate) fn is_gone(_: &io::Error) -> bool {
        false
    }

    pub(crate) fn logical_block_bytes(_: &File) -> Option<u32> {
        None
    }

    pub(crate) fn direct_needs(_: &File) -> Option<DirectNeeds> {
        None
    }

    pub(crate) fn shown_at(_: &File) -> Option<std::path::PathBuf> {
        None
    }

    pub(crate) fn queue_below(_: &File) -> Option<std::path::PathBuf> {
        None
    }

    pub(crate) fn open_alone(path: &Path, _read_only: bool) -> io::Result<File> {
        File::options().read(true).write(true).open(path)
    }

    pub(crate) fn open_again(_: &File) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn is_block(_: &std::fs::Metadata) -> bool {
        false
    }

    pub(crate) fn is_busy(_: &io::Error) -> bool {
        false
    }

    pub(crate) fn set_direct(_: &File, on: bool) -> io::Result<()> {
        if on { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
    }
}

pub(crate) use platform::*;

#[cfg(unix)]
pub(crate) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, offset)
}

#[cfg(unix)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, offset)
}

#[cfg(windows)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

#[cfg(test)]
mod tests {
    use super::metadata_bytes;
    use std::fs;

    #[test]
    fn metadata_is_what_sysfs_says_of_it() {
        let disk = tempfile::tempdir().unwrap();
        let queue = disk.path().join("queue");
        assert_eq!(metadata_bytes(&queue), 0);
        fs::create_dir(disk.path().join("integrity")).unwrap();
        for (format, bytes) in [("none", 0), ("T10-DIF-TYPE1-CRC", 8), ("EXT-DIF-TYPE1-CRC64", 16)]
        {
            fs::write(disk.path().join("integrity/format"), format!("{format}\n")).unwrap();
            assert_eq!(metadata_bytes(&queue), bytes, "{format}");
        }
        fs::write(disk.path().join("metadata_bytes"), "64\n").unwrap();
        assert_eq!(metadata_bytes(&queue), 64);
    }
}
