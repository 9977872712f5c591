//! Circles that stay for now, each with what ties it. The table only shrinks: a circle that is cut
//! or has become smaller leaves it or changes its entry.

/// A circle that stays for a reason.
pub(super) struct Allowed {
    /// Folder of its files, with `src/`.
    pub(super) folder: &'static str,
    /// Its files below the folder, in the order of paths.
    pub(super) files: &'static [&'static str],
    /// Why it stays, and what would cut it.
    pub(super) reason: &'static str,
}

/// All of them.
pub(super) const ALLOWED: &[Allowed] = &[];
