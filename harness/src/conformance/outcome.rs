//! The result of a part of a suite.

/// See the module.
#[derive(Debug)]
pub(super) struct SuiteOutcome {
    /// Suite and part.
    pub(super) name: String,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    /// Number of known failures, with the reason.
    pub(super) known: Option<(usize, &'static str)>,
    /// An additional remark.
    pub(super) note: String,
}

impl SuiteOutcome {
    /// A part that could not run.
    pub(super) fn skipped(name: impl Into<String>, note: impl Into<String>) -> Self {
        Self { name: name.into(), passed: 0, failed: 0, skipped: 1, known: None, note: note.into() }
    }

    /// Whether there are more failures than the known ones.
    pub(super) fn is_worse(&self) -> bool {
        self.failed > self.known.map_or(0, |(failures, _)| failures)
    }
}
