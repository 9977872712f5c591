//! The choice of a policy, and its text form.

use std::fmt;
use std::str::FromStr;

use crate::base::error::Error;

/// What requests for a key are counted to.
pub(crate) const ASKS_MAX: u8 = 15;
/// A smaller budget would not pay for a buffer of the large-object engine.
const BUDGET_MIN: u64 = 1 << 20;
const WAY_OUT: &str = "use all, reject-first, random:P with P from 0 to 1, freq:N with N from 1 to \
                       15 asks, or budget:SIZE with the bytes per day, such as budget:50G";

/// Which of the items that DRAM evicts are written to flash.
///
/// ```
/// use larder::AdmissionPolicy;
///
/// assert_eq!("random:0.5".parse(), Ok(AdmissionPolicy::Random(0.5)));
/// assert!("random:5".parse::<AdmissionPolicy>().is_err());
/// ```
///
/// As text: `all`, `random:0.5`, `reject-first`, `freq:2`, `budget:50G` (K, M, G, T are powers of
/// 1024).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum AdmissionPolicy {
    /// All items.
    #[default]
    All,
    /// Each item with this probability (0 to 1).
    Random(f64),
    /// Items that come for the second time within a while: one-hit wonders never reach flash.
    RejectFirst,
    /// Items that `get` requested often enough recently: it counts calls that DRAM did not answer, whether flash did
    /// or not. Hits in DRAM say little about the time after eviction, and `set` does not count. Requests are counted
    /// in a sketch of 4 bytes per KiB of flash, at most
    /// [`Config::admission_memory_bytes`](crate::Config::admission_memory_bytes). All counts are halved once every
    /// three requests per 4 bytes of it. A count may be too high, seldom too low.
    Frequency {
        /// Minimum number of requests, 1 to 15.
        asks: u8,
    },
    /// As many items as a budget of written bytes allows: each with a probability that depends on what was written so
    /// far. All items, while that is less than the budget.
    ///
    /// The budget counts what the device writes to its media, if it reports that
    /// ([`DeviceStats::media_written_bytes`](larder_device::DeviceStats::media_written_bytes)), including writes of
    /// other programs; else what is written to the device. A span of time sees at most about its share of the budget
    /// plus an hour's worth: in a day, 4.2 % more. Up to half an hour's worth is saved up. The account starts anew
    /// when the cache is opened. Time is that of the cache's clock: if it stands still, half an hour's worth is
    /// written and no more.
    Budget {
        /// Bytes that may be written per day, at least 1 MiB.
        bytes_per_day: u64,
    },
}

impl AdmissionPolicy {
    pub(crate) fn check(self) -> Result<(), Error> {
        match self {
            Self::Random(p) if !(0.0..=1.0).contains(&p) => {
                Err(Error::config(format!("admission probability {p}: must be 0 to 1")))
            }
            Self::Frequency { asks } if !(1..=ASKS_MAX).contains(&asks) => Err(Error::config(
                format!("admission asks = {asks}: must be 1 to {ASKS_MAX}, what is counted to"),
            )),
            Self::Budget { bytes_per_day } if bytes_per_day < BUDGET_MIN => Err(Error::config(
                format!("admission bytes_per_day = {bytes_per_day}: must be at least {BUDGET_MIN}"),
            )),
            _ => Ok(()),
        }
    }
}

impl FromStr for AdmissionPolicy {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let policy = match s.split_once(':') {
            None if s == "all" => Some(Self::All),
            None if s == "reject-first" => Some(Self::RejectFirst),
            Some(("random", p)) => p.parse().ok().map(Self::Random),
            Some(("freq", asks)) => asks.parse().ok().map(|asks| Self::Frequency { asks }),
            Some(("budget", size)) => {
                bytes(size).map(|bytes_per_day| Self::Budget { bytes_per_day })
            }
            _ => None,
        };
        let unknown = || format!("\"{s}\" is not an admission policy: {WAY_OUT}");
        let policy = policy.ok_or_else(unknown)?;
        policy.check().map_err(|error| format!("\"{s}\": {error}; {WAY_OUT}"))?;
        Ok(policy)
    }
}

impl fmt::Display for AdmissionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::All => f.write_str("all"),
            Self::Random(p) => write!(f, "random:{p}"),
            Self::RejectFirst => f.write_str("reject-first"),
            Self::Frequency { asks } => write!(f, "freq:{asks}"),
            Self::Budget { bytes_per_day } => {
                let fits = |&&(_, unit): &&(char, u64)| bytes_per_day.is_multiple_of(unit);
                match UNITS.iter().find(fits) {
                    Some((name, unit)) => write!(f, "budget:{}{name}", bytes_per_day / unit),
                    None => write!(f, "budget:{bytes_per_day}"),
                }
            }
        }
    }
}

/// From the largest to the smallest.
const UNITS: [(char, u64); 4] = [('T', 1 << 40), ('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];

/// Parses a whole number of bytes, or of one of the units.
fn bytes(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(*name)?, *unit)));
    let (digits, unit) = unit.unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_written() {
        let texts = [
            "all",
            "reject-first",
            "random:0.5",
            "freq:1",
            "freq:15",
            "budget:50G",
            "budget:3T",
            "budget:1048577",
        ];
        for text in texts {
            assert_eq!(text.parse::<AdmissionPolicy>().unwrap().to_string(), text);
        }
        let budget = AdmissionPolicy::Budget { bytes_per_day: 1 << 30 };
        assert_eq!("budget:1048576K".parse(), Ok(budget));
        for text in [
            "",
            "random",
            "random:2",
            "random:nan",
            "first",
            "freq",
            "freq:0",
            "freq:16",
            "freq:300",
            "budget",
            "budget:",
            "budget:G",
            "budget:-5G",
            "budget:1.5G",
            "budget:5K",
            "budget:99999999999T",
        ] {
            let error = text.parse::<AdmissionPolicy>().unwrap_err();
            assert!(error.contains("reject-first") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let error = |text: &str| text.parse::<AdmissionPolicy>().unwrap_err();
        assert!(error("freq:0").contains("asks = 0: must be 1 to 15"));
        assert!(error("budget:5K").contains("bytes_per_day = 5120: must be at least 1048576"));
    }
}
