//! What the file device asks of the operating system, as far as the standard library does not offer
//! it.
//!
//! Linux has all of it. Elsewhere the answers are the honest minimum: nothing can be preallocated
//! or punched out, and direct I/O is refused.

use std::fs::File;
use std::io;

/// The first 64 bits of the identifier that the kernel draws at each boot. `None` where there is
/// none.
pub(super) fn boot() -> Option<u64> {
    let identifier = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = identifier.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).ok()
}

#[cfg(target_os = "linux")]
mod platform {
    use super::{File, io};
    use rustix::fs::{FallocateFlags, OFlags};

    /// The flags of the call that gives a range of the file back to the filesystem.
    pub(in super::super) const PUNCH_HOLE: FallocateFlags =
        FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

    /// Reserves the first `bytes` bytes, growing the file to that size.
    pub(in super::super) fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
        loop {
            match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
                Err(rustix::io::Errno::INTR) => {}
                outcome => return Ok(outcome?),
            }
        }
    }

    pub(in super::super) fn punch_hole(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(file, PUNCH_HOLE, offset, bytes)?)
    }

    /// Bytes that the filesystem could still take, and bytes that it has already given to `file`.
    pub(in super::super) fn space(file: &File) -> Option<(u64, u64)> {
        let filesystem = rustix::fs::fstatvfs(file).ok()?;
        let blocks = u64::try_from(rustix::fs::fstat(file).ok()?.st_blocks).ok()?;
        Some((filesystem.f_bfree.checked_mul(filesystem.f_frsize)?, blocks.checked_mul(512)?))
    }

    /// `ECANCELED`.
    pub(in super::super) fn is_cancelled(error: &io::Error) -> bool {
        error.raw_os_error() == Some(rustix::io::Errno::CANCELED.raw_os_error())
    }

    pub(in super::super) fn set_direct(file: &File, on: bool) -> io::Result<()> {
        let mut flags = rustix::fs::fcntl_getfl(file)?;
        flags.set(OFlags::DIRECT, on);
        Ok(rustix::fs::fcntl_setfl(file, flags)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use super::{File, io};

    pub(in super::super) fn preallocate(_: &File, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in super::super) fn punch_hole(_: &File, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in super::super) fn space(_: &File) -> Option<(u64, u64)> {
        None
    }

    pub(in super::super) fn is_cancelled(_: &io::Error) -> bool {
        false
    }

    pub(in super::super) fn set_direct(_: &File, on: bool) -> io::Result<()> {
        if on { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
    }
}

pub(super) use platform::*;

#[cfg(unix)]
pub(super) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, into, offset)
}

#[cfg(unix)]
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, into, offset)
}

#[cfg(windows)]
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}
