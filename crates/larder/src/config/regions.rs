//! Which objects stay of a region of large objects that gives way.

use std::fmt;
use std::str::FromStr;

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
