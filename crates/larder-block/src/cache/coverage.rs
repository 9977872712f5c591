//! What of a request is cached.

use crate::layout::Span;

/// What the layout knows of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coverage {
    /// From the first to the last sector that is absent.
    pub(super) absent: Option<Span>,
    /// Whether some are cached.
    pub(super) has_cached: bool,
    /// Whether the core lacks some.
    pub(super) has_dirty: bool,
}

impl Coverage {
    pub(super) fn is_full(self) -> bool {
        self.absent.is_none()
    }

    /// Whether the core has all that is cached, and all is.
    pub(super) fn is_clean_hit(self) -> bool {
        self.is_full() && !self.has_dirty
    }
}
