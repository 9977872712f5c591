//! The interface between the file device and an I/O engine.

use crate::transfer::Pieces;

/// Carries pieces to the kernel. Dropping an engine waits until every piece that it was given has ended.
pub(crate) trait Engine: Send + Sync {
    /// Takes all pieces of one request. It does not wait for them.
    fn submit(&self, pieces: Pieces);

    /// Whether the file is registered with the kernel, so that requests need not name it each time.
    fn registered_file(&self) -> bool {
        false
    }

    /// Whether frequently used buffers are registered with the kernel, and the kernel has refused none.
    fn registered_buffers(&self) -> bool {
        false
    }

    /// Number of pieces that went to the kernel with a registered buffer.
    fn fixed_pieces(&self) -> u64 {
        0
    }
}

/// What an engine must know of the file.
#[derive(Debug, Clone, Copy, Default)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) struct Reach {
    /// Whether it is a block device.
    pub(crate) block: bool,
    /// Whether writes carry the write streams of their placement handles.
    pub(crate) streams: bool,
}
