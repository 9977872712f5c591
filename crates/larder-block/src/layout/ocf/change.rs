//! What a request changes of lines, and how far it has come.

use super::state::Piece;
use crate::layout::RequestId;

/// A change of what lines have: all of it in one way.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) request: RequestId,
    pub(super) kind: ChangeKind,
    /// What of which lines. It uses each of them.
    pub(super) pieces: Vec<Piece>,
    /// I/Os, then pages of the table, that have not ended.
    pub(super) outstanding: u32,
    pub(super) has_failed: bool,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// Becomes valid and dirty.
    Dirty,
    /// Becomes valid.
    Clean,
    /// Becomes void.
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Data are on their way.
    Data,
    /// Pages of the table are.
    Pages,
}
