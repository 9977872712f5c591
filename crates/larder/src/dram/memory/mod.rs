//! The memory of segments: large blocks that the kernel may back with huge pages.
//!
//! Items are spread over the whole tier, so nearly every hit accesses an address that is not in the processor's TLB.
//! With pages of 2 MiB there are 512 times fewer translations, and the kernel is asked for them. Segments are cut
//! from the front of a block and never returned to it: a segment that is not needed tells the kernel that its pages
//! are unused, and keeps its place for later. The block is unmapped with the last of its segments. Untouched parts of
//! a block take no memory. Segments in blocks are whole pages, because a partial page at the end would stay resident.
//! Those of small tiers are in blocks without huge pages, so that memory that a tier gives back goes to the kernel:
//! the process's allocator would keep it.
#![allow(unsafe_code)]

mod heap;
mod mapping;
mod shadow;

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

pub(super) use heap::trim;
use mapping::Mapping;

/// Address space that is reserved at a time.
const BLOCK_BYTES: usize = 32 << 20;
/// Shorter segments belong to small tiers, which would lose more on the last huge page than they gain.
const HUGE_BYTES_MIN: usize = 64 << 10;
/// Segments in blocks are multiples of this.
pub(super) const PAGE_BYTES: usize = 4096;

const _: () = {
    assert!(BLOCK_BYTES.is_multiple_of(PAGE_BYTES) && HUGE_BYTES_MIN.is_multiple_of(PAGE_BYTES));
    assert!(HUGE_BYTES_MIN < BLOCK_BYTES / 4, "there are segments that share huge pages");
};

/// Zeroed bytes with one owner, at a fixed address.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    bytes: usize,
    /// The block that they were cut from; `None` for a separate allocation.
    block: Option<Arc<Mapping>>,
}

// SAFETY: the memory has this one owner, and code that lends it out is responsible for its bytes.
unsafe impl Send for Memory {}
// SAFETY: as above. A shared reference gives out only its address.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates separate memory.
    pub(super) fn of_bytes(bytes: usize) -> Self {
        let memory = Box::into_raw(vec![0_u8; bytes].into_boxed_slice());
        let start = NonNull::new(memory.cast::<u8>()).expect("a box is never null");
        Self { start, bytes, block: None }
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Poisons all of it until [`Memory::allow`]: with a sanitizer any access is an error.
    #[inline]
    pub(super) fn forbid(&self) {
        shadow::forbid(self.start, self.bytes);
    }

    /// Allows access to these bytes.
    #[inline]
    pub(super) fn allow(&self, range: Range<usize>) {
        debug_assert!(range.start <= range.end && range.end <= self.bytes);
        // SAFETY: within the memory, or at its end.
        shadow::allow(unsafe { self.start.add(range.start) }, range.len());
    }

    /// Whether access to this byte is allowed.
    #[cfg(all(test, larder_asan))]
    pub(super) fn is_allowed(&self, at: usize) -> bool {
        shadow::is_allowed(self.start.as_ptr().wrapping_add(at))
    }

    /// Tells the kernel that the content is not needed any more. `false`: only dropping it frees the memory.
    pub(super) fn hollow_out(&self) -> bool {
        let Some((block, range)) = self.place() else { return false };
        block.forget(range);
        true
    }

    /// Takes it into use again after [`Memory::hollow_out`].
    pub(super) fn refill(&self) {
        if let Some((block, range)) = self.place() {
            block.want(range);
        }
    }

    fn place(&self) -> Option<(&Mapping, Range<usize>)> {
        let block = self.block.as_ref()?;
        let at = self.start.as_ptr().addr() - block.first().as_ptr().addr();
        debug_assert!(at + self.bytes <= BLOCK_BYTES, "it was cut from this block");
        Some((block, at..at + self.bytes))
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The next owner of these addresses knows nothing of the poison.
        self.allow(0..self.bytes);
        if !self.hollow_out() {
            let memory = ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.bytes);
            // SAFETY: it has no block, so it was made by `Box::into_raw` with this length in `of_bytes`, and is freed
            // only here.
            drop(unsafe { Box::from_raw(memory) });
        }
    }
}

/// Allocates memory for segments of the usual length.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    huge: Block,
    plain: Block,
}

#[derive(Debug, Default)]
struct Block {
    current: Option<Arc<Mapping>>,
    used: usize,
}

impl Blocks {
    pub(super) fn take(&mut self, bytes: usize) -> Memory {
        let is_huge = (HUGE_BYTES_MIN..=BLOCK_BYTES / 4).contains(&bytes);
        let is_plain = bytes < HUGE_BYTES_MIN && bytes.is_multiple_of(PAGE_BYTES) && bytes > 0;
        let taken = match (is_huge, is_plain) {
            (true, _) => self.huge.take(bytes, true),
            (_, true) => self.plain.take(bytes, false),
            _ => None,
        };
        taken.unwrap_or_else(|| Memory::of_bytes(bytes))
    }
}

impl Block {
    fn take(&mut self, bytes: usize, huge: bool) -> Option<Memory> {
        if self.current.is_none() || self.used + bytes > BLOCK_BYTES {
            self.current = Mapping::new(BLOCK_BYTES, huge).map(Arc::new);
            self.used = 0;
        }
        assert!(self.used + bytes <= BLOCK_BYTES, "what is cut from a block ends in it");
        let block = self.current.as_ref()?;
        // SAFETY: `used + bytes` is at most the length of the block. These bytes are given out only once, since
        // `used` only grows.
        let start = unsafe { block.first().add(self.used) };
        self.used += bytes;
        Some(Memory { start, bytes, block: Some(Arc::clone(block)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_block_do_not_overlap_and_outlive_it() {
        for bytes in [HUGE_BYTES_MIN + 64, 2 * PAGE_BYTES] {
            they_do_not_overlap(bytes);
        }
    }

    fn they_do_not_overlap(bytes: usize) {
        let mut blocks = Blocks::default();
        let taken: Vec<Memory> = (0..5000).map(|_| blocks.take(bytes)).collect();
        let mut starts: Vec<usize> =
            taken.iter().map(|memory| memory.start().as_ptr().addr()).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= bytes));
        let Some(block) = taken[0].block.clone() else { return }; // not supported on this system
        assert_eq!(Arc::strong_count(&block), 1 + BLOCK_BYTES / bytes);
        drop((taken, blocks));
        assert_eq!(Arc::strong_count(&block), 1);
    }

    #[test]
    fn short_and_long_ones_have_memory_of_their_own() {
        let mut blocks = Blocks::default();
        for bytes in [0, 1, PAGE_BYTES + 64, HUGE_BYTES_MIN - 1, BLOCK_BYTES] {
            let memory = blocks.take(bytes);
            assert!(memory.block.is_none() && memory.len() == bytes);
        }
    }
}
