//! The properties of a device that the kernel is told: its size, its blocks, and its limits.

use larder_device::{Error, ErrorKind};

use super::request::Limits;
use super::wire::{BasicParams, DiscardParams, Params, SECTOR_BYTES, attribute, params_type};
use crate::volume::VolumeInfo;

/// Longest read or write, in bytes. With 128 of them in flight, a device takes at most 64 MiB of memory.
pub(super) const IO_BYTES_MAX: u32 = 512 << 10;
/// Longest range that is discarded or zeroed at once: if zeros must be written, this does not take minutes.
const RANGE_BYTES_MAX: u32 = 128 << 20;
/// Largest block size of the driver.
const BLOCK_BYTES_MAX: u32 = 4096;

/// The properties of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    size_bytes: u64,
    /// Smallest block of the volume, 1 or more.
    min_bytes: u32,
    io_bytes_max: u32,
    logical_bytes: u32,
    physical_bytes: u32,
    optimal_bytes: u32,
    is_read_only: bool,
}

impl Shape {
    /// # Errors
    /// [`ErrorKind::Setup`] if the kernel cannot make such a device.
    pub(super) fn of(
        volume: &VolumeInfo,
        logical_bytes: u32,
        optimal_bytes: u32,
        is_read_only: bool,
    ) -> Result<Self, Error> {
        let blocks = volume.blocks;
        let refused = |why: String| Err(Error::new(ErrorKind::Setup, why));
        let powers = [
            ("logical_block_bytes", logical_bytes, 512..=BLOCK_BYTES_MAX),
            ("optimal_bytes", optimal_bytes, 512..=1 << 30),
        ];
        for (name, bytes, range) in powers {
            if !bytes.is_power_of_two() || !range.contains(&bytes) {
                return refused(format!(
                    "{name} of {bytes}: must be a power of two from {} to {}",
                    range.start(),
                    range.end()
                ));
            }
        }
        if !logical_bytes.is_multiple_of(blocks.min.max(1)) {
            return refused(format!(
                "logical_block_bytes of {logical_bytes}: the volume has blocks of {}",
                blocks.min
            ));
        }
        let size_bytes = volume.size_bytes;
        if size_bytes == 0 || !size_bytes.is_multiple_of(logical_bytes.into()) {
            return refused(format!(
                "the volume has {size_bytes} bytes: must be whole blocks of {logical_bytes}, and one at least"
            ));
        }
        let io_bytes_max = IO_BYTES_MAX.min(blocks.max);
        if io_bytes_max < BLOCK_BYTES_MAX {
            return refused(format!(
                "the volume takes {io_bytes_max} bytes at a time: must be {BLOCK_BYTES_MAX} at least"
            ));
        }
        let physical_bytes = blocks.preferred.clamp(logical_bytes, BLOCK_BYTES_MAX);
        let optimal_bytes = optimal_bytes.max(physical_bytes);
        Ok(Self {
            size_bytes,
            min_bytes: blocks.min.max(1),
            io_bytes_max,
            logical_bytes,
            physical_bytes,
            optimal_bytes,
            is_read_only,
        })
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(super) fn io_bytes_max(&self) -> u32 {
        self.io_bytes_max
    }

    /// The limits for requests.
    pub(super) fn limits(&self) -> Limits {
        Limits {
            size_bytes: self.size_bytes,
            block_bytes: self.min_bytes.into(),
            io_bytes_max: self.io_bytes_max.into(),
            range_bytes_max: RANGE_BYTES_MAX.into(),
            is_read_only: self.is_read_only,
        }
    }

    /// The parameters for the kernel.
    pub(super) fn params(&self) -> Params {
        let shift = |bytes: u32| u8::try_from(bytes.ilog2()).expect("32 bits");
        let mut attributes = attribute::VOLATILE_CACHE | attribute::FUA;
        if self.is_read_only {
            attributes |= attribute::READ_ONLY;
        }
        let sectors = |bytes: u32| bytes >> 9;
        Params {
            len: u32::try_from(size_of::<Params>()).expect("a few bytes"),
            types: params_type::BASIC | params_type::DISCARD,
            basic: BasicParams {
                attributes,
                logical_block_shift: shift(self.logical_bytes),
                physical_block_shift: shift(self.physical_bytes),
                io_optimal_shift: shift(self.optimal_bytes),
                io_min_shift: shift(self.physical_bytes),
                sectors_max: sectors(self.io_bytes_max),
                chunk_sectors: 0,
                sectors: self.size_bytes / SECTOR_BYTES,
                virtual_boundary_mask: 0,
            },
            discard: DiscardParams {
                alignment_bytes: 0,
                granularity_bytes: self.physical_bytes,
                discard_sectors_max: sectors(RANGE_BYTES_MAX),
                zeroes_sectors_max: sectors(RANGE_BYTES_MAX),
                segments_max: 1,
                reserved: 0,
            },
            rest: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::{BlockSizes, Context};

    fn volume(size_bytes: u64, min: u32) -> VolumeInfo {
        let blocks = BlockSizes { min, preferred: 4096, max: 32 << 20 };
        VolumeInfo { size_bytes, blocks, contexts: vec![Context::Allocation], caches: false }
    }

    #[test]
    fn the_kernel_is_told_what_the_volume_takes() {
        let shape = Shape::of(&volume(1 << 30, 1), 512, 16384, false).unwrap();
        let params = shape.params();
        let basic = params.basic;
        assert_eq!((params.len, params.types), (64, 3));
        assert_eq!(basic.attributes, 1 << 2 | 1 << 3);
        assert_eq!((basic.logical_block_shift, basic.physical_block_shift), (9, 12));
        assert_eq!((basic.io_min_shift, basic.io_optimal_shift), (12, 14));
        assert_eq!((basic.sectors, basic.sectors_max), (1 << 21, 1024));
        assert_eq!((params.discard.granularity_bytes, params.discard.segments_max), (4096, 1));
        let limits = shape.limits();
        assert_eq!(u64::from(basic.sectors_max) * 512, limits.io_bytes_max);
        assert_eq!(u64::from(params.discard.discard_sectors_max) * 512, limits.range_bytes_max);
        assert_eq!(u64::from(params.discard.zeroes_sectors_max) * 512, limits.range_bytes_max);
        let read_only = Shape::of(&volume(1 << 30, 1), 4096, 512, true).unwrap();
        assert_eq!(read_only.params().basic.attributes & 1, 1);
        assert_eq!(read_only.params().basic.io_optimal_shift, 12, "no less than a block");
    }

    #[test]
    fn what_no_device_can_be_made_of_is_refused_with_its_reason() {
        let refused = |volume, logical, optimal| {
            Shape::of(&volume, logical, optimal, false).unwrap_err().to_string()
        };
        for logical in [0, 256, 1000, 8192] {
            let why = refused(volume(1 << 20, 1), logical, 4096);
            assert!(why.contains(&format!("logical_block_bytes of {logical}")), "{why}");
        }
        assert!(refused(volume(1 << 20, 1), 512, 3000).contains("optimal_bytes of 3000"));
        assert!(refused(volume(1 << 20, 4096), 512, 4096).contains("blocks of 4096"));
        assert!(refused(volume(0, 1), 512, 4096).contains("0 bytes"));
        assert!(refused(volume(4608, 1), 4096, 4096).contains("4608 bytes"));
    }
}
