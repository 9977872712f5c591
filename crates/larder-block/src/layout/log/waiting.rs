//! Writes around, discards and writes that cannot begin yet.

use crate::layout::{ClassId, Data, LayoutRequest, RequestId, Span};

/// A write around or a discard that has to wait.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: RequestId,
    pub(super) request: LayoutRequest,
    /// Flushes and records that must end before the core is written; `None` until these were determined.
    pub(super) before: Option<u32>,
    pub(super) has_failed: bool,
}

impl Waiting {
    pub(super) fn new(id: RequestId, request: LayoutRequest) -> Self {
        Self { id, request, before: None, has_failed: false }
    }

    /// An operation that must end before the core is written has ended.
    pub(super) fn prepared(&mut self, is_well: bool, is_flush: bool) {
        self.before = match self.before {
            // The records come next.
            Some(_) if is_flush => None,
            Some(count) => Some(count - 1),
            None => None,
        };
        self.has_failed |= !is_well;
    }
}

/// A write that waits until a header states that the data that it overwrites is complete.
#[derive(Debug)]
pub(super) struct HeldWrite {
    pub(super) id: RequestId,
    pub(super) class: ClassId,
    pub(super) span: Span,
    pub(super) data: Data,
}
