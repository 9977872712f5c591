//! How far a destage has come.

use super::table::CoreLine;
use crate::layout::{RequestId, Span};

/// A user's wish that what is dirty of some sectors goes to the core.
#[derive(Debug)]
pub(super) struct Destage {
    pub(super) request: RequestId,
    pub(super) span: Span,
    /// What of it comes next: all before is on the core.
    pub(super) next: CoreLine,
    /// Lines that it waits for.
    pub(super) claimed: Vec<u32>,
    /// What is being cleaned for it.
    pub(super) cleaning: Option<usize>,
}
