//! Buffers of a thread, for its connections that have something in them: idle ones own none.

use std::cell::RefCell;

/// Capacity of one of [`Buffers`] that nothing has made longer.
pub const BUFFER_BYTES: usize = 16 << 10;
/// So many wait for the next connection.
const KEPT: usize = 64;

/// Buffers of a thread, for its connections that have something in them: idle ones own none.
#[derive(Debug, Default)]
pub struct Buffers(RefCell<Vec<Vec<u8>>>);

impl Buffers {
    /// An empty one.
    pub fn take(&self) -> Vec<u8> {
        self.0.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Gives one back that is not needed any more. What has grown goes.
    pub fn give(&self, mut buffer: Vec<u8>) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT && (BUFFER_BYTES..=2 * BUFFER_BYTES).contains(&buffer.capacity()) {
            buffer.clear();
            kept.push(buffer);
        }
    }
}
