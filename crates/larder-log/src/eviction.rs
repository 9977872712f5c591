//! Which region gives way: the choices.

use std::fmt;
use std::str::FromStr;

/// Which region is reclaimed first.
///
/// ```
/// use larder_log::RegionEviction;
///
/// assert_eq!("lru".parse(), Ok(RegionEviction::Lru));
/// assert_eq!(RegionEviction::SegmentedFifo.to_string(), "segmented-fifo");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RegionEviction {
    /// The oldest. Writes the device in order, which keeps its write amplification lowest.
    #[default]
    Fifo,
    /// The one whose objects were hit longest ago.
    Lru,
    /// The oldest of the lowest of three segments (CacheLib's segmented FIFO). New objects fill
    /// regions of the lowest; what is reinserted goes to regions of the second, or with two hits or
    /// more of the third. The upper two have a third of the regions each at most; beyond that their
    /// oldest region moves to the end of the segment below. Takes the memory of two more open regions,
    /// and needs a policy of reinsertion.
    SegmentedFifo,
}

impl fmt::Display for RegionEviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Lru => "lru",
            Self::SegmentedFifo => "segmented-fifo",
        })
    }
}

impl FromStr for RegionEviction {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "fifo" => Ok(Self::Fifo),
            "lru" => Ok(Self::Lru),
            "segmented-fifo" => Ok(Self::SegmentedFifo),
            _ => Err(format!(
                "\"{s}\" is not a region eviction policy: use fifo, lru or segmented-fifo"
            )),
        }
    }
}
