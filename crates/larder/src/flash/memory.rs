//! What flash needs of memory.

use super::Flash;
use super::engines::call;
use crate::engine::Memory;

impl Flash {
    /// Memory of everything that flash needs.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes_with(|memory| memory.buffer_bytes)
    }

    /// The same, with the buffers that regions need at times: they come faster than somebody else could
    /// make room for them.
    pub(crate) fn memory_bytes_to_keep(&self) -> u64 {
        self.memory_bytes_with(|memory| memory.buffer_bytes_max)
    }

    fn memory_bytes_with(&self, buffers: impl Fn(Memory) -> u64) -> u64 {
        let memory = self.engines.iter().map(|any| call!(any, memory()));
        let engines: u64 = memory.map(|memory| memory.index_bytes + buffers(memory)).sum();
        engines + self.tombstone_bytes() + self.admission_memory_bytes()
    }

    /// Memory of what is known of the dead.
    pub(super) fn tombstone_bytes(&self) -> u64 {
        self.tombstones.as_ref().map_or(0, |tombstones| tombstones.memory_bytes())
    }
}
