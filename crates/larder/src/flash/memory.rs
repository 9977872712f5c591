//! Computes how much memory flash needs.

use super::Flash;
use super::engines::call;
use crate::engine::Memory;

impl Flash {
    /// Bytes of memory that flash uses now.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes_with(|memory| memory.buffer_bytes)
    }

    /// Bytes of memory to reserve for flash. Includes the buffers that regions need only at times: these are allocated
    /// faster than other parts of the cache could free memory for them.
    pub(crate) fn memory_bytes_to_keep(&self) -> u64 {
        self.memory_bytes_with(|memory| memory.buffer_bytes_max)
    }

    fn memory_bytes_with(&self, buffers: impl Fn(Memory) -> u64) -> u64 {
        let memory = self.engines.iter().map(|any| call!(any, memory()));
        let engines: u64 = memory.map(|memory| memory.index_bytes + buffers(memory)).sum();
        engines + self.tombstone_bytes() + self.admission_memory_bytes()
    }

    /// Bytes of memory for tombstones.
    pub(super) fn tombstone_bytes(&self) -> u64 {
        self.tombstones.as_ref().map_or(0, |tombstones| tombstones.memory_bytes())
    }
}
