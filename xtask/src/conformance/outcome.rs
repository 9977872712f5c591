//! How a part of a suite has ended.

/// See the module.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The suite and its part.
    pub(super) name: String,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    /// How many failures are known, and why.
    pub(super) known: Option<(usize, &'static str)>,
    /// What else there is to say.
    pub(super) note: String,
}

impl Outcome {
    /// A part that could not be run.
    pub(super) fn skipped(name: impl Into<String>, note: impl Into<String>) -> Self {
        Self { name: name.into(), passed: 0, failed: 0, skipped: 1, known: None, note: note.into() }
    }

    /// Whether more has failed than is known.
    pub(super) fn is_worse(&self) -> bool {
        self.failed > self.known.map_or(0, |(failures, _)| failures)
    }
}
