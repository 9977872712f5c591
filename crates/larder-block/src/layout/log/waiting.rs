//! Writes around and discards that cannot begin yet.

use crate::layout::{Request, RequestId};

/// A write around or a discard that has to wait.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: RequestId,
    pub(super) request: Request,
    /// Flushes and records that have to end before the core is written; `None` before that was asked.
    pub(super) before: Option<u32>,
    pub(super) has_failed: bool,
}
