//! Memory of a buffer: whole pages, aligned to [`PAGE_BYTES`].

use memmap2::MmapMut;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::fixed_index::FixedIndex;

/// Alignment and granularity of a buffer's memory.
pub const PAGE_BYTES: usize = 4096;

/// Buffers of at least this number of pages get a mapping of their own, which is unmapped when they are freed. Buffers
/// of many lengths come and go: the allocator would keep the gaps between those that stay, as much memory again.
const MAPPED_PAGES_MIN: usize = 16;

/// Up to this number of pages a buffer has the length that was asked for. Longer ones are rounded up by at most an
/// eighth.
const EXACT_PAGES_MAX: usize = 16;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

enum Memory {
    Allocated(Box<[Page]>),
    Mapped(MmapMut),
}

/// The pages of one buffer.
#[derive(Default)]
pub(super) struct Pages {
    memory: Memory,
    /// Index of a fixed buffer for io_uring, set once the pool has kept the memory.
    pub(super) index: Option<FixedIndex>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::Allocated(Box::default())
    }
}

impl Pages {
    /// `count` zeroed pages.
    pub(super) fn zeroed(count: usize) -> Self {
        Self { memory: Memory::zeroed(count), index: None }
    }

    pub(super) fn count(&self) -> usize {
        self.as_bytes().len() / PAGE_BYTES
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Allocated(pages) => pages.as_bytes(),
            Memory::Mapped(mapping) => mapping,
        }
    }

    pub(super) fn as_mut_bytes(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Allocated(pages) => pages.as_mut_bytes(),
            Memory::Mapped(mapping) => mapping,
        }
    }
}

impl Memory {
    fn zeroed(count: usize) -> Self {
        if count >= MAPPED_PAGES_MIN
            && let Ok(mapping) = MmapMut::map_anon(count * PAGE_BYTES)
        {
            return Self::Mapped(mapping);
        }
        // Out of memory: panic, as `Vec` aborts.
        Self::Allocated(<[Page]>::new_box_zeroed_with_elems(count).expect("there is memory"))
    }
}

/// Number of pages that a pool takes for a buffer that needs `count`. It gives few different lengths, so that returned
/// buffers can be reused.
pub(super) fn pages_to_take(count: usize) -> usize {
    if count <= EXACT_PAGES_MAX {
        return count;
    }
    let step = (1 << count.ilog2()) / 8;
    count.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memory_is_aligned_zeroed_and_as_long_as_asked_for() {
        for count in [0, 1, MAPPED_PAGES_MIN - 1, MAPPED_PAGES_MIN, 1000] {
            let mut pages = Pages::zeroed(count);
            assert_eq!((pages.count(), pages.as_bytes().len()), (count, count * PAGE_BYTES));
            assert_eq!(pages.as_bytes().as_ptr().align_offset(PAGE_BYTES), 0);
            assert!(pages.as_bytes().iter().all(|byte| *byte == 0));
            pages.as_mut_bytes().fill(7);
            assert!(pages.as_bytes().iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn pools_take_few_lengths_that_are_little_longer() {
        let lengths: Vec<usize> = (1..=4096).map(pages_to_take).collect();
        for (count, pages) in (1..).zip(&lengths) {
            assert!((count..=count + count / 8).contains(pages), "{pages} pages for {count}");
            assert_eq!(pages_to_take(*pages), *pages);
        }
        let mut different = lengths;
        different.dedup();
        assert_eq!(different.len(), 16 + 8 * 8, "sixteen, and eight for each doubling");
    }
}
