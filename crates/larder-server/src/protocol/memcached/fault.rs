//! Faults of a text line, and the length of the value that it announces.

use super::line::number;

/// Longest value that a line can announce.
const ANNOUNCED_MAX: u64 = (1 << 31) - 3;

/// The answer to a request over the rate limit of its tenant.
pub(crate) const OVER_LIMIT: &str = "SERVER_ERROR the tenant is over its limit";

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Send this answer; the next line is a new request.
    Answer(&'static str),
    /// Send no answer: the client asked for none.
    Quiet,
    /// Discard `bytes` bytes behind the line, then send `answer`.
    Swallow { answer: &'static str, bytes: usize },
    /// The client speaks another protocol: close the connection.
    Close,
}

/// Parses the length of the value behind the line.
pub(crate) fn announced(word: &[u8]) -> Option<usize> {
    number(word).filter(|bytes| *bytes <= ANNOUNCED_MAX).and_then(|bytes| bytes.try_into().ok())
}
