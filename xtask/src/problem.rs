//! Why a suite did not pass.

/// Why a suite did not pass.
pub(crate) enum Problem {
    /// What it needs is not here.
    Missing(String),
    Failed(String),
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Self::Failed(what)
    }
}
