//! The use of a block of the store. Its tag encodes it: a mark in the upper half, the use in the lower.

/// The upper half of tags: "LRFS" in ASCII.
const TAG_MARK: u64 = 0x4c52_4653;

/// The use of a block. It determines the stream to which the block is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Inodes and leaves, which have the shortest lives.
    Nodes = 1,
    /// Newly written data.
    Hot = 2,
    /// Data that the cleaner moved: it is likely to live longer.
    Cold = 3,
    Checkpoint = 4,
}

impl Use {
    pub(crate) fn tag(self) -> u64 {
        TAG_MARK << 32 | self as u64
    }

    /// The use in a tag. `None` if the tag is not of this file system.
    pub(crate) fn of_tag(tag: u64) -> Option<Self> {
        if tag >> 32 != TAG_MARK {
            return None;
        }
        Self::of_number(tag & u64::from(u32::MAX))
    }

    pub(crate) fn of_number(number: u64) -> Option<Self> {
        [Self::Nodes, Self::Hot, Self::Cold, Self::Checkpoint]
            .into_iter()
            .find(|it| *it as u64 == number)
    }

    /// The stream of the store for this use; the last one if the store has fewer streams.
    pub(crate) fn stream(self, streams: u16) -> u16 {
        (self as u16 % 4).min(streams.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_says_its_use() {
        for it in [Use::Nodes, Use::Hot, Use::Cold, Use::Checkpoint] {
            assert_eq!(Use::of_tag(it.tag()), Some(it));
            assert!(it.stream(1) == 0 && it.stream(4) < 4);
        }
        assert_eq!(Use::of_tag(7), None);
        assert_eq!(Use::of_tag(TAG_MARK << 32 | 9), None);
    }
}
