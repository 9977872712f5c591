//! Numbers of the parts of a medium. Each kind is a type of its own, so that none is taken for
//! another.

/// A channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelIndex(pub u32);

/// A die. Dies are numbered round the channels: see [`DieArray::channel_of`](super::DieArray).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DieIndex(pub u32);

/// A block of a medium: what is erased at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u32);

/// A page of the medium in units of mapping, numbered block after block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageIndex(pub u32);

impl ChannelIndex {
    /// For tables with an entry a channel.
    #[inline]
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl DieIndex {
    /// For tables with an entry a die.
    #[inline]
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl BlockIndex {
    /// For tables with an entry a block.
    #[inline]
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl PageIndex {
    /// For tables with an entry a page.
    #[inline]
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

// Tables are indexed by 32-bit numbers.
const _: () = assert!(usize::BITS >= u32::BITS);
