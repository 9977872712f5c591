//! The 16 out-of-band bytes of a block, as in FlashBlox (FAST'17) §3.5: the logical address of the block, its wear, and
//! when it was written. They are stored with its first page.
//!
//! ```text
//!  offset  bytes  field
//!       0      5  block: number of the logical block, below 2^40
//!       5      3  die: number of the logical die that it is of, below 2^24 - 1
//!       8      2  erases of the physical block; 65535 stands for all counts from there on
//!      10      6  stamp: grows with each tag that is made, below 2^48
//! ```
//!
//! Numbers are little-endian, so the first eight bytes are one number, `die · 2^40 + block`: the logical address. All
//! ones is an erased page, which has no tag. Of two blocks with the same address, the one with the larger stamp was
//! written later.

use crate::nand::Tag;

/// A decoded tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTag {
    /// The logical die: below [`Self::DIES`].
    pub die: u32,
    /// The logical block: below [`Self::BLOCKS`].
    pub block: u64,
    /// Erases of the physical block when it was tagged, at most `u16::MAX`.
    pub erases: u16,
    /// Increases strictly from tag to tag of an array: below [`Self::STAMPS`].
    pub stamp: u64,
}

impl BlockTag {
    /// Number of logical dies. The last value of 24 bits marks an erased page.
    pub const DIES: u32 = (1 << 24) - 1;
    /// Number of logical blocks.
    pub const BLOCKS: u64 = 1 << 40;
    /// Number of stamps: a thousand per second for 8,900 years.
    pub const STAMPS: u64 = 1 << 48;

    /// `erases` as stored in a tag.
    pub fn saturated(erases: u32) -> u16 {
        u16::try_from(erases).unwrap_or(u16::MAX)
    }

    /// Encodes the tag. Panics if a field is out of range, which is a bug of the host.
    pub fn encode(&self) -> Tag {
        assert!(self.die < Self::DIES, "logical die {}", self.die);
        assert!(self.block < Self::BLOCKS, "logical block {}", self.block);
        assert!(self.stamp < Self::STAMPS, "stamp {}", self.stamp);
        let address = u64::from(self.die) << 40 | self.block;
        let rest = self.stamp << 16 | u64::from(self.erases);
        (u128::from(rest) << 64 | u128::from(address)).to_le_bytes()
    }

    /// Decodes `tag`; `None` for an erased page.
    pub fn decode(tag: &Tag) -> Option<Self> {
        let (address, rest) = tag.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &b| sum << 8 | u64::from(b));
        let (address, rest) = (number(address), number(rest));
        let die = u32::try_from(address >> 40).ok().filter(|&die| die < Self::DIES)?;
        let erases = u16::try_from(rest & 0xffff).ok()?;
        Some(Self { die, block: address & (Self::BLOCKS - 1), erases, stamp: rest >> 16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_where_the_table_says() {
        let tag = BlockTag {
            die: 0x0a_0b0c,
            block: 0x01_0203_0405,
            erases: 0x1112,
            stamp: 0x2122_2324_2526,
        };
        let bytes = tag.encode();
        assert_eq!(bytes[..5], [5, 4, 3, 2, 1]);
        assert_eq!(bytes[5..8], [0x0c, 0x0b, 0x0a]);
        assert_eq!(bytes[8..10], [0x12, 0x11]);
        assert_eq!(bytes[10..], [0x26, 0x25, 0x24, 0x23, 0x22, 0x21]);
        assert_eq!(BlockTag::decode(&bytes), Some(tag));
    }

    #[test]
    fn every_field_has_its_bits_and_an_erased_page_is_no_tag() {
        let (die, block, stamp) = (BlockTag::DIES - 1, BlockTag::BLOCKS - 1, BlockTag::STAMPS - 1);
        for tag in [
            BlockTag { die, block: 0, erases: 0, stamp: 0 },
            BlockTag { die: 0, block, erases: 0, stamp: 0 },
            BlockTag { die: 0, block: 0, erases: u16::MAX, stamp: 0 },
            BlockTag { die: 0, block: 0, erases: 0, stamp },
        ] {
            assert_eq!(BlockTag::decode(&tag.encode()), Some(tag));
        }
        assert_eq!(BlockTag::decode(&[0xff; 16]), None);
        assert_eq!((BlockTag::saturated(7), BlockTag::saturated(70_000)), (7, u16::MAX));
    }
}
