//! Timing parameters of a NAND die, a channel, a link and a write buffer.

use super::service::DieService;
use crate::error::{Error, ErrorKind};
use crate::managed::PAGE_BYTES;
use crate::nand::{DieArray, NandGeometry};

/// Nanoseconds since the drive was created.
pub type Nanoseconds = u64;

/// A NAND die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NandTiming {
    /// Bytes of a flash page: what one plane senses, or programs for one bit of its cells.
    pub page_bytes: u64,
    /// Planes that work together.
    pub planes: u32,
    /// Bits of a cell that are programmed together: 3 for one-shot TLC.
    pub bits: u32,
    /// tR: sensing a flash page.
    pub read_ns: u64,
    /// tPROG: programming all planes, all bits.
    pub program_ns: u64,
    /// tBERS: erasing a block.
    pub erase_ns: u64,
    /// Time to suspend a program or an erase for a read; `None` if the die cannot.
    pub suspend_ns: Option<u64>,
    /// Stripes per block. Units of a scaled-down drive may have fewer stripes on a die: they are slices of blocks, and
    /// a block is erased after this number of stripes.
    pub block_stripes: u32,
}

/// A drive with such dies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveTiming {
    /// Name for display.
    pub name: &'static str,
    /// Channels.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// The die.
    pub nand: NandTiming,
    /// The order in which a die performs its operations.
    pub service: DieService,
    /// Bytes per second of a channel.
    pub channel_bytes_per_s: u64,
    /// Bytes per second of the host link, in each direction.
    pub link_bytes_per_s: u64,
    /// Time of the controller per command.
    pub command_ns: u64,
    /// Bytes of complete stripes that the write buffer holds, of the host and of garbage collection. Stripes that are
    /// being filled have separate room.
    pub write_buffer_bytes: u64,
    /// Time from the buffer to the acknowledgement.
    pub buffer_ns: u64,
}

impl DriveTiming {
    /// Channels and dies.
    pub fn array(&self) -> DieArray {
        DieArray { channels: self.channels, dies_per_channel: self.dies_per_channel }
    }

    /// The medium of such a drive with `blocks_per_die` blocks on each die, mapped in 4 KiB.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if such a medium is impossible.
    pub fn geometry(&self, blocks_per_die: u32) -> Result<NandGeometry, Error> {
        self.check()?;
        let narrow = |n: u64| {
            u32::try_from(n).map_err(|_| {
                let message = format!("{}: {n} does not fit 32 bits", self.name);
                Error::new(ErrorKind::Config, message)
            })
        };
        let geometry = NandGeometry {
            array: self.array(),
            planes: self.nand.planes,
            bits: self.nand.bits,
            blocks_per_die,
            pages_per_block: narrow(
                u64::from(self.nand.block_stripes) * u64::from(self.nand.bits),
            )?,
            page_bytes: narrow(self.nand.page_bytes)?,
            mapping_bytes: narrow(PAGE_BYTES)?,
        };
        geometry.check()?;
        Ok(geometry)
    }

    /// Dies of the drive.
    pub fn dies(&self) -> u32 {
        self.array().dies()
    }

    /// Mapped pages that one die programs at once.
    pub fn stripe_pages(&self) -> u32 {
        self.pages_per_flash_page() * self.nand.planes * self.nand.bits
    }

    /// Bytes per second that all dies can program together.
    #[allow(clippy::cast_precision_loss)]
    pub fn program_bytes_per_s(&self) -> f64 {
        let stripe = u64::from(self.stripe_pages()) * PAGE_BYTES;
        f64::from(self.dies()) * stripe as f64 * 1e9 / self.nand.program_ns as f64
    }

    /// Mapped pages that a die senses at once with all its planes.
    pub(super) fn row_pages(&self) -> u32 {
        self.pages_per_flash_page() * self.nand.planes
    }

    pub(super) fn pages_per_flash_page(&self) -> u32 {
        u32::try_from(self.nand.page_bytes / PAGE_BYTES).unwrap_or(u32::MAX).max(1)
    }

    /// Time that `bytes` take through a channel, in nanoseconds.
    pub fn channel_ns(&self, bytes: u64) -> u64 {
        transfer_ns(bytes, self.channel_bytes_per_s)
    }

    pub(super) fn link_ns(&self, bytes: u64) -> u64 {
        transfer_ns(bytes, self.link_bytes_per_s)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let fail = |message: String| Err(Error::new(ErrorKind::Config, message));
        if self.dies() == 0 || self.channel_bytes_per_s == 0 || self.link_bytes_per_s == 0 {
            return fail(format!("{}: channels, dies and rates must be at least 1", self.name));
        }
        if self.nand.block_stripes == 0 {
            return fail(format!("{}: a block must have at least 1 stripe", self.name));
        }
        if !self.nand.page_bytes.is_multiple_of(PAGE_BYTES) || self.nand.page_bytes == 0 {
            return fail(format!(
                "{}: a flash page of {} bytes is not a multiple of the {PAGE_BYTES}-byte page",
                self.name, self.nand.page_bytes
            ));
        }
        let stripe = u64::from(self.stripe_pages()) * PAGE_BYTES;
        if self.write_buffer_bytes < stripe {
            return fail(format!(
                "{}: a write buffer of {} bytes does not hold the {stripe} bytes that a die programs at once",
                self.name, self.write_buffer_bytes
            ));
        }
        Ok(())
    }
}

fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s);
    u64::try_from(ns).unwrap_or(u64::MAX)
}
