//! What can go wrong, sorted by whose fault it is: with a workload here, and for whoever runs one, in the lab and in
//! simulations, with options and files of theirs. The command's exit status follows from it.

use std::fmt;

/// An error with a message for people.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The question was wrong: an argument is missing, out of range or contradicts another.
    Usage(String),
    /// The question was fine, but answering it failed: a file that is not what it should be,
    /// a full disk, more keys than can be counted, …
    Run(String),
}

impl Error {
    /// A wrong question.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// A failed answer.
    pub fn run(message: impl Into<String>) -> Self {
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
