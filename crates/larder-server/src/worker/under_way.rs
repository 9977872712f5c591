//! Bytes of requests and answers that are under way, beyond the buffers that each connection in use has.

use std::cell::Cell;
use std::rc::Rc;

use super::Worker;

/// Bytes that are counted until this is dropped.
pub(crate) struct UnderWay {
    bytes: usize,
    all: Rc<Cell<usize>>,
}

impl UnderWay {
    /// Counts so many more.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.all.set(self.all.get() + bytes);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Worker {
    /// Counts them, however many there are.
    pub(crate) fn under_way(&self, bytes: usize) -> UnderWay {
        let mut under_way = UnderWay { bytes: 0, all: Rc::clone(&self.under_way_bytes) };
        under_way.grow(bytes);
        under_way
    }

    /// Counts them if there is room for so many.
    pub(crate) fn count_under_way(&self, bytes: usize) -> Option<UnderWay> {
        self.has_room_for(bytes).then(|| self.under_way(bytes))
    }

    /// Whether so many bytes more may be under way.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.under_way_bytes.get() + bytes <= self.shared.config.under_way_bytes_max
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        assert!(self.all.get() >= self.bytes, "what was counted is there");
        self.all.set(self.all.get() - self.bytes);
    }
}
