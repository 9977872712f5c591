//! Records of what the drive does to its media: operations for a caller that charges them, and state changes of blocks
//! for a caller that stores the content, for example in a file.

use super::image::BlockChange;
use crate::nand::PhysicalOp;

/// Operations and state changes since they were last taken, each while it is recorded.
#[derive(Debug, Default)]
pub(super) struct MediaRecord {
    ops: Option<Vec<PhysicalOp>>,
    changes: Option<Vec<BlockChange>>,
}

impl MediaRecord {
    pub(super) fn keep_ops(&mut self, keep: bool) {
        self.ops = keep.then(Vec::new);
    }

    pub(super) fn keep_changes(&mut self, keep: bool) {
        self.changes = keep.then(Vec::new);
    }

    /// Moves the operations to the end of `ops`.
    pub(super) fn take_ops(&mut self, ops: &mut Vec<PhysicalOp>) {
        if let Some(recorded) = &mut self.ops {
            ops.append(recorded);
        }
    }

    pub(super) fn take_changes(&mut self) -> Vec<BlockChange> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn op(&mut self, op: PhysicalOp) {
        if let Some(recorded) = &mut self.ops {
            recorded.push(op);
        }
    }

    pub(super) fn keeps_changes(&self) -> bool {
        self.changes.is_some()
    }

    pub(super) fn change(&mut self, change: BlockChange) {
        if let Some(recorded) = &mut self.changes {
            recorded.push(change);
        }
    }
}
