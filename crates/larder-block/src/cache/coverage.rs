//! Which part of a request is cached.

use crate::layout::Span;

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
    pub(super) fn is_full(self) -> bool {
        self.absent.is_none()
    }

    /// Whether all sectors are cached and clean.
    pub(super) fn is_clean_hit(self) -> bool {
        self.is_full() && !self.has_dirty
    }
}
