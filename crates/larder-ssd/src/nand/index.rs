//! Numbers of the parts of a medium. Each kind is a separate type, so that they cannot be confused.

/// A channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelIndex(pub u32);

/// A die. Dies are numbered round-robin over the channels: see [`DieArray::channel_of`](super::DieArray).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DieIndex(pub u32);

/// A block of a medium: the unit of erase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u32);

/// A page of the medium in mapping units, numbered block after block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIndex(pub u32);

impl ChannelIndex {
    /// Index into tables with one entry per channel.
    #[inline]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

impl DieIndex {
    /// Index into tables with one entry per die.
    #[inline]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

impl BlockIndex {
    /// Index into tables with one entry per block.
    #[inline]
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl PageIndex {
    /// Index into tables with one entry per page.
    #[inline]
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

// Tables are indexed by 32-bit numbers.
const _: () = assert!(usize::BITS >= u32::BITS);
