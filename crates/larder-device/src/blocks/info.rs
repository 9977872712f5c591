//! Names of blocks, and what a store says of itself.

use std::fmt;

/// Names a block of one store, for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(u64);

impl BlockId {
    /// The block of this number.
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

/// What is expected to die together: a placement handle where the store has some.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stream(u16);

impl Stream {
    /// The one of whatever names no other.
    pub const DEFAULT: Self = Self(0);

    /// The stream at `index` of the store's.
    pub const fn new(index: u16) -> Self {
        Self(index)
    }

    /// Its position among the store's.
    pub const fn index(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a store shares with its neighbours, from nothing on downwards.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum IsolationRung {
    /// Channels of its own: neither bus nor dies are shared.
    Channels,
    /// Dies of its own, on channels that others use.
    Dies,
    /// Time on dies that others use.
    Software,
    /// Dies that others use, and nobody divides their time.
    Shared,
    /// Reclaim units that nobody else writes to.
    ReclaimGroups,
    /// A namespace of a drive.
    Namespace,
    /// A range of a device's addresses.
    Partition,
    /// Nobody says.
    Unknown,
}

impl fmt::Display for IsolationRung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Channels => "channels",
            Self::Dies => "dies",
            Self::Software => "software",
            Self::Shared => "none",
            Self::ReclaimGroups => "reclaim groups",
            Self::Namespace => "namespace",
            Self::Partition => "partition",
            Self::Unknown => "unknown",
        })
    }
}

/// What a store says of itself; it does not change while the store is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreInfo {
    /// For people.
    pub name: String,
    /// Bytes of a block, a multiple of `page_bytes`.
    pub block_bytes: u64,
    /// Appends and reads begin at multiples of it, and are as long. A power of two of at least 512 bytes.
    pub page_bytes: u32,
    /// Blocks that can be allocated at a time.
    pub blocks: u64,
    /// Streams, the default among them; at least 1.
    pub streams: u16,
    /// Blocks that may be neither full nor closed at a time, where that is limited (zones: open and active limits).
    pub open_blocks_max: Option<u32>,
    /// What it shares with its neighbours.
    pub isolation: IsolationRung,
    /// Which kind of store it is, for people: "memory", "blocks on a device", …
    pub rung: &'static str,
}

impl StoreInfo {
    /// The stream for what is written with this placement handle: the default one if there are fewer streams.
    pub(crate) fn stream_of(&self, handle: u16) -> Stream {
        if handle < self.streams { Stream::new(handle) } else { Stream::DEFAULT }
    }
}
