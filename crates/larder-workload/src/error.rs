//! Errors, divided by their cause: a wrong question or a failed answer. This crate returns them for workloads. The
//! programs that run workloads, such as the lab and the simulations, return them for their own options and files too.
//! The exit status of the command follows from the kind of error.

use std::fmt;

/// An error with a message for people.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The question was wrong: an argument is missing, out of range or contradicts another.
    Usage(String),
    /// The question was fine, but answering it failed: a file has the wrong content, a disk is full, there are more
    /// keys than can be counted, …
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
