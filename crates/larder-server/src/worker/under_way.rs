//! Bytes of requests and answers that are under way, beyond the buffers that each connection in use has.

use std::cell::Cell;

use super::Worker;

/// Bytes that are counted until this is dropped.
pub(crate) struct UnderWay<'a> {
    bytes: usize,
    all: &'a Cell<usize>,
}

impl Worker {
    /// Counts them, however many there are.
    pub(crate) fn under_way(&self, bytes: usize) -> UnderWay<'_> {
        self.under_way_bytes.set(self.under_way_bytes.get() + bytes);
        UnderWay { bytes, all: &self.under_way_bytes }
    }

    /// Counts them if there is room for so many.
    pub(crate) fn count_under_way(&self, bytes: usize) -> Option<UnderWay<'_>> {
        self.has_room_for(bytes).then(|| self.under_way(bytes))
    }

    /// Whether so many bytes more may be under way.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.under_way_bytes.get() + bytes <= self.shared.config.under_way_bytes_max
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        assert!(self.all.get() >= self.bytes, "what was counted is there");
        self.all.set(self.all.get() - self.bytes);
    }
}
