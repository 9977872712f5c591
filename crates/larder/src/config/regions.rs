//! Which region of large objects gives way, and which of its objects stay: the choices.

use std::fmt;
use std::str::FromStr;

/// Which region the large-object engine reclaims first.
///
/// ```
/// use larder::RegionEviction;
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
    /// regions of the lowest; what [`Config::reinsertion`] keeps goes to regions of the second, or with
    /// two hits or more of the third. The upper two have a third of the regions each at most; beyond
    /// that their oldest region moves to the end of the segment below. Takes the memory of two more
    /// regions, and needs a `reinsertion`.
    ///
    /// [`Config::reinsertion`]: crate::Config::reinsertion
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

/// Which objects of a region that is reclaimed are kept by writing them again; at most half a region
/// of them.
///
/// ```
/// use larder::Reinsertion;
///
/// assert_eq!("hits:2".parse(), Ok(Reinsertion::Hits(2)));
/// assert_eq!(Reinsertion::ReuseTime.to_string(), "reuse-time");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reinsertion {
    /// None.
    #[default]
    None,
    /// Those with at least this many hits since they were written there, 1 to 7.
    Hits(u8),
    /// Those whose next hit is still to be expected: since the last one no more time has passed than
    /// on average between their hits. An object that was asked for often, and then no more, is not
    /// kept. Times are counted in fillings of regions, in quarters of a round of the log.
    ReuseTime,
    /// This percentage of all, chosen by chance, 1 to 100.
    Percent(u8),
}

impl fmt::Display for Reinsertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Hits(hits) => write!(f, "hits:{hits}"),
            Self::ReuseTime => f.write_str("reuse-time"),
            Self::Percent(percent) => write!(f, "percent:{percent}"),
        }
    }
}

impl FromStr for Reinsertion {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok();
        let parsed = match s.split_once(':') {
            None if s == "none" => Some(Self::None),
            None if s == "reuse-time" => Some(Self::ReuseTime),
            Some(("hits", hits)) => number(hits).map(Self::Hits),
            Some(("percent", percent)) => number(percent).map(Self::Percent),
            _ => None,
        };
        parsed.ok_or_else(|| {
            format!(
                "\"{s}\" is not a reinsertion policy: use none, hits:N (1 to 7), reuse-time or \
                 percent:P (1 to 100)"
            )
        })
    }
}
