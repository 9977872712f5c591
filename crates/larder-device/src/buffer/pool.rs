//! A pool of buffer memory for reuse.
//!
//! Memory that a pool has kept once is likely to be used many times. Such pages get a `FixedIndex`, so that they can be
//! registered with io_uring once.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::IoBuffer;
use super::pages::{PAGE_BYTES, Pages, pages_to_take};
use crate::fixed_index::FixedIndex;

/// Most pages that a pool keeps for reuse: this number in buffers that can be registered, and this number in longer
/// ones, which must not displace the former. Pages beyond that are freed.
const POOL_PAGES_MAX: usize = 4096;

/// Pages of each kind (registrable, longer) that a pool may keep regardless of its use. For registrable buffers that is
/// more than one buffer of each length that [`pages_to_take`] gives.
const POOL_PAGES_MIN: [usize; 2] = [1024, 64];

/// A pool keeps at most this number of times the most pages that were in use at once.
const KEPT_PER_TAKEN: usize = 2;

/// Longest buffer that gets an index, in pages: the amount of a region that a cache writes at a time. Longer buffers
/// are few, and a single one may use up all that the kernel lets a process register (`RLIMIT_MEMLOCK`).
const INDEXED_PAGES_MAX: usize = 64;

/// Reuses the memory of buffers: a hot path takes and drops buffers without calling the allocator.
#[derive(Clone, Default)]
pub struct BufferPool {
    free_list: Arc<Mutex<FreeList>>,
}

#[derive(Default)]
struct FreeList {
    /// One entry per length; there are few lengths.
    lengths: Vec<Length>,
    /// Counts for buffers of up to `INDEXED_PAGES_MAX` pages, and for longer ones.
    kinds: [BufferKind; 2],
    /// How many buffers were taken.
    taken: u64,
}

/// The kept buffers of one length.
struct Length {
    pages: usize,
    kept: Vec<Pages>,
    /// When this length was last asked for, as a value of [`FreeList::taken`].
    asked: u64,
}

/// Page counts for one kind of buffers.
#[derive(Default)]
struct BufferKind {
    kept: usize,
    in_use: usize,
    most_in_use: usize,
}

impl BufferPool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer of `len` bytes. Its content is unspecified (zeros, or what an earlier user left).
    pub fn take(&self, len: usize) -> IoBuffer {
        let count = pages_to_take(len.div_ceil(PAGE_BYTES));
        let pages = self.lock().take(count);
        let pages = pages.unwrap_or_else(|| Pages::zeroed(count));
        IoBuffer { pages, len, pool: Some(self.clone()), more: None }
    }

    /// Takes memory back.
    pub(super) fn put(&self, pages: Pages) {
        // Memory that is not kept is freed after the lock is released.
        let _freed = self.lock().put(pages);
    }

    /// Bytes of the buffers in use and of those kept for reuse.
    pub fn memory_bytes(&self) -> usize {
        let free_list = self.lock();
        free_list.kinds.iter().map(|kind| kind.kept + kind.in_use).sum::<usize>() * PAGE_BYTES
    }

    fn lock(&self) -> MutexGuard<'_, FreeList> {
        self.free_list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FreeList {
    fn take(&mut self, count: usize) -> Option<Pages> {
        self.taken += 1;
        let kind = &mut self.kinds[kind_of(count)];
        kind.in_use += count;
        kind.most_in_use = kind.most_in_use.max(kind.in_use);
        let length = self.lengths.iter_mut().find(|length| length.pages == count)?;
        length.asked = self.taken;
        let pages = length.kept.pop()?;
        kind.kept -= count;
        Some(pages)
    }

    /// Keeps `pages` if there is room. Returns the memory to free.
    fn put(&mut self, mut pages: Pages) -> Vec<Pages> {
        let count = pages.count();
        self.kinds[kind_of(count)].in_use -= count;
        if count == 0 {
            return Vec::new();
        }
        let mut freed = Vec::new();
        if !self.make_room(count, &mut freed) {
            freed.push(pages);
            return freed;
        }
        self.kinds[kind_of(count)].kept += count;
        // Pages get their index only once they are kept: in a pool that keeps too little for its users, most are used
        // only once.
        if pages.index.is_none() && count <= INDEXED_PAGES_MAX {
            pages.index = FixedIndex::take(count);
        }
        match self.lengths.iter_mut().find(|length| length.pages == count) {
            Some(length) => length.kept.push(pages),
            None => {
                let asked = self.taken;
                self.lengths.push(Length { pages: count, kept: vec![pages], asked });
            }
        }
        freed
    }

    /// Makes room for a buffer of `count` pages. A registrable buffer displaces longer registrable ones: these are
    /// fewer, and a read of one page gains the most. A longer buffer displaces the length that was not asked for the
    /// longest.
    fn make_room(&mut self, count: usize, freed: &mut Vec<Pages>) -> bool {
        let number = kind_of(count);
        let kind = &mut self.kinds[number];
        let most = kind.most_in_use.saturating_mul(KEPT_PER_TAKEN);
        let most = most.clamp(POOL_PAGES_MIN[number], POOL_PAGES_MAX);
        while kind.kept + count > most {
            let others = self.lengths.iter_mut().filter(|length| {
                kind_of(length.pages) == number && length.pages != count && !length.kept.is_empty()
            });
            let other = match number {
                INDEXED => {
                    others.filter(|length| length.pages > count).max_by_key(|length| length.pages)
                }
                _ => others.min_by_key(|length| length.asked),
            };
            let Some(other) = other else { return false };
            freed.extend(other.kept.pop());
            kind.kept -= other.pages;
        }
        true
    }
}

const INDEXED: usize = 0;

/// Kind of a buffer of `count` pages.
fn kind_of(count: usize) -> usize {
    usize::from(count > INDEXED_PAGES_MAX)
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_comes_back() {
        let pool = BufferPool::new();
        let mut first = pool.take(5000);
        assert_eq!(first.len(), 5000);
        assert_eq!(first.as_slice().as_ptr().align_offset(PAGE_BYTES), 0);
        first.as_mut_slice()[4999] = 7;
        let address = first.as_slice().as_ptr();
        drop(first);
        let second = pool.take(8192);
        assert_eq!(second.as_slice().as_ptr(), address, "two pages serve 5000 and 8192 bytes");
    }

    #[test]
    fn what_a_pool_keeps_is_named_until_it_is_freed() {
        let pool = BufferPool::new();
        let (small, large) = (pool.take(5000), pool.take((INDEXED_PAGES_MAX + 1) * PAGE_BYTES));
        assert!(small.registrable().is_none(), "it may never come back");
        drop((small, large));
        assert!(pool.take((INDEXED_PAGES_MAX + 1) * PAGE_BYTES).registrable().is_none());
        let again = pool.take(8192);
        let (tag, bytes) = again.registrable().unwrap();
        assert_eq!((bytes, tag.is_held()), (8192, true));
        drop(again);
        assert_eq!(pool.take(8192).registrable(), Some((tag, 8192)), "for life");
        drop(pool);
        assert!(!tag.is_held());
        assert!(IoBuffer::zeroed(4096).registrable().is_none());
    }

    #[test]
    fn a_pool_keeps_a_bounded_amount() {
        let pool = BufferPool::new();
        let many: Vec<_> = (0..3).map(|_| pool.take(POOL_PAGES_MAX / 2 * PAGE_BYTES)).collect();
        assert_eq!(pool.memory_bytes(), POOL_PAGES_MAX / 2 * 3 * PAGE_BYTES);
        drop(many);
        assert_eq!(pool.memory_bytes(), POOL_PAGES_MAX * PAGE_BYTES);
        assert_eq!(kept(&pool), [0, POOL_PAGES_MAX]);
    }

    #[test]
    fn long_buffers_do_not_keep_short_ones_from_being_registered() {
        for long in [POOL_PAGES_MAX, INDEXED_PAGES_MAX] {
            let pool = BufferPool::new();
            let pages = long * PAGE_BYTES;
            drop((0..POOL_PAGES_MAX / long).map(|_| pool.take(pages)).collect::<Vec<_>>());
            drop((0..100).map(|_| pool.take(PAGE_BYTES)).collect::<Vec<_>>());
            let short: Vec<_> = (0..100).map(|_| pool.take(PAGE_BYTES)).collect();
            assert!(short.iter().all(|buffer| buffer.registrable().is_some()), "beside {long}");
            assert!(pool.memory_bytes() <= 2 * POOL_PAGES_MAX * PAGE_BYTES);
            drop(short);
            let kept = kept(&pool);
            assert!(kept.iter().all(|pages| *pages <= POOL_PAGES_MAX), "{kept:?}");
        }
    }

    /// A buffer does not displace another of the same length.
    #[test]
    fn a_full_pool_keeps_the_short_buffers_that_it_has() {
        let pool = BufferPool::new();
        let many: Vec<_> = (0..=POOL_PAGES_MAX).map(|_| pool.take(PAGE_BYTES)).collect();
        drop(many);
        assert_eq!(kept(&pool), [POOL_PAGES_MAX, 0]);
        drop(pool.take(2 * PAGE_BYTES));
        assert_eq!(kept(&pool), [POOL_PAGES_MAX, 0]);
    }

    fn kept(pool: &BufferPool) -> [usize; 2] {
        [0, 1].map(|kind| pool.lock().kinds[kind].kept)
    }

    /// Buffers of many lengths, one at a time: lengths that are not asked for again are freed.
    #[test]
    fn a_pool_keeps_little_more_than_was_in_use_at_once() {
        let pool = BufferPool::new();
        for pages in INDEXED_PAGES_MAX + 1..512 {
            drop(pool.take(pages * PAGE_BYTES));
            drop(pool.take(256 * PAGE_BYTES));
            let most = KEPT_PER_TAKEN * pages_to_take(pages).max(256);
            assert!(pool.memory_bytes() <= most * PAGE_BYTES, "{}", pool.memory_bytes());
        }
        let there = pool.lock().lengths.iter().find(|it| it.pages == 256).map(|it| it.kept.len());
        assert_eq!(there, Some(1), "what is asked for again and again stays");
    }

    /// Buffers of all lengths, one at a time, do not push out the buffer of a length that is taken repeatedly.
    #[test]
    fn a_length_that_is_asked_for_finds_its_buffer_again() {
        let pool = BufferPool::new();
        for pages in 1..=INDEXED_PAGES_MAX {
            drop(pool.take(pages * PAGE_BYTES));
            drop(pool.take(56 * PAGE_BYTES));
        }
        let lock = pool.lock();
        let there = lock.lengths.iter().filter(|length| length.kept.len() == 1);
        assert_eq!(there.count(), lock.lengths.len(), "of each length the one that there was");
    }
}
