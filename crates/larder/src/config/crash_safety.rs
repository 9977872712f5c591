//! What a crash leaves of flash: the choices.

use std::fmt;
use std::str::FromStr;

/// What a crash leaves of flash. A clean shutdown always keeps everything, and nothing that was
/// replaced, deleted or dropped ever comes back.
///
/// ```
/// use larder::CrashSafety;
///
/// assert_eq!("process".parse(), Ok(CrashSafety::Process));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CrashSafety {
    /// A crash empties flash. Nothing is written to make it otherwise.
    Off,
    /// What had reached flash outlives the process, however it ends (`kill -9`, a panic, a fault).
    /// A loss of power, or a boot, empties flash: a drive may forget what it has in its own memory.
    ///
    /// For this a log of tombstones is kept: a `set` or `delete` of a key that flash holds waits
    /// for a write of 4 KiB, which all that come together share. It takes a 256th of the cache's
    /// flash, 64 KiB to 128 MiB. Where most large objects are shorter than a few KiB and are replaced
    /// before they are evicted, it fills up; then regions are given up before their time
    /// ([`Stats::loc_given_up_regions`](crate::Stats::loc_given_up_regions)).
    #[default]
    Process,
    /// The same, and a loss of power: an opening afterwards finds what a [`flush`](crate::Larder::flush) had returned
    /// for, and nothing that was deleted or replaced, whatever of the other writes the drive has lost or torn.
    ///
    /// Tombstones, buckets and the ends of regions are written so that they are on the medium when they are done
    /// ([`Durability::Power`](larder_device::Durability::Power)). On a drive whose cache is not volatile that costs
    /// next to nothing; on others a `set` or `delete` of a key that flash holds waits for the medium, with all that
    /// come together. On a drive that says that its cache is volatile, buckets share flushes instead
    /// ([`Stats::soc_flushes`](crate::Stats::soc_flushes)). Small objects whose bucket of 4 KiB is being written at
    /// that moment are lost where the drive does not write 4 KiB whole or not at all.
    Power,
}

impl fmt::Display for CrashSafety {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Process => "process",
            Self::Power => "power",
        })
    }
}

impl FromStr for CrashSafety {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "off" => Ok(Self::Off),
            "process" => Ok(Self::Process),
            "power" => Ok(Self::Power),
            _ => Err(format!("\"{s}\" is not a crash safety: use off, process or power")),
        }
    }
}
