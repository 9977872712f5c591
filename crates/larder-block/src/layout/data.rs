//! Bytes that requests and device I/Os share without copies.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use larder_device::IoBuffer;

/// A part of a buffer. Clones share the bytes: the data of a write goes to the cache device, and may also be held in
/// memory to go to the core.
#[derive(Clone)]
pub struct Data {
    buffer: Arc<IoBuffer>,
    range: Range<usize>,
}

impl Data {
    /// All bytes of `buffer`, which must be a single run ([`IoBuffer::is_list`] is false).
    ///
    /// # Panics
    /// If the buffer is a list.
    pub fn new(buffer: IoBuffer) -> Self {
        assert!(
            !buffer.is_list(),
            "data are one run of bytes; give each buffer of a list by itself"
        );
        let range = 0..buffer.len();
        Self { buffer: Arc::new(buffer), range }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self::new(buffer_of(bytes))
    }

    /// A buffer with a copy of the bytes.
    pub fn copy(&self) -> IoBuffer {
        buffer_of(self.bytes())
    }

    /// The buffer, if this is all of it and no clone shares it.
    ///
    /// # Errors
    /// The same data otherwise.
    pub fn into_buffer(self) -> Result<IoBuffer, Self> {
        if self.range != (0..self.buffer.len()) {
            return Err(self);
        }
        let range = self.range;
        Arc::try_unwrap(self.buffer).map_err(|buffer| Self { buffer, range })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.as_slice()[self.range.clone()]
    }

    /// The bytes of `range`, counted from the first byte of this data.
    ///
    /// # Panics
    /// If the range ends beyond it.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.end <= self.len(), "bytes to {} of {}", range.end, self.len());
        let start = self.range.start;
        Self { buffer: Arc::clone(&self.buffer), range: start + range.start..start + range.end }
    }
}

fn buffer_of(bytes: &[u8]) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.copy_in(0, bytes);
    buffer
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
