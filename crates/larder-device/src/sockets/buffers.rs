//! Buffers of a thread, for its connections that have something in them: idle ones own none.

use std::cell::{Cell, RefCell};

/// Capacity of one of [`Buffers`] that nothing has made longer.
pub const BUFFER_BYTES: usize = 16 << 10;
/// So many wait for the next connection.
const KEPT: usize = 64;

/// Buffers of a thread, for its connections that have something in them: idle ones own none.
#[derive(Debug, Default)]
pub struct Buffers {
    kept: RefCell<Vec<Vec<u8>>>,
    /// The fewest that there were in `kept` since [`Buffers::drop_unused`] was called.
    unused: Cell<usize>,
}

impl Buffers {
    /// An empty one.
    pub fn take(&self) -> Vec<u8> {
        let mut kept = self.kept.borrow_mut();
        let buffer = kept.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        self.unused.set(self.unused.get().min(kept.len()));
        buffer
    }

    /// Gives one back that is not needed any more. What has grown goes.
    pub fn give(&self, mut buffer: Vec<u8>) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() < KEPT && (BUFFER_BYTES..=2 * BUFFER_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            kept.push(buffer);
        }
    }

    /// Frees those that were not taken since this was called last. Says whether some are left, so that it should be
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
