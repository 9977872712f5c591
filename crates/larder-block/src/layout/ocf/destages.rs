//! The progress of a destage.

use super::table::CoreLine;
use crate::layout::{RequestId, Span};

/// A request to destage the dirty data of some sectors.
#[derive(Debug)]
pub(super) struct Destage {
    pub(super) request: RequestId,
    pub(super) span: Span,
    /// The next line: all lines before it are on the core.
    pub(super) next: CoreLine,
    /// Lines that the destage waits for.
    pub(super) claimed: Vec<u32>,
    /// The cleaning that runs for it.
    pub(super) cleaning: Option<usize>,
}
