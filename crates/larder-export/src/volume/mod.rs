//! What an export serves: a range of bytes that can be read, written, zeroed, trimmed and queried.
//!
//! A protocol server sends its requests to a [`Volume`]. Any [`Device`](larder_device::Device) is one
//! ([`DeviceVolume`]); `larder-block` has another for a core behind its cache.
//!
//! | file | content |
//! |---|---|
//! | `on_device` | any device as a volume |
//! | `turns` | the order of changes that overlap |

mod on_device;
mod turns;

use std::ops::Range;

use larder_device::{Durability, IoBuffer, IoFuture};

pub use on_device::DeviceVolume;

/// Properties of a volume. They do not change while it is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Length of the volume in bytes.
    pub size_bytes: u64,
    /// Sizes of the requests that it takes.
    pub blocks: BlockSizes,
    /// What it can report of a range ([`Volume::status`]).
    pub contexts: Vec<Context>,
    /// Whether [`Volume::cache`] has an effect.
    pub caches: bool,
}

/// Sizes of requests, in bytes. All but `max` are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it: 1 to 65536. So is the length of the volume.
    pub min: u32,
    /// Requests whose offset and length are multiples of it are served best; 512 or more.
    pub preferred: u32,
    /// Most bytes of a read or write.
    pub max: u32,
}

/// A property that can be queried for a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Context {
    /// Whether the range is allocated, and whether it is known to read as zeros ([`Extent::HOLE`], [`Extent::ZERO`]).
    Allocation,
    /// Whether the range is in the cache ([`Extent::CACHED`]).
    Cached,
    /// Whether the cache has newer data than the core ([`Extent::DIRTY`]).
    Dirty,
}

impl Context {
    /// Its name in NBD. Larder's own contexts have a namespace of their own.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocation => "base:allocation",
            Self::Cached => "x-larder:cached",
            Self::Dirty => "x-larder:dirty",
        }
    }
}

/// A part of a range in which the flags are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its length; not 0.
    pub bytes: u64,
    /// The flags of the context.
    pub flags: u32,
}

impl Extent {
    /// Of [`Context::Allocation`]: no space is reserved for it.
    pub const HOLE: u32 = 1;
    /// Of [`Context::Allocation`]: the extent reads as zeros.
    pub const ZERO: u32 = 2;
    /// Of [`Context::Cached`]: the extent is cached.
    pub const CACHED: u32 = 1;
    /// Of [`Context::Dirty`]: only the cache has it.
    pub const DIRTY: u32 = 1;
}

/// A range of bytes that an export serves.
///
/// Ranges lie within the volume, are not empty, and are multiples of [`BlockSizes::min`]; the protocol server has
/// checked this. A request begins when it is made and runs to its end even if the caller drops the future. Requests
/// complete in any order. A read that overlaps a concurrent write may return part old and part new data.
pub trait Volume: Send + Sync {
    /// The properties of the volume.
    fn info(&self) -> &VolumeInfo;

    /// Fills `buffer` with the bytes from `offset` on.
    fn read(&self, offset: u64, buffer: IoBuffer) -> IoFuture;

    /// Writes all of `buffer` at `offset`.
    fn write(&self, offset: u64, buffer: IoBuffer, durability: Durability) -> IoFuture;

    /// Makes durable all writes, trims and zeroings that had completed before the flush, whichever client sent them.
    fn flush(&self) -> IoFuture;

    /// Discards the content of the range. Reads of it then return unspecified data.
    fn trim(&self, range: Range<u64>, durability: Durability) -> IoFuture;

    /// Zeroes the range. If `keeps_room`, space that is reserved for it stays reserved.
    fn write_zeroes(&self, range: Range<u64>, keeps_room: bool, durability: Durability)
    -> IoFuture;

    /// Whether [`Volume::write_zeroes`] of this range is known to be faster than a write of the same length.
    fn zeroes_fast(&self, _range: Range<u64>) -> bool {
        false
    }

    /// A hint that the range will be read soon.
    fn cache(&self, _range: Range<u64>) -> IoFuture {
        IoFuture::ready(Ok(IoBuffer::empty()))
    }

    /// Reports the range from memory: extents from its beginning on, at most `extents_max` (not 0), none beyond its
    /// end. The extents may end before the range does.
    fn status(&self, _context: Context, range: Range<u64>, _extents_max: usize) -> Vec<Extent> {
        vec![Extent { bytes: range.end - range.start, flags: 0 }]
    }
}

/// The length of a range as a `usize`.
pub(crate) fn length(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).expect("a request fits into memory")
}
