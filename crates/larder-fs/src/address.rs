//! The address of a page, and its expected checksum.

use std::fmt;
use std::num::NonZeroU64;

use larder_blocks::BlockId;

/// Maximum number of pages per block that an address can hold.
pub(crate) const BLOCK_PAGES_MAX: u64 = 1 << 24;
/// Number of block numbers that an address can hold. A store that uses one number per microsecond reaches the limit
/// after 12 days; one that writes a gigabyte per second in blocks of a mebibyte after 34 years.
pub(crate) const BLOCK_NUMBERS: u64 = 1 << 40;

/// A page of a block. Stored on flash and in memory as `(block · 2^24 + page) + 1`, so that 0 means none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address(NonZeroU64);

impl Address {
    /// The page with this number in a block. `None` if the numbers do not fit an address.
    pub(crate) fn new(block: BlockId, page: u32) -> Option<Self> {
        let fits = block.number() < BLOCK_NUMBERS - 1 && u64::from(page) < BLOCK_PAGES_MAX;
        let raw = block.number().checked_mul(BLOCK_PAGES_MAX)?.checked_add(u64::from(page))?;
        NonZeroU64::new(raw.checked_add(1)?).filter(|_| fits).map(Self)
    }

    /// Decodes the form on flash; 0 is no page.
    pub(crate) fn from_raw(raw: u64) -> Option<Self> {
        NonZeroU64::new(raw).map(Self)
    }

    pub(crate) fn raw(self) -> u64 {
        self.0.get()
    }

    pub(crate) fn block(self) -> BlockId {
        BlockId::new((self.0.get() - 1) / BLOCK_PAGES_MAX)
    }

    pub(crate) fn page(self) -> u32 {
        u32::try_from((self.0.get() - 1) % BLOCK_PAGES_MAX).unwrap_or(u32::MAX)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} page {}", self.block(), self.page())
    }
}

/// The address of a page, and the CRC-32C of all its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pointer {
    pub(crate) address: Address,
    pub(crate) checksum: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_its_block_and_page() {
        for (block, page) in [(0, 0), (1, 0), (7, 511), (BLOCK_NUMBERS - 2, (1 << 24) - 1)] {
            let address = Address::new(BlockId::new(block), page).unwrap();
            assert_eq!((address.block().number(), address.page()), (block, page));
            assert_eq!(Address::from_raw(address.raw()), Some(address));
        }
        assert_eq!(Address::new(BlockId::new(BLOCK_NUMBERS - 1), 0), None);
        assert_eq!(Address::new(BlockId::new(1), 1 << 24), None);
        assert_eq!(Address::from_raw(0), None);
    }
}
