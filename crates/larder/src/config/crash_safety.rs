//! What flash keeps after a crash: the choices.

use std::fmt;
use std::str::FromStr;

/// What flash keeps after a crash. A clean shutdown always keeps everything. In each case no value that was replaced,
/// deleted or dropped ever comes back.
///
/// ```
/// use larder::CrashSafety;
///
/// assert_eq!("process".parse(), Ok(CrashSafety::Process));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CrashSafety {
    /// A crash empties flash. The cache writes nothing to prevent that.
    Off,
    /// Content that has reached flash survives the process, however it ends (`kill -9`, a panic, a fault). A loss of
    /// power or a reboot empties flash, because a drive may lose its volatile cache.
    ///
    /// This needs a tombstone log: a `set` or `delete` of a key that flash holds waits for a write of 4 KiB, which
    /// concurrent calls share. The log takes 1/256 of the cache's flash, 64 KiB to 128 MiB. If most large objects are
    /// shorter than a few KiB and are replaced before they are evicted, the log fills up; then regions are given up
    /// early ([`Stats::loc_given_up_regions`](crate::Stats::loc_given_up_regions)).
    #[default]
    Process,
    /// As `Process`, and survives a loss of power: the next opening finds everything for which a
    /// [`flush`](crate::Larder::flush) had returned, and nothing that was deleted or replaced, whichever other writes
    /// the drive has lost or torn.
    ///
    /// Tombstones, buckets and the ends of regions are on the medium when their writes complete
    /// ([`Durability::Power`](larder_device::Durability::Power)). On a drive without a volatile cache that costs next
    /// to nothing. On others a `set` or `delete` of a key that flash holds waits for the medium, together with
    /// concurrent calls. On a drive that reports a volatile cache, buckets share flushes instead
    /// ([`Stats::soc_flushes`](crate::Stats::soc_flushes)). If the drive does not write 4 KiB atomically, small
    /// objects in a bucket that is being written when power fails are lost.
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
