//! Who sends to flash what leaves DRAM: the choices.

use std::fmt;
use std::str::FromStr;

/// Who sends to flash what leaves DRAM.
///
/// ```
/// use larder::config::Demotions;
///
/// assert_eq!("callers".parse(), Ok(Demotions::Callers));
/// assert_eq!(Demotions::default(), Demotions::Thread);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Demotions {
    /// A thread of the cache, "larder-flash", which starts when something leaves DRAM for the first time and
    /// ends with the cache. It writes what belongs together at once, to many places at a time, and those
    /// who set wait only where DRAM has no room because flash is slower than they are. A cache without
    /// flash has no such thread.
    #[default]
    Thread,
    /// Those who bring something to DRAM: each sends twice as many bytes as it brought. No thread is
    /// started, and with a virtual clock a run is the same each time. Who has a runtime of its own has a
    /// task do it ([`Larder::send_demotions`](crate::Larder::send_demotions)).
    Callers,
}

impl fmt::Display for Demotions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "thread",
            Self::Callers => "callers",
        })
    }
}

impl FromStr for Demotions {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "thread" => Ok(Self::Thread),
            "callers" => Ok(Self::Callers),
            _ => Err(format!("\"{s}\" sends nothing: use thread or callers")),
        }
    }
}
