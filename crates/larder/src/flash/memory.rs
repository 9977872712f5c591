//! What flash needs of memory.

use super::Flash;
use crate::loc::Loc;
use crate::soc::Soc;

impl Flash {
    /// Memory of everything that flash needs.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes_with(self.loc.as_ref().map_or(0, Loc::buffer_bytes))
    }

    /// The same, with the buffers that regions need at times: they come faster than somebody else could
    /// make room for them.
    pub(crate) fn memory_bytes_to_keep(&self) -> u64 {
        let buffers = |loc: &Loc| loc.buffer_bytes().max(loc.buffer_bytes_expected());
        self.memory_bytes_with(self.loc.as_ref().map_or(0, buffers))
    }

    /// There is a budget of all memory, of which buffers have their part whether they are used or not.
    pub(crate) fn keep_buffers(&self) {
        if let Some(loc) = &self.loc {
            loc.keep_spare();
        }
    }

    fn memory_bytes_with(&self, loc_buffers: u64) -> u64 {
        let buffers = loc_buffers + self.soc.as_ref().map_or(0, Soc::buffer_bytes);
        let (_, soc_log_bytes) = self.soc_log();
        self.index_bytes()
            + self.filter_bytes()
            + soc_log_bytes
            + self.tombstone_bytes()
            + self.admission_memory_bytes()
            + buffers
    }

    /// Memory of what is known of the dead.
    pub(crate) fn tombstone_bytes(&self) -> u64 {
        self.tombstones.as_ref().map_or(0, |tombstones| tombstones.memory_bytes())
    }
}
