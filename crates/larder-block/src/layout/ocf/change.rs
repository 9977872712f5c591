//! A change of lines by a request, and its progress.

use crate::layout::RequestId;

/// Sectors of a line of the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinePiece {
    pub(super) line: u32,
    pub(super) mask: u128,
}

/// A change of the state of lines; all of them change in the same way.
#[derive(Debug)]
pub(super) struct LineChange {
    pub(super) request: RequestId,
    pub(super) kind: ChangeKind,
    /// The sectors of each line. The change uses each of these lines.
    pub(super) pieces: Vec<LinePiece>,
    /// I/Os, and then pages of the table, that have not ended.
    pub(super) outstanding: u32,
    pub(super) has_failed: bool,
    pub(super) stage: ChangeStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// The sectors become valid and dirty.
    Dirty,
    /// The sectors become valid.
    Clean,
    /// The sectors become void.
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeStage {
    /// Data is in flight.
    Data,
    /// Pages of the table are in flight.
    Pages,
}
