//! Why a suite did not pass.

/// Why a suite did not pass.
pub(crate) enum Problem {
    /// Something that it needs is not available.
    Missing(String),
    Failed(String),
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Self::Failed(what)
    }
}
