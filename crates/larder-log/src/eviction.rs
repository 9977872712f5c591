//! The rules that choose which region is reclaimed.

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
    /// The oldest region. This order writes the device in sequence, which keeps its write amplification lowest.
    #[default]
    Fifo,
    /// The region whose last hit is longest ago.
    Lru,
    /// The oldest region of the lowest of three segments (CacheLib's segmented FIFO). New objects fill regions of the
    /// lowest segment. Reinserted objects go to regions of the second segment, or of the third if they had two hits or
    /// more. The upper two segments have at most a third of the regions each; beyond that their oldest region moves to
    /// the end of the segment below. This takes the memory of two more open regions, and needs a reinsertion policy.
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
