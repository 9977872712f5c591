//! The DRAM eviction policy: the choices.

use std::fmt;
use std::str::FromStr;

/// Which item DRAM evicts first.
///
/// ```
/// use larder::DramPolicy;
///
/// assert_eq!("s3-fifo".parse(), Ok(DramPolicy::S3Fifo));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DramPolicy {
    /// Three FIFO queues (Yang et al., SOSP'23): new items start in a small queue and move on only if they are hit.
    #[default]
    S3Fifo,
    /// Evicts the least recently used item.
    Lru,
}

impl fmt::Display for DramPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::S3Fifo => "s3-fifo",
            Self::Lru => "lru",
        })
    }
}

impl FromStr for DramPolicy {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "s3-fifo" => Ok(Self::S3Fifo),
            "lru" => Ok(Self::Lru),
            _ => Err(format!("\"{s}\" is not a DRAM policy: use s3-fifo or lru")),
        }
    }
}
