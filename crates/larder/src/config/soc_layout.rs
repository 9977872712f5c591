//! How the small-object engine stores its objects: the choices.

use std::fmt;
use std::str::FromStr;

/// How the small-object engine (SOC) stores its objects.
///
/// ```
/// use larder::SocLayout;
///
/// assert_eq!("pages".parse(), Ok(SocLayout::Pages));
/// assert_eq!(SocLayout::Buckets.to_string(), "buckets");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocLayout {
    /// Buckets of 4 KiB that are rewritten in place, as in CacheLib. A small object costs a write of 4 KiB, which
    /// objects of the same bucket may share. About 8 bits of memory an object. The drive needs placement, or copies
    /// what lies beside.
    Buckets,
    /// Pages by set: an object is written once, in a page of 4 KiB with others of its set, and pages leave in the order
    /// in which they came. 1.1 to 1.7 bytes are written for each byte of an object, on any drive. 20 to 28 bits of
    /// memory an object, and up to a fifth of DRAM for the pages that are being filled. For shares of up to about 25
    /// times DRAM.
    Pages,
}

impl fmt::Display for SocLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Buckets => "buckets",
            Self::Pages => "pages",
        })
    }
}

impl FromStr for SocLayout {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "buckets" => Ok(Self::Buckets),
            "pages" => Ok(Self::Pages),
            _ => Err(format!("\"{s}\" is not a layout of small objects: use buckets or pages")),
        }
    }
}
