//! One violation of a rule.

use std::fmt;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// It must be fixed.
    Error,
    /// A hint.
    Note,
}

/// What is wrong, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// File, relative to the root of the workspace.
    pub(super) path: String,
    /// Line, counted from 1.
    pub(super) line: usize,
    /// Short name of the rule.
    pub(super) rule: &'static str,
    /// What is wrong.
    pub(super) message: String,
    /// How to fix it.
    pub(super) fix: String,
    /// Whether it must be fixed.
    pub(super) weight: Weight,
}

impl Finding {
    /// A finding that must be fixed.
    pub(super) fn error(
        (path, line): (&str, usize),
        rule: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (path, message, fix) = (path.to_owned(), message.into(), fix.into());
        Self { path, line, rule, message, fix, weight: Weight::Error }
    }

    /// Turns the finding into a note.
    pub(super) fn into_note(self) -> Self {
        Self { weight: Weight::Note, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, message, fix, weight } = self;
        let weight = if *weight == Weight::Error { "error" } else { "note" };
        write!(f, "{path}:{line}: {weight}: {rule}: {message}; {fix}")
    }
}
