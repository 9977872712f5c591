//! Zoned devices: zones that are written in order and reset as a whole.
//!
//! NVMe has them as zoned namespaces (NVM Express Zoned Namespace Command Set, 1.1), disks as SMR; Linux shows both as
//! zoned block devices (`linux/blkzoned.h`). Writes and reads are those of a [`Device`]; this module adds what zones
//! need.
//!
//! | module | content |
//! |---|---|
//! | `file` | a zoned block device on Linux |
//! | `ioctl` | its zones, through the kernel's ioctls |
//! | [`queue`] | the zone attributes in sysfs |

#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod ioctl;
pub mod queue;

use crate::device::Device;
use crate::error::Error;
#[cfg(target_os = "linux")]
pub use file::ZonedFile;

/// The state of a zone (Zoned Namespace Command Set 1.1, section 2.1.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ZoneState {
    /// It has no write pointer: it can be written in any order.
    Conventional,
    /// Nothing is written.
    Empty,
    /// It is being written.
    Open,
    /// It is partly written but not open; the next write opens it again.
    Closed,
    /// It takes no more writes until it is reset.
    Full,
    /// It can be read, but neither written nor reset.
    ReadOnly,
    /// It cannot even be read.
    Offline,
}

/// A zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Address of its first byte.
    pub start: u64,
    /// Bytes from its start to that of the next.
    pub bytes: u64,
    /// Number of bytes from its start that can be written.
    pub capacity_bytes: u64,
    /// Address at which the next write begins; meaningless for a full zone, or one without a write pointer.
    pub write_pointer: u64,
    /// Its state.
    pub state: ZoneState,
}

impl Zone {
    /// Bytes from its start that can be read. If it was finished early, all its capacity counts as written.
    pub fn written_bytes(&self) -> u64 {
        match self.state {
            ZoneState::Empty | ZoneState::Offline => 0,
            ZoneState::Full | ZoneState::Conventional => self.capacity_bytes,
            ZoneState::Open | ZoneState::Closed | ZoneState::ReadOnly => {
                self.write_pointer.saturating_sub(self.start).min(self.capacity_bytes)
            }
        }
    }
}

/// Limits on the zones in use; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneLimits {
    /// Most zones that are being written. For a write to another zone, the device closes an open one.
    pub open: Option<u32>,
    /// Most zones that are open or closed, that is, partly written. A write that would exceed it fails.
    pub active: Option<u32>,
}

/// A device that consists of zones. A write must begin at the write pointer of its zone, so each zone has at most one
/// write in flight. Used as `dyn`.
pub trait ZonedDevice: Device {
    /// The limits on zones in use.
    fn limits(&self) -> ZoneLimits;

    /// All zones, in the order of their addresses.
    ///
    /// # Errors
    /// Those of the device.
    fn report(&self) -> Result<Vec<Zone>, Error>;

    /// Empties a zone. Returns when that is done and durable.
    ///
    /// # Errors
    /// Those of the device.
    fn reset(&self, zone: &Zone) -> Result<(), Error>;

    /// Makes a zone full, whatever its content, so that it is not active any more. Returns when that is done.
    ///
    /// # Errors
    /// Those of the device.
    fn finish(&self, zone: &Zone) -> Result<(), Error>;
}
