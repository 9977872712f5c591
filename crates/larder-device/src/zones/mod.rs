//! Zoned devices: zones that are written in order and reset as a whole.
//!
//! NVMe has them as zoned namespaces (NVM Express Zoned Namespace Command Set, 1.1), disks as SMR; Linux shows both
//! as zoned block devices (`linux/blkzoned.h`). Writes and reads are those of a [`Device`]; what zones need beside is
//! here.
//!
//! | module | what it is |
//! |---|---|
//! | `file` | a zoned block device of Linux |
//! | `ioctl` | its zones, through the kernel's ioctls |
//! | `queue` | what sysfs says of zones |

#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod ioctl;
pub(crate) mod queue;

use crate::device::Device;
use crate::error::Error;
#[cfg(target_os = "linux")]
pub use file::ZonedFile;

/// What a zone is good for now (Zoned Namespace Command Set 1.1, section 2.1.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ZoneState {
    /// It has no write pointer: it is written in any order.
    Conventional,
    /// Nothing is written.
    Empty,
    /// It is being written.
    Open,
    /// It was being written; the next write opens it again.
    Closed,
    /// It takes no more until it is reset.
    Full,
    /// It can be read, and neither written nor reset.
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
    /// Bytes that can be written, the first ones.
    pub capacity_bytes: u64,
    /// Address at which the next write begins; of one that is full or has none, it says nothing.
    pub write_pointer: u64,
    /// What it is good for.
    pub state: ZoneState,
}

impl Zone {
    /// Bytes from its start on that can be read. Of one that was finished early all count as written.
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

/// How many zones may be in use at a time; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneLimits {
    /// Zones that are being written. The device closes others for one that is opened by a write.
    pub open: Option<u32>,
    /// Zones that are open or closed: with something in them, and not full. A write beyond fails.
    pub active: Option<u32>,
}

/// A device that consists of zones. A write must begin at the write pointer of its zone, so one at a time is under way
/// to each. Used as `dyn`.
pub trait ZonedDevice: Device {
    /// How many zones may be in use.
    fn limits(&self) -> ZoneLimits;

    /// All zones, in the order of their addresses.
    ///
    /// # Errors
    /// What the device reports.
    fn report(&self) -> Result<Vec<Zone>, Error>;

    /// Empties a zone. It waits until that is done, and durable.
    ///
    /// # Errors
    /// What the device reports.
    fn reset(&self, zone: &Zone) -> Result<(), Error>;

    /// Makes a zone full, whatever is in it: it is not active any more. It waits until that is done.
    ///
    /// # Errors
    /// What the device reports.
    fn finish(&self, zone: &Zone) -> Result<(), Error>;
}
