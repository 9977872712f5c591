//! Buffers of a thread, shared by its connections that hold data: idle connections own none.

use std::cell::{Cell, RefCell};

/// Capacity of a buffer from [`Buffers`] that has not grown.
pub const BUFFER_BYTES: usize = 16 << 10;
/// Most buffers that are kept for later connections.
const KEPT: usize = 64;

/// Buffers of a thread, shared by its connections that hold data: idle connections own none.
#[derive(Debug, Default)]
pub struct Buffers {
    kept: RefCell<Vec<Vec<u8>>>,
    /// The fewest buffers in `kept` since the last [`Buffers::drop_unused`].
    unused: Cell<usize>,
}

impl Buffers {
    /// An empty buffer.
    pub fn take(&self) -> Vec<u8> {
        let mut kept = self.kept.borrow_mut();
        let buffer = kept.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        self.unused.set(self.unused.get().min(kept.len()));
        buffer
    }

    /// Gives a buffer back. One that has grown beyond twice [`BUFFER_BYTES`] is freed.
    pub fn give(&self, mut buffer: Vec<u8>) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() < KEPT && (BUFFER_BYTES..=2 * BUFFER_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            kept.push(buffer);
        }
    }

    /// Frees the buffers that were not used since the last call. Returns whether some are left, so that it should be
    /// called again.
    pub fn drop_unused(&self) -> bool {
        let mut kept = self.kept.borrow_mut();
        let left = kept.len() - self.unused.get().min(kept.len());
        kept.truncate(left);
        if left == 0 {
            *kept = Vec::new();
        }
        self.unused.set(left);
        left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_has_taken_for_a_while_is_freed() {
        let buffers = Buffers::default();
        let taken: Vec<Vec<u8>> = (0..10).map(|_| buffers.take()).collect();
        taken.into_iter().for_each(|buffer| buffers.give(buffer));
        assert!(buffers.drop_unused(), "they were taken a moment ago");
        let two = [buffers.take(), buffers.take()];
        two.into_iter().for_each(|buffer| buffers.give(buffer));
        assert!(buffers.drop_unused());
        assert_eq!(buffers.kept.borrow().len(), 2, "eight were not needed");
        assert!(!buffers.drop_unused());
        assert_eq!(buffers.kept.borrow().len(), 0);
    }
}
