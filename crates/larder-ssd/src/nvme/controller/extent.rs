//! A range of the drive in bytes: LBA formats differ in block size, while the firmware's pages do not.

#![deny(clippy::indexing_slicing)]

use crate::managed::PAGE_BYTES;

/// Bytes of the drive from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Extent {
    pub(super) fn bytes(self) -> u64 {
        self.end - self.start
    }

    /// The pages with at least one byte in the range: the first, and how many.
    pub(super) fn touched_pages(self) -> (u64, u64) {
        let first = self.start / PAGE_BYTES;
        (first, self.end.div_ceil(PAGE_BYTES) - first)
    }

    /// The pages that are entirely in the range: the first, and how many.
    pub(super) fn covered_pages(self) -> (u64, u64) {
        let first = self.start.div_ceil(PAGE_BYTES);
        (first, (self.end / PAGE_BYTES).saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_touched_by_a_byte_and_covered_by_all() {
        let extent = |start, end| Extent { start, end };
        assert_eq!(extent(0, 512).touched_pages(), (0, 1));
        assert_eq!(extent(0, 512).covered_pages(), (0, 0));
        assert_eq!(extent(3584, 8704).touched_pages(), (0, 3));
        assert_eq!(extent(3584, 8704).covered_pages(), (1, 1));
        assert_eq!(extent(4096, 8192).touched_pages(), (1, 1));
        assert_eq!(extent(4096, 8192).covered_pages(), (1, 1));
        assert_eq!(extent(512, 1024).covered_pages(), (1, 0), "not less than none");
    }
}
