//! Aligned, pooled buffers that a request owns while it is in flight.
//!
//! Direct I/O wants memory aligned to the device's block. A buffer is a run of [`PAGE_BYTES`]-aligned pages, so it fits
//! every block size up to 4096. Dropping a buffer hands its pages back to the pool that it came from.

mod pages;
mod pool;

use std::fmt;

use crate::fixed_index::Tag;
pub use pages::PAGE_BYTES;
use pages::Pages;
pub use pool::BufferPool;

/// Bytes that a request reads into or writes from: one run of memory, or a list of runs.
///
/// A list ([`IoBuffer::list`]) is one request to a device. The device fills or writes the list's buffers in order, and
/// they come back in that order ([`IoBuffer::into_list`]). Each buffer has its own memory and goes back to its own
/// pool.
///
/// Where a device keeps metadata with its blocks ([`DeviceInfo::keeps_metadata`](crate::DeviceInfo::keeps_metadata)),
/// the metadata travel with the data ([`IoBuffer::with_metadata`]), in the order of the blocks. No length includes
/// them.
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
    /// Bytes; for a list, the sum of its buffers.
    len: usize,
    pool: Option<BufferPool>,
    /// Boxed: every future has room for a buffer, and few buffers need these fields.
    more: Option<Box<More>>,
}

/// Fields that few buffers need.
#[derive(Default)]
struct More {
    /// The buffers of a list, none of which is a list itself; the outer buffer then has no pages. Empty if this is no
    /// list.
    list: Vec<IoBuffer>,
    /// The metadata of all blocks, in one run.
    metadata: Option<IoBuffer>,
    /// Whether the device added the metadata for the request.
    is_lent: bool,
}

impl IoBuffer {
    /// A zeroed buffer of `len` bytes that belongs to no pool.
    pub fn zeroed(len: usize) -> Self {
        let pages = Pages::zeroed(len.div_ceil(PAGE_BYTES));
        Self { pages, len, pool: None, more: None }
    }

    /// A buffer without bytes, for requests that carry none. It allocates nothing.
    pub fn empty() -> Self {
        Self { pages: Pages::default(), len: 0, pool: None, more: None }
    }

    /// Several buffers as one, for a request that reads into or writes from all of them in order. Lists among `buffers`
    /// are flattened. A device accepts the list only if each buffer is whole blocks long.
    ///
    /// # Panics
    /// If a buffer has metadata: metadata belong to the list as a whole.
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

    /// The same bytes with metadata of their blocks, which a request reads or writes together with them.
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

    /// The metadata of its blocks, if the buffer has any.
    pub fn metadata(&self) -> Option<&[u8]> {
        self.more.as_ref()?.metadata.as_ref().map(Self::as_slice)
    }

    /// The metadata of its blocks, to fill.
    pub fn metadata_mut(&mut self) -> Option<&mut [u8]> {
        self.more.as_mut()?.metadata.as_mut().map(Self::as_mut_slice)
    }

    /// Like [`IoBuffer::with_metadata`], for metadata that the device adds because it cannot do the request without.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn lent_metadata(self, metadata: Self) -> Self {
        let mut buffer = self.with_metadata(metadata);
        buffer.more.get_or_insert_default().is_lent = true;
        buffer
    }

    /// The buffer without metadata that a device has added ([`IoBuffer::lent_metadata`]).
    pub(crate) fn without_lent_metadata(mut self) -> Self {
        if let Some(more) = self.more.as_mut().filter(|more| more.is_lent) {
            (more.metadata, more.is_lent) = (None, false);
        }
        self
    }

    /// The buffers of a list in order, without the list's metadata. A buffer that is no list comes back alone.
    pub fn into_list(mut self) -> Vec<Self> {
        if !self.is_list() {
            return vec![self];
        }
        self.more.take().map(|more| more.list).unwrap_or_default()
    }

    /// Whether the buffer is a list of several runs of memory.
    pub fn is_list(&self) -> bool {
        !self.buffers().is_empty()
    }

    /// The buffers of a list; empty if this is no list.
    fn buffers(&self) -> &[Self] {
        self.more.as_ref().map(|more| more.list.as_slice()).unwrap_or_default()
    }

    /// Its bytes, in order, as runs of memory.
    pub fn runs(&self) -> impl Iterator<Item = &[u8]> {
        let own = (!self.is_list()).then(|| self.as_slice());
        own.into_iter().chain(self.buffers().iter().map(Self::as_slice))
    }

    /// Its runs of memory, to fill.
    pub fn runs_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let is_list = self.is_list();
        let own = (!is_list).then(|| &mut self.pages.as_mut_bytes()[..self.len]);
        let list = self.more.as_mut().map(|more| more.list.as_mut_slice());
        own.into_iter().chain(list.unwrap_or_default().iter_mut().map(Self::as_mut_slice))
    }

    /// Copies bytes from offset `at` on into `into`, across runs.
    ///
    /// # Panics
    /// If the buffer ends before `into` is full.
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

    /// Copies `from` into the buffer at offset `at`, across runs.
    ///
    /// # Panics
    /// If the buffer has no room for all of `from`.
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

    /// Copies all of `from` into the buffer at offset `at`, across the runs of both.
    ///
    /// # Panics
    /// If the buffer has no room for all of `from`.
    pub fn copy_buffer_in(&mut self, mut at: usize, from: &Self) {
        for run in from.runs() {
            self.copy_in(at, run);
            at += run.len();
        }
    }

    /// Number of bytes, without metadata.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    ///
    /// # Panics
    /// If it is a list: use [`IoBuffer::runs`].
    pub fn as_slice(&self) -> &[u8] {
        assert!(!self.is_list(), "a list of buffers has no one slice; take its runs");
        &self.pages.as_bytes()[..self.len]
    }

    /// The bytes, to fill.
    ///
    /// # Panics
    /// If it is a list: use [`IoBuffer::runs_mut`].
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(!self.is_list(), "a list of buffers has no one slice; take its runs");
        &mut self.pages.as_mut_bytes()[..self.len]
    }

    /// A tag that is unique to this memory while it lives, and the memory's size in bytes, whole pages. `None` if the
    /// memory was not yet reused or is too large to be registered with a ring.
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
