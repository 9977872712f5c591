//! The shape of a medium, down to the flash page.

use super::array::DieArray;
use super::index::{BlockIndex, DieIndex};
use crate::error::{Error, ErrorKind};

/// The shape of a medium. The planes of a die work together: a block is one physical block of each plane, and all of
/// them are programmed and erased together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NandGeometry {
    /// Channels and dies.
    pub array: DieArray,
    /// Planes of a die.
    pub planes: u32,
    /// Bits of a cell that are programmed together: 3 for one-shot TLC.
    pub bits: u32,
    /// Blocks per die. Blocks are numbered die by die: see [`Self::die_of`].
    pub blocks_per_die: u32,
    /// Flash pages of a physical block; a multiple of `bits`.
    pub pages_per_block: u32,
    /// Bytes of a flash page; a multiple of `mapping_bytes`.
    pub page_bytes: u32,
    /// Bytes of the unit in which a firmware maps, reads and counts. Everywhere else, "page" means this unit.
    pub mapping_bytes: u32,
}

impl NandGeometry {
    /// All blocks.
    pub fn blocks(&self) -> u32 {
        self.array.dies() * self.blocks_per_die
    }

    /// The die that `block` is on.
    pub fn die_of(&self, block: BlockIndex) -> DieIndex {
        debug_assert!(block.0 < self.blocks(), "{block:?} of {}", self.blocks());
        DieIndex(block.0 / self.blocks_per_die)
    }

    /// The blocks of `die`.
    pub fn blocks_of(&self, die: DieIndex) -> impl Iterator<Item = BlockIndex> + use<> {
        debug_assert!(die.0 < self.array.dies(), "{die:?} of {}", self.array.dies());
        let first = die.0 * self.blocks_per_die;
        (first..first + self.blocks_per_die).map(BlockIndex)
    }

    /// Mapping pages that a die senses at once: a flash page of each plane.
    pub fn row_pages(&self) -> u32 {
        debug_assert!(self.page_bytes.is_multiple_of(self.mapping_bytes), "checked");
        self.page_bytes / self.mapping_bytes * self.planes
    }

    /// Mapping pages that a die programs at once: all bits of a row.
    pub fn stripe_pages(&self) -> u32 {
        self.row_pages() * self.bits
    }

    /// Mapping pages in a block.
    pub fn block_pages(&self) -> u32 {
        debug_assert!(self.pages_per_block.is_multiple_of(self.bits), "checked");
        self.row_pages() * self.pages_per_block
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let fail = |message: String| Err(Error::new(ErrorKind::Config, message));
        self.array.check()?;
        let Self { planes, bits, blocks_per_die, pages_per_block, page_bytes, .. } = *self;
        for (field, value) in [
            ("planes", planes),
            ("bits", bits),
            ("blocks_per_die", blocks_per_die),
            ("pages_per_block", pages_per_block),
            ("page_bytes", page_bytes),
            ("mapping_bytes", self.mapping_bytes),
        ] {
            if value == 0 {
                return fail(format!("{field} of 0: must be at least 1"));
            }
        }
        if !pages_per_block.is_multiple_of(bits) {
            return fail(format!(
                "pages_per_block of {pages_per_block} is not a multiple of bits, which are {bits} \
                 and programmed at once: use {}",
                u64::from(pages_per_block.div_ceil(bits)) * u64::from(bits)
            ));
        }
        if !page_bytes.is_multiple_of(self.mapping_bytes) {
            return fail(format!(
                "page_bytes of {page_bytes} is not a multiple of mapping_bytes, {}",
                self.mapping_bytes
            ));
        }
        let factors = [page_bytes / self.mapping_bytes, planes, pages_per_block, blocks_per_die];
        let pages = factors
            .into_iter()
            .try_fold(self.array.dies(), u32::checked_mul)
            .filter(|&pages| pages < u32::MAX);
        if pages.is_none() {
            return fail(
                "more pages of mapping than 32-bit page numbers can hold: use fewer or smaller \
                 blocks, or larger mapping_bytes"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TLC: NandGeometry = NandGeometry {
        array: DieArray { channels: 4, dies_per_channel: 2 },
        planes: 2,
        bits: 3,
        blocks_per_die: 10,
        pages_per_block: 12,
        page_bytes: 16 << 10,
        mapping_bytes: 4096,
    };

    #[test]
    fn rows_stripes_and_blocks_are_counted_in_units_of_mapping() {
        TLC.check().unwrap();
        assert_eq!((TLC.row_pages(), TLC.stripe_pages(), TLC.block_pages()), (8, 24, 96));
        assert_eq!((TLC.blocks(), TLC.die_of(BlockIndex(19))), (80, DieIndex(1)));
        let blocks: Vec<_> = TLC.blocks_of(DieIndex(7)).collect();
        assert_eq!((blocks[0], blocks[9]), (BlockIndex(70), BlockIndex(79)));
    }

    #[test]
    fn each_refusal_names_the_field_and_the_fix() {
        let refused = |change: fn(&mut NandGeometry)| {
            let mut geometry = TLC;
            change(&mut geometry);
            geometry.check().unwrap_err().to_string()
        };
        assert!(refused(|g| g.array.channels = 0).contains("0 channels"));
        assert!(refused(|g| g.planes = 0).contains("planes of 0"));
        assert!(refused(|g| g.mapping_bytes = 0).contains("mapping_bytes of 0"));
        assert!(refused(|g| g.pages_per_block = 13).contains("use 15"));
        assert!(refused(|g| g.page_bytes = 5000).contains("not a multiple of mapping_bytes"));
        assert!(refused(|g| g.blocks_per_die = 1 << 28).contains("32-bit"));
    }
}
