//! Aligned, pooled buffers that an I/O owns while it is under way.
//!
//! Direct I/O wants memory aligned to the device's block. A buffer is a run of
//! [`PAGE_BYTES`]-aligned pages, so it fits every block size up to 4096. Dropping a buffer hands
//! its pages back to the pool that it came from.

mod pages;
mod pool;

use std::fmt;

use crate::fixed_index::Tag;
pub use pages::PAGE_BYTES;
use pages::Pages;
pub use pool::BufferPool;

/// Bytes that an I/O reads into or writes from: one run of memory, or a list of them.
///
/// A list ([`IoBuffer::list`]) is one request to a device, which fills or writes its buffers in their order; they come
/// back in that order ([`IoBuffer::into_list`]). Each has its own memory and goes back to its own pool.
///
/// Where a device keeps metadata beside its blocks ([`DeviceInfo::keeps_metadata`](crate::DeviceInfo::keeps_metadata)),
/// they travel with the data ([`IoBuffer::with_metadata`]): those of the first block first. They count in no length.
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
    /// Behind a pointer, for futures have room for a buffer, and few buffers have more.
    more: Option<Box<More>>,
}

/// What few buffers have.
#[derive(Default)]
struct More {
    /// The buffers of a list: none of them is a list, and the pages beside it are none. Empty: it is no list.
    list: Vec<IoBuffer>,
    /// Of the blocks of all of its bytes, in one run.
    metadata: Option<IoBuffer>,
    /// They are the device's, for its request.
    is_lent: bool,
}

impl IoBuffer {
    /// A zeroed buffer of `len` bytes that belongs to no pool.
    pub fn zeroed(len: usize) -> Self {
        let pages = Pages::zeroed(len.div_ceil(PAGE_BYTES));
        Self { pages, len, pool: None, more: None }
    }

    /// A buffer without bytes, for requests that carry none. Allocates nothing.
    pub fn empty() -> Self {
        Self { pages: Pages::default(), len: 0, pool: None, more: None }
    }

    /// Several buffers as one, for a request that reads into or writes from all of them in their order. Lists in the
    /// list become part of it. For a device each must be whole blocks long.
    ///
    /// # Panics
    /// If one has metadata: these are of a whole list.
    pub fn list(buffers: Vec<Self>) -> Self {
        let has_none = buffers.iter().all(|buffer| buffer.metadata().is_none());
        assert!(has_none, "metadata are of a whole list; give them to that");
        let flat = |buffer: Self| if buffer.is_list() { buffer.into_list() } else { vec![buffer] };
        let mut buffers: Vec<Self> = buffers.into_iter().flat_map(flat).collect();
        if buffers.len() <= 1 {
            return buffers.pop().unwrap_or_else(Self::empty);
        }
        let len = buffers.iter().map(Self::len).sum();
        let more = More { list: buffers, metadata: None, is_lent: false };
        Self { pages: Pages::default(), len, pool: None, more: Some(Box::new(more)) }
    }

    /// The same bytes with the metadata of their blocks, to be filled or written with them.
    ///
    /// ```
    /// use larder_device::{Device, Io, IoBuffer, MemoryDevice, PlacementHandle};
    ///
    /// let device = MemoryDevice::holding(vec![0; 1 << 20]).keeping_metadata(8);
    /// let mut written = IoBuffer::zeroed(8192).with_metadata(IoBuffer::zeroed(16));
    /// written.metadata_mut().expect("it was given some")[8] = 7;
    /// device.submit(Io::write(0, written, PlacementHandle::DEFAULT)).wait()?;
    /// let buffer = IoBuffer::zeroed(4096).with_metadata(IoBuffer::zeroed(8));
    /// let read = device.submit(Io::Read { offset: 4096, buffer }).wait()?;
    /// assert_eq!(read.metadata(), Some(&[7, 0, 0, 0, 0, 0, 0, 0][..]));
    /// # Ok::<(), larder_device::IoFailure>(())
    /// ```
    ///
    /// # Panics
    /// If `metadata` is a list, or has metadata itself.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Self) -> Self {
        let is_one = metadata.more.is_none();
        assert!(is_one, "metadata are one run of bytes");
        self.more.get_or_insert_default().metadata = Some(metadata);
        self
    }

    /// The metadata of its blocks, if it has room for them.
    pub fn metadata(&self) -> Option<&[u8]> {
        self.more.as_ref()?.metadata.as_ref().map(Self::as_slice)
    }

    /// The same, to fill.
    pub fn metadata_mut(&mut self) -> Option<&mut [u8]> {
        self.more.as_mut()?.metadata.as_mut().map(Self::as_mut_slice)
    }

    /// The same for a request to a device that has to be given some.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn lent_metadata(self, metadata: Self) -> Self {
        let mut buffer = self.with_metadata(metadata);
        buffer.more.get_or_insert_default().is_lent = true;
        buffer
    }

    /// Without metadata that a device has lent.
    pub(crate) fn without_lent_metadata(mut self) -> Self {
        if let Some(more) = self.more.as_mut().filter(|more| more.is_lent) {
            (more.metadata, more.is_lent) = (None, false);
        }
        self
    }

    /// The buffers of a list in their order, without metadata; of any other buffer, that one.
    pub fn into_list(mut self) -> Vec<Self> {
        if !self.is_list() {
            return vec![self];
        }
        self.more.take().map(|more| more.list).unwrap_or_default()
    }

    /// Whether its bytes lie in several runs of memory.
    pub fn is_list(&self) -> bool {
        !self.buffers().is_empty()
    }

    /// Those of a list; none, if it is no list.
    fn buffers(&self) -> &[Self] {
        self.more.as_ref().map(|more| more.list.as_slice()).unwrap_or_default()
    }

    /// Its bytes, in order, as the runs of memory that they lie in.
    pub fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let own = (!self.is_list()).then(|| self.as_slice());
        own.into_iter().chain(self.buffers().iter().map(Self::as_slice))
    }

    /// The same, to fill.
    pub fn runs_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let is_list = self.is_list();
        let own = (!is_list).then(|| &mut self.pages.as_mut_bytes()[..self.len]);
        let list = self.more.as_mut().map(|more| more.list.as_mut_slice());
        own.into_iter().chain(list.unwrap_or_default().iter_mut().map(Self::as_mut_slice))
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

    /// Copies all of `from` into it from `at` on, wherever both lie.
    ///
    /// # Panics
    /// If it has no room for all of `from`.
    pub fn copy_buffer_in(&mut self, mut at: usize, from: &Self) {
        for run in from.runs() {
            self.copy_in(at, run);
            at += run.len();
        }
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
        &self.pages.as_bytes()[..self.len]
    }

    /// The bytes, to fill.
    ///
    /// # Panics
    /// If it is a list: these have [`IoBuffer::runs_mut`].
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(!self.is_list(), "a list of buffers has no one slice; take its runs");
        &mut self.pages.as_mut_bytes()[..self.len]
    }

    /// What names this memory among all buffers as long as it lives, and its bytes, counted in whole
    /// pages. `None`: it is too young or too large to be registered with a ring.
    pub(crate) fn registrable(&self) -> Option<(Tag, usize)> {
        let index = self.pages.index.as_ref()?;
        Some((index.tag(), self.pages.count() * PAGE_BYTES))
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            let pages = std::mem::take(&mut self.pages);
            pool.put(pages);
        }
    }
}

impl fmt::Debug for IoBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffers = self.buffers().len().max(1);
        let mut shown = f.debug_struct("IoBuffer");
        let metadata = self.metadata().map_or(0, <[u8]>::len);
        shown.field("len", &self.len).field("buffers", &buffers);
        shown.field("metadata", &metadata).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
