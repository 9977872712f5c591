//! Writes around, discards and writes that cannot begin yet.

use crate::layout::{ClassId, Data, Request, RequestId, Span};

/// A write around or a discard that has to wait.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: RequestId,
    pub(super) request: Request,
    /// Flushes and records that must end before the core is written; `None` until these were determined.
    pub(super) before: Option<u32>,
    pub(super) has_failed: bool,
}

/// A write that waits until a header states that the data that it overwrites is complete.
#[derive(Debug)]
pub(super) struct HeldWrite {
    pub(super) id: RequestId,
    pub(super) class: ClassId,
    pub(super) span: Span,
    pub(super) data: Data,
}
