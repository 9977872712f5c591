//! Aligned, pooled buffers that an I/O owns while it is under way.
//!
//! Direct I/O wants memory aligned to the device's block. A buffer is a run of
//! [`PAGE_BYTES`]-aligned pages, so it fits every block size up to 4096. Dropping a buffer hands
//! its pages back to the pool that it came from.
//!
//! What a pool has kept once, it hands out again and again: such pages get a `FixedIndex`, so that
//! io_uring can be told of them once and for all.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::fixed_index::{FixedIndex, Tag};

/// Alignment and granularity of a buffer's memory.
pub const PAGE_BYTES: usize = 4096;

/// Pages kept for reuse per pool: so many in buffers that can be registered, and so many in longer ones,
/// which must not take the former's place. More are freed.
const POOL_PAGES_MAX: usize = 4096;

/// Longest buffer that gets an index: what a cache writes of a region at a time. Longer ones are few,
/// and a single one may be all that the kernel lets a process register (`RLIMIT_MEMLOCK`).
const INDEXED_PAGES_MAX: usize = 64;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Memory of a buffer.
#[derive(Default)]
struct Pages {
    memory: Box<[Page]>,
    index: Option<FixedIndex>,
}

impl Pages {
    fn zeroed(count: usize) -> Self {
        // As the allocator of a `Vec` does: where there is no memory left, nothing goes on.
        let memory = <[Page]>::new_box_zeroed_with_elems(count).expect("there is memory");
        Self { memory, index: None }
    }
}

/// Reuses the memory of buffers: a hot path takes and drops them without asking the allocator.
#[derive(Clone, Default)]
pub struct BufferPool {
    free_list: Arc<Mutex<FreeList>>,
}

#[derive(Default)]
struct FreeList {
    /// One list a size; there are few sizes (a bucket, a region, a transfer).
    by_pages: Vec<(usize, Vec<Pages>)>,
    /// In buffers of up to `INDEXED_PAGES_MAX`, and in longer ones.
    kept_pages: [usize; 2],
    /// In buffers that are in use.
    taken_pages: usize,
}

impl BufferPool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer of `len` bytes. Its content is unspecified (zero, or what an earlier user left).
    pub fn take(&self, len: usize) -> IoBuffer {
        let count = len.div_ceil(PAGE_BYTES);
        let pages = self.lock().take(count);
        let pages = pages.unwrap_or_else(|| Pages::zeroed(count));
        IoBuffer { pages, len, pool: Some(self.clone()), list: Box::default() }
    }

    /// Memory of the buffers that are in use and of those that wait to be.
    pub fn memory_bytes(&self) -> usize {
        let free_list = self.lock();
        (free_list.kept_pages.iter().sum::<usize>() + free_list.taken_pages) * PAGE_BYTES
    }

    fn lock(&self) -> MutexGuard<'_, FreeList> {
        self.free_list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FreeList {
    fn take(&mut self, count: usize) -> Option<Pages> {
        self.taken_pages += count;
        let list = self.by_pages.iter_mut().find(|(pages, _)| *pages == count)?;
        let pages = list.1.pop()?;
        self.kept_pages[class_of(count)] -= count;
        Some(pages)
    }

    fn put(&mut self, mut pages: Pages) {
        let count = pages.memory.len();
        self.taken_pages -= count;
        if count == 0 || !self.make_room(count) {
            return;
        }
        self.kept_pages[class_of(count)] += count;
        // Not before: of a pool that keeps too little for its users, most are used only once.
        if pages.index.is_none() && count <= INDEXED_PAGES_MAX {
            pages.index = FixedIndex::take(count);
        }
        match self.by_pages.iter_mut().find(|(size, _)| *size == count) {
            Some((_, list)) => list.push(pages),
            None => self.by_pages.push((count, vec![pages])),
        }
    }
}

impl FreeList {
    /// Makes room for a buffer of `count` pages at the expense of longer ones that can be registered
    /// too: these are fewer, and a read of one page gains the most.
    fn make_room(&mut self, count: usize) -> bool {
        let class = class_of(count);
        while self.kept_pages[class] + count > POOL_PAGES_MAX {
            let longer = self.by_pages.iter_mut().filter(|(pages, list)| {
                class == INDEXED && *pages > count && class_of(*pages) == class && !list.is_empty()
            });
            let Some((pages, list)) = longer.max_by_key(|(pages, _)| *pages) else { return false };
            list.pop();
            self.kept_pages[class] -= *pages;
        }
        true
    }
}

const INDEXED: usize = 0;

/// Which pages of a pool a buffer of `count` pages counts among.
fn class_of(count: usize) -> usize {
    usize::from(count > INDEXED_PAGES_MAX)
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").finish_non_exhaustive()
    }
}

/// Bytes that an I/O reads into or writes from: one run of memory, or a list of them.
///
/// A list ([`IoBuffer::list`]) is one request to a device, which fills or writes its buffers in their order; they come
/// back in that order ([`IoBuffer::into_list`]). Each has its own memory and goes back to its own pool.
///
/// # Examples
/// ```
/// use larder_device::{Device, Io, IoBuffer, MemoryDevice};
///
/// let device = MemoryDevice::holding((0..16384).map(|at| (at / 4096) as u8).collect());
/// let buffers = IoBuffer::list(vec![IoBuffer::zeroed(4096), IoBuffer::zeroed(8192)]);
/// let read = device.submit(Io::Read { offset: 4096, buffer: buffers }).wait()?;
/// let [one, other] = read.into_list().try_into().expect("as many as were given");
/// assert_eq!((one.as_slice()[0], other.as_slice()[0], other.as_slice()[8191]), (1, 2, 3));
/// # Ok::<(), larder_device::IoFailure>(())
/// ```
pub struct IoBuffer {
    pages: Pages,
    /// Of all buffers of a list together.
    len: usize,
    pool: Option<BufferPool>,
    /// The buffers of a list: none of them is a list, and `pages` are none. Empty: it is no list.
    list: Box<[IoBuffer]>,
}

impl IoBuffer {
    /// A zeroed buffer of `len` bytes that belongs to no pool.
    pub fn zeroed(len: usize) -> Self {
        let pages = Pages::zeroed(len.div_ceil(PAGE_BYTES));
        Self { pages, len, pool: None, list: Box::default() }
    }

    /// A buffer without bytes, for requests that carry none. Allocates nothing.
    pub fn empty() -> Self {
        Self { pages: Pages::default(), len: 0, pool: None, list: Box::default() }
    }

    /// Several buffers as one, for a request that reads into or writes from all of them in their order. Lists in the
    /// list become part of it. For a device each must be whole blocks long.
    pub fn list(buffers: Vec<Self>) -> Self {
        let flat = |buffer: Self| if buffer.is_list() { buffer.into_list() } else { vec![buffer] };
        let mut buffers: Vec<Self> = buffers.into_iter().flat_map(flat).collect();
        if buffers.len() <= 1 {
            return buffers.pop().unwrap_or_else(Self::empty);
        }
        let len = buffers.iter().map(Self::len).sum();
        Self { pages: Pages::default(), len, pool: None, list: buffers.into() }
    }

    /// The buffers of a list in their order; of any other buffer, that one.
    pub fn into_list(mut self) -> Vec<Self> {
        if self.is_list() { std::mem::take(&mut self.list).into_vec() } else { vec![self] }
    }

    /// Whether its bytes lie in several runs of memory.
    pub fn is_list(&self) -> bool {
        !self.list.is_empty()
    }

    /// Its bytes, in order, as the runs of memory that they lie in.
    pub fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let own = (!self.is_list()).then(|| self.as_slice());
        own.into_iter().chain(self.list.iter().map(Self::as_slice))
    }

    /// The same, to fill.
    pub fn runs_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let is_list = self.is_list();
        let own = (!is_list).then(|| &mut self.pages.memory.as_mut_bytes()[..self.len]);
        own.into_iter().chain(self.list.iter_mut().map(Self::as_mut_slice))
    }

    /// Copies bytes from `at` on out of it, wherever they lie.
    ///
    /// # Panics
    /// If it ends before `into` is full.
    pub fn copy_out(&self, at: usize, mut into: &mut [u8]) {
        let mut skip = at;
        for run in self.runs() {
            let part = run.get(skip..).unwrap_or_default();
            let count = part.len().min(into.len());
            let (now, rest) = into.split_at_mut(count);
            now.copy_from_slice(&part[..count]);
            (into, skip) = (rest, skip.saturating_sub(run.len()));
        }
        assert!(into.is_empty(), "{} bytes behind the end of a buffer", into.len());
    }

    /// Copies `from` into it from `at` on, wherever that lies.
    ///
    /// # Panics
    /// If it has no room for all of `from`.
    pub fn copy_in(&mut self, at: usize, mut from: &[u8]) {
        let mut skip = at;
        for run in self.runs_mut() {
            let bytes = run.len();
            let part = run.get_mut(skip..).unwrap_or_default();
            let (now, rest) = from.split_at(part.len().min(from.len()));
            part[..now.len()].copy_from_slice(now);
            (from, skip) = (rest, skip.saturating_sub(bytes));
        }
        assert!(from.is_empty(), "{} bytes behind the end of a buffer", from.len());
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    ///
    /// # Panics
    /// If it is a list: these have [`IoBuffer::runs`].
    pub fn as_slice(&self) -> &[u8] {
        assert!(!self.is_list(), "a list of buffers has no one slice; take its runs");
        &self.pages.memory.as_bytes()[..self.len]
    }

    /// The bytes, to fill.
    ///
    /// # Panics
    /// If it is a list: these have [`IoBuffer::runs_mut`].
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(!self.is_list(), "a list of buffers has no one slice; take its runs");
        &mut self.pages.memory.as_mut_bytes()[..self.len]
    }

    /// What names this memory among all buffers as long as it lives, and its bytes, counted in whole
    /// pages. `None`: it is too young or too large to be registered with a ring.
    pub(crate) fn registrable(&self) -> Option<(Tag, usize)> {
        let index = self.pages.index.as_ref()?;
        Some((index.tag(), self.pages.memory.len() * PAGE_BYTES))
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            let pages = std::mem::take(&mut self.pages);
            pool.lock().put(pages);
        }
    }
}

impl fmt::Debug for IoBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffers = self.list.len().max(1);
        let mut shown = f.debug_struct("IoBuffer");
        shown.field("len", &self.len).field("buffers", &buffers).finish_non_exhaustive()
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
    fn a_list_is_its_buffers_in_order() {
        let pool = BufferPool::new();
        let inner = IoBuffer::list(vec![pool.take(3), IoBuffer::zeroed(2)]);
        let mut list = IoBuffer::list(vec![inner, IoBuffer::empty(), IoBuffer::zeroed(4)]);
        assert_eq!((list.len(), list.is_list(), list.registrable()), (9, true, None));
        list.copy_in(0, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        list.copy_in(2, &[30, 40]);
        let mut part = [0; 4];
        list.copy_out(1, &mut part);
        assert_eq!(part, [2, 30, 40, 5]);
        list.copy_out(5, &mut part);
        assert_eq!(part, [6, 7, 8, 9]);
        assert_eq!(list.runs().map(<[u8]>::len).collect::<Vec<_>>(), [3, 2, 0, 4]);
        assert_eq!(list.runs_mut().map(|run| run.len()).sum::<usize>(), 9);
        let buffers = list.into_list();
        let bytes: Vec<&[u8]> = buffers.iter().map(IoBuffer::as_slice).collect();
        assert_eq!(bytes, [&[1, 2, 30][..], &[40, 5], &[], &[6, 7, 8, 9]]);
        drop(buffers);
        assert_eq!(pool.memory_bytes(), PAGE_BYTES, "back in its pool");
        let one = IoBuffer::list(vec![IoBuffer::zeroed(5)]);
        assert!(!one.is_list() && one.into_list().len() == 1);
        assert!(IoBuffer::list(Vec::new()).is_empty());
    }

    #[test]
    #[should_panic(expected = "behind the end")]
    fn nothing_is_copied_behind_the_end_of_a_list() {
        let mut list = IoBuffer::list(vec![IoBuffer::zeroed(3), IoBuffer::zeroed(2)]);
        list.copy_in(4, &[1, 2]);
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
        assert_eq!(pool.free_list.lock().unwrap().kept_pages, [0, POOL_PAGES_MAX]);
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
            let kept = pool.free_list.lock().unwrap().kept_pages;
            assert!(kept.iter().all(|pages| *pages <= POOL_PAGES_MAX), "{kept:?}");
        }
    }

    /// What is as short has no right to another's place.
    #[test]
    fn a_full_pool_keeps_the_short_buffers_that_it_has() {
        let pool = BufferPool::new();
        let many: Vec<_> = (0..=POOL_PAGES_MAX).map(|_| pool.take(PAGE_BYTES)).collect();
        drop(many);
        assert_eq!(pool.free_list.lock().unwrap().kept_pages, [POOL_PAGES_MAX, 0]);
        drop(pool.take(2 * PAGE_BYTES));
        assert_eq!(pool.free_list.lock().unwrap().kept_pages, [POOL_PAGES_MAX, 0]);
    }
}
