//! The order in which a bucket of the small-object engine evicts: the choices.

use std::fmt;
use std::str::FromStr;

/// Which object of a full bucket makes room for a new one. Expired objects always go first.
///
/// ```
/// use larder::SocEviction;
///
/// assert_eq!("rrip".parse(), Ok(SocEviction::Rrip));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SocEviction {
    /// The oldest object.
    #[default]
    Fifo,
    /// The object whose next hit is predicted to be farthest away (re-reference interval prediction, as in RRIParoo of
    /// Kangaroo, SOSP'21). A bucket keeps a prediction of 3 bits for each object on flash: 0 for an object that was
    /// read from flash since the bucket was last written, 6 for a new one, and 7 for those that go. If none is at 7,
    /// all move up until one is. Of equals, the oldest goes. Which objects were read takes 4 bytes of memory per
    /// bucket; a restart forgets that, and keeps the predictions.
    Rrip,
}

impl fmt::Display for SocEviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Rrip => "rrip",
        })
    }
}

impl FromStr for SocEviction {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "fifo" => Ok(Self::Fifo),
            "rrip" => Ok(Self::Rrip),
            _ => Err(format!("\"{s}\" is not an eviction policy of buckets: use fifo or rrip")),
        }
    }
}
