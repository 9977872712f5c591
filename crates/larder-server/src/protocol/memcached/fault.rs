//! What is wrong with a line of text, and the length of the value that it announces.

use super::line::number;

/// Longest value that can be announced at all.
const ANNOUNCED_MAX: u64 = (1 << 31) - 3;

/// What comes beyond the rates of its tenant is answered so.
pub(crate) const OVER_LIMIT: &str = "SERVER_ERROR the tenant is over its limit";

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is answered so, and the next line is a request.
    Answer(&'static str),
    /// Nothing is answered: the client said that it waits for no answer.
    Quiet,
    /// It is answered so, when so many bytes behind the line have been swallowed.
    Swallow { answer: &'static str, bytes: usize },
    /// The client speaks something else: the connection ends.
    Close,
}

/// The length of a value that comes behind the line.
pub(crate) fn announced(word: &[u8]) -> Option<usize> {
    number(word).filter(|bytes| *bytes <= ANNOUNCED_MAX).and_then(|bytes| bytes.try_into().ok())
}
