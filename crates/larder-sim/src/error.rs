//! What can go wrong before anything is judged, sorted by whose fault it is.
//!
//! Wrong answers of the cache are no errors: they are what a run reports.

use std::fmt;

/// An error with a message for people.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The question was wrong: options that cannot work.
    Usage(String),
    /// The question was fine, but the run could not be made: a directory that cannot be written to, …
    Run(String),
}

impl Error {
    /// A wrong question.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// A run that could not be made.
    pub(crate) fn run(message: impl Into<String>) -> Self {
        Self::Run(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Run(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}
