//! Parses requests of the kernel from their descriptors, and maps errors to those of the kernel.
//!
//! The kernel respects the properties of the device that it was told. All of them are checked nevertheless, before a
//! volume sees the request.

use std::ops::Range;

use larder_device::ErrorKind;
use rustix::io::Errno;

use super::wire::{IoDescriptor, SECTOR_BYTES, request};

/// An operation on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read(Range<u64>),
    Write { range: Range<u64>, is_durable: bool },
    Flush,
    Discard(Range<u64>),
    WriteZeroes { range: Range<u64>, keeps_room: bool, is_durable: bool },
}

/// The limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) size_bytes: u64,
    /// Ranges must be multiples of it.
    pub(super) block_bytes: u64,
    /// Longest read or write.
    pub(super) io_bytes_max: u64,
    /// Longest range that is discarded or zeroed.
    pub(super) range_bytes_max: u64,
    pub(super) is_read_only: bool,
}

impl Operation {
    /// # Errors
    /// `NOTSUP` for an unknown operation, `INVAL` for an invalid range, `IO` for a range beyond the device, `ROFS` for
    /// a change of a read-only device.
    pub(super) fn of(descriptor: &IoDescriptor, limits: &Limits) -> Result<Self, Errno> {
        let [what, ..] = descriptor.what.to_le_bytes();
        let has = |flag: u32| descriptor.what & flag != 0;
        let changes = matches!(what, request::WRITE | request::DISCARD | request::WRITE_ZEROES);
        if changes && limits.is_read_only {
            return Err(Errno::ROFS);
        }
        let is_durable = has(request::FUA);
        match what {
            request::FLUSH => Ok(Self::Flush),
            request::READ => limits.range(descriptor, limits.io_bytes_max).map(Self::Read),
            request::WRITE => {
                let range = limits.range(descriptor, limits.io_bytes_max)?;
                Ok(Self::Write { range, is_durable })
            }
            request::DISCARD => limits.range(descriptor, limits.range_bytes_max).map(Self::Discard),
            request::WRITE_ZEROES => {
                let range = limits.range(descriptor, limits.range_bytes_max)?;
                let keeps_room = has(request::NOUNMAP);
                Ok(Self::WriteZeroes { range, keeps_room, is_durable })
            }
            _ => Err(Errno::NOTSUP),
        }
    }

    /// The result of a successful request: the number of bytes for reads and writes, otherwise 0.
    pub(super) fn done(&self) -> i32 {
        match self {
            Self::Read(range) | Self::Write { range, .. } => {
                i32::try_from(range.end - range.start).unwrap_or(i32::MAX)
            }
            _ => 0,
        }
    }
}

impl Limits {
    fn range(&self, descriptor: &IoDescriptor, bytes_max: u64) -> Result<Range<u64>, Errno> {
        let bytes = u64::from(descriptor.sectors) * SECTOR_BYTES;
        if bytes == 0 || bytes > bytes_max {
            return Err(Errno::INVAL);
        }
        let start = descriptor.first_sector.checked_mul(SECTOR_BYTES).ok_or(Errno::IO)?;
        let end = start.checked_add(bytes).ok_or(Errno::IO)?;
        if end > self.size_bytes {
            return Err(Errno::IO);
        }
        if !start.is_multiple_of(self.block_bytes) || !end.is_multiple_of(self.block_bytes) {
            return Err(Errno::INVAL);
        }
        Ok(start..end)
    }
}

/// The kernel's error for a request that failed in the volume.
pub(super) fn errno_of(error: &larder_device::Error) -> Errno {
    match error.kind() {
        ErrorKind::NoSpace => Errno::NOSPC,
        ErrorKind::InvalidRequest => Errno::INVAL,
        ErrorKind::TimedOut => Errno::TIMEDOUT,
        _ => Errno::IO,
    }
}

/// The result to commit for an error.
pub(super) fn refused(errno: Errno) -> i32 {
    -errno.raw_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        size_bytes: 1 << 20,
        block_bytes: 1,
        io_bytes_max: 64 << 10,
        range_bytes_max: 256 << 10,
        is_read_only: false,
    };

    fn read(what: u32, first_sector: u64, sectors: u32) -> Result<Operation, Errno> {
        let descriptor = IoDescriptor { what, sectors, first_sector, addr: 0 };
        Operation::of(&descriptor, &LIMITS)
    }

    #[test]
    fn what_is_asked_is_what_is_meant() {
        assert_eq!(read(0, 3, 5), Ok(Operation::Read(1536..4096)));
        let write = |is_durable| Operation::Write { range: 0..65536, is_durable };
        assert_eq!(read(1, 0, 128), Ok(write(false)));
        assert_eq!(read(1 | 1 << 13, 0, 128), Ok(write(true)));
        assert_eq!(read(1 | 1 << 8 | 1 << 16, 0, 128), Ok(write(false)), "hints are no flags");
        assert_eq!(read(2, u64::MAX, u32::MAX), Ok(Operation::Flush), "it has no range");
        assert_eq!(read(3, 0, 512), Ok(Operation::Discard(0..256 << 10)));
        let zeroes = |keeps_room, is_durable| Operation::WriteZeroes {
            range: 512..1024,
            keeps_room,
            is_durable,
        };
        assert_eq!(read(5, 1, 1), Ok(zeroes(false, false)));
        assert_eq!(read(5 | 1 << 15, 1, 1), Ok(zeroes(true, false)));
        assert_eq!(read(5 | 1 << 13, 1, 1), Ok(zeroes(false, true)));
        assert_eq!(read(0, 3, 5).unwrap().done(), 2560);
        assert_eq!(read(5, 1, 1).unwrap().done(), 0);
    }

    #[test]
    fn what_is_hostile_never_reaches_a_volume() {
        let last = (LIMITS.size_bytes / 512) - 1;
        assert!(read(0, last, 1).is_ok());
        for what in [0, 1, 3, 5] {
            assert_eq!(read(what, last, 2), Err(Errno::IO), "beyond the end");
            assert_eq!(read(what, last + 1, 1), Err(Errno::IO));
            assert_eq!(read(what, u64::MAX, 1), Err(Errno::IO), "its bytes have no number");
            assert_eq!(read(what, u64::MAX / 512, 1), Err(Errno::IO), "its end has none");
            assert_eq!(read(what, 0, 0), Err(Errno::INVAL), "nothing");
            assert_eq!(read(what, 0, u32::MAX), Err(Errno::INVAL), "too long");
        }
        assert_eq!(read(0, 0, 129), Err(Errno::INVAL));
        assert_eq!(read(3, 0, 513), Err(Errno::INVAL));
        for what in [4, 6, 10, 255] {
            assert_eq!(read(what, 0, 8), Err(Errno::NOTSUP), "{what}");
        }
        let descriptor = IoDescriptor { what: 1, sectors: 7, first_sector: 0, addr: 0 };
        let blocks = Limits { block_bytes: 4096, ..LIMITS };
        assert_eq!(Operation::of(&descriptor, &blocks), Err(Errno::INVAL));
        let read_only = Limits { is_read_only: true, ..LIMITS };
        for what in [1, 3, 5] {
            let descriptor = IoDescriptor { what, ..descriptor };
            assert_eq!(Operation::of(&descriptor, &read_only), Err(Errno::ROFS));
        }
        let descriptor = IoDescriptor { what: 0, ..descriptor };
        assert!(Operation::of(&descriptor, &read_only).is_ok());
    }

    #[test]
    fn errors_are_those_that_the_kernel_tells_apart() {
        let of = |kind| refused(errno_of(&larder_device::Error::new(kind, "x")));
        assert_eq!(of(ErrorKind::NoSpace), -28);
        assert_eq!(of(ErrorKind::Gone), -5);
        assert_eq!(of(ErrorKind::Busy), -5);
        assert_eq!(of(ErrorKind::TimedOut), -110);
    }
}
