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

/// Memory of a bucket, in bytes: its filter, and what is known of it.
const BUCKET_MEMORY_BYTES: f64 = 19.0;
/// A bucket on flash, in bytes.
pub(crate) const BUCKET_BYTES: f64 = 4096.0;
/// Memory of the index of pages by set, for an object, in bytes.
const PAGE_OBJECT_MEMORY_BYTES: f64 = 2.5;
/// Memory for pages that are being filled is half a page for each set. That is at most this part of the cache's memory,
/// and at most this part of the flash for them, because a set has 24 pages or more.
const OPEN_PAGES_PARTS: (f64, f64) = (1.0 / 8.0, 1.0 / 48.0);
/// What a record in a page or bucket takes beside key and value, in bytes.
pub(crate) const RECORD_BYTES: f64 = 8.0;

impl SocLayout {
    /// An estimate of the memory, in bytes, for small objects that fill `flash_bytes`: their index, and the pages that
    /// are being filled. Objects have `object_bytes` of key and value on average, and the cache has `memory_bytes`.
    ///
    /// ```
    /// use larder::SocLayout;
    ///
    /// let of = |layout: SocLayout| layout.estimated_memory_bytes(4096e6, 1e9, 200.0) / 1e6;
    /// assert_eq!(of(SocLayout::Buckets).round(), 19.0);
    /// assert_eq!(of(SocLayout::Pages).round(), 135.0);
    /// ```
    pub fn estimated_memory_bytes(
        self,
        flash_bytes: f64,
        memory_bytes: f64,
        object_bytes: f64,
    ) -> f64 {
        match self {
            Self::Buckets => flash_bytes / BUCKET_BYTES * BUCKET_MEMORY_BYTES,
            Self::Pages => {
                let objects = flash_bytes / (object_bytes + RECORD_BYTES);
                let (of_memory, of_flash) = OPEN_PAGES_PARTS;
                let open = (flash_bytes * of_flash).min(memory_bytes * of_memory);
                objects * PAGE_OBJECT_MEMORY_BYTES + open
            }
        }
    }
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
