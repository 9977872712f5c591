//! What an export serves: a run of bytes that can be read, written, made zeros, trimmed and asked what it holds.
//!
//! A [`Volume`] is asked by whoever speaks a protocol; what the cache in front of a slow device is, or any other
//! [`Device`](larder_device::Device) ([`DeviceVolume`]), is behind it.

mod cached;
mod on_device;
mod turns;

use std::ops::Range;

use larder_device::{Durability, IoBuffer, IoFuture};

pub use cached::CachedVolume;
pub use on_device::DeviceVolume;

/// What a volume says of itself; it does not change while it is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Length, in bytes.
    pub size_bytes: u64,
    /// Which requests it takes.
    pub blocks: BlockSizes,
    /// What it can say of a range ([`Volume::status`]).
    pub contexts: Vec<Context>,
    /// Whether [`Volume::cache`] does anything.
    pub caches: bool,
}

/// Lengths of requests, in bytes; powers of two, but for `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it, 1 to 65536. The volume's own length is too.
    pub min: u32,
    /// Requests that are multiples of it, at multiples of it, are served best; 512 or more.
    pub preferred: u32,
    /// Longest read or write.
    pub max: u32,
}

/// What can be known of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Context {
    /// Whether it is allocated, and whether it is known to be zeros ([`Extent::HOLE`], [`Extent::ZERO`]).
    Allocation,
    /// Whether it is in the cache ([`Extent::CACHED`]).
    Cached,
    /// Whether the cache has what the core has not ([`Extent::DIRTY`]).
    Dirty,
}

impl Context {
    /// Its name in NBD. Those of Larder are in a namespace of their own.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocation => "base:allocation",
            Self::Cached => "x-larder:cached",
            Self::Dirty => "x-larder:dirty",
        }
    }
}

/// A part of a range of which one thing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its length; not nothing.
    pub bytes: u64,
    /// What is known, by the bits of its context.
    pub flags: u32,
}

impl Extent {
    /// Of [`Context::Allocation`]: nothing is reserved for it.
    pub const HOLE: u32 = 1;
    /// Of [`Context::Allocation`]: it reads as zeros.
    pub const ZERO: u32 = 2;
    /// Of [`Context::Cached`]: it is in the cache.
    pub const CACHED: u32 = 1;
    /// Of [`Context::Dirty`]: it is in the cache alone.
    pub const DIRTY: u32 = 1;
}

/// A run of bytes that an export serves.
///
/// Ranges are within the volume, not empty, and in multiples of [`BlockSizes::min`]: whoever exports it has checked
/// that. Requests begin when they are made and end whether or not they are waited for, in any order; what is asked of
/// overlapping ranges at the same time may be read in part from before and in part from after a write.
pub trait Volume: Send + Sync {
    /// What it says of itself.
    fn info(&self) -> &VolumeInfo;

    /// Fills `buffer` from `offset` on.
    fn read(&self, offset: u64, buffer: IoBuffer) -> IoFuture;

    /// Writes all of `buffer` at `offset`.
    fn write(&self, offset: u64, buffer: IoBuffer, durability: Durability) -> IoFuture;

    /// Makes durable what was written, trimmed or made zeros by requests that had ended before, whoever asked for them.
    fn flush(&self) -> IoFuture;

    /// What is in the range is not needed any more; what it reads as then is unspecified.
    fn trim(&self, range: Range<u64>, durability: Durability) -> IoFuture;

    /// Makes the range zeros. If `keeps_room`, what is reserved for it stays so.
    fn write_zeroes(&self, range: Range<u64>, keeps_room: bool, durability: Durability)
    -> IoFuture;

    /// Whether [`Volume::write_zeroes`] of this range is known to be faster than a write of as many bytes.
    fn zeroes_fast(&self, _range: Range<u64>) -> bool {
        false
    }

    /// The range will be read soon.
    fn cache(&self, _range: Range<u64>) -> IoFuture {
        IoFuture::ready(Ok(IoBuffer::empty()))
    }

    /// What is known of the range: extents from its beginning on, `extents_max` (not 0) at most, which end no later
    /// than it. Answered from memory.
    fn status(&self, _context: Context, range: Range<u64>, _extents_max: usize) -> Vec<Extent> {
        vec![Extent { bytes: range.end - range.start, flags: 0 }]
    }
}

/// Bytes of a range, as the memory that they take.
pub(crate) fn length(range: &Range<u64>) -> usize {
    usize::try_from(range.end - range.start).expect("a request fits into memory")
}
