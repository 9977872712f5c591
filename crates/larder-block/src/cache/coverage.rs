//! Which part of a request is cached.

use crate::layout::{Piece, PieceState, Span};

/// What the layout has of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coverage {
    /// From the first absent sector to the last.
    pub(super) absent: Option<Span>,
    /// Whether some sectors are cached.
    pub(super) has_cached: bool,
    /// Whether some sectors are dirty.
    pub(super) has_dirty: bool,
}

impl Coverage {
    /// Of the pieces of a range, in order and without gaps.
    pub(super) fn of(pieces: &[Piece]) -> Self {
        let mut absent: Option<Span> = None;
        let (mut has_cached, mut has_dirty) = (false, false);
        for piece in pieces {
            match (piece.state, &mut absent) {
                (PieceState::Absent, Some(hull)) => {
                    let sectors = piece.span.end() - hull.first;
                    hull.sectors = u32::try_from(sectors).expect("within a request");
                }
                (PieceState::Absent, none) => *none = Some(piece.span),
                (PieceState::Clean | PieceState::Dirty, _) => has_cached = true,
            }
            has_dirty |= piece.state == PieceState::Dirty;
        }
        Self { absent, has_cached, has_dirty }
    }

    pub(super) fn is_full(self) -> bool {
        self.absent.is_none()
    }

    /// Whether all sectors are cached and clean.
    pub(super) fn is_clean_hit(self) -> bool {
        self.is_full() && !self.has_dirty
    }
}
