//! What sends objects from DRAM to flash: the choices.

use std::fmt;
use std::str::FromStr;

/// What sends objects from DRAM to flash.
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
    /// A thread of the cache, "larder-flash", which starts at the first demotion and ends with the cache. It batches
    /// writes that belong together and writes to many places at a time. Callers of set wait only when DRAM has no
    /// room because flash is slower than they are. A cache without flash has no such thread.
    #[default]
    Thread,
    /// The callers that bring objects to DRAM: each sends twice as many bytes as it brought. No thread is started,
    /// and with a virtual clock a run is the same each time. A program with its own runtime can give the work to a
    /// task ([`Larder::send_demotions`](crate::Larder::send_demotions)).
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
