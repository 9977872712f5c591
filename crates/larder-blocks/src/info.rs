//! Names of blocks, and the description of a store.

use std::fmt;

use crate::isolation::IsolationLevel;

/// Smallest page of a store in bytes.
pub(crate) const PAGE_BYTES_MIN: u32 = 512;

/// The number of a block of one store. It is never used for another block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(u64);

impl BlockId {
    /// The block with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Data that are expected to die together: a placement handle, where the store has any.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stream(u16);

impl Stream {
    /// The stream for writes that name no other.
    pub const DEFAULT: Self = Self(0);

    /// The stream at `index` among the store's streams.
    pub const fn new(index: u16) -> Self {
        Self(index)
    }

    /// Its index among the store's streams.
    pub const fn index(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The description of a store, which does not change while the store is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreInfo {
    /// Name, for messages.
    pub name: String,
    /// Block size in bytes, a multiple of `page_bytes`.
    pub block_bytes: u64,
    /// Offsets and lengths of appends and reads are multiples of this. A power of two of at least 512 bytes.
    pub page_bytes: u32,
    /// Most blocks that can be allocated at a time.
    pub blocks: u64,
    /// Number of streams, including the default; at least 1.
    pub streams: u16,
    /// Most blocks that may be neither full nor closed at a time, where there is such a limit (zones: open and active
    /// limits).
    pub open_blocks_max: Option<u32>,
    /// What it shares with its neighbours.
    pub isolation: IsolationLevel,
    /// Kind of the store, for people: "memory", "blocks on a device", …
    pub kind: &'static str,
}

impl StoreInfo {
    /// The stream for writes with this placement handle; the default if the store has fewer streams.
    pub(crate) fn stream_of(&self, handle: u16) -> Stream {
        if handle < self.streams { Stream::new(handle) } else { Stream::DEFAULT }
    }
}
