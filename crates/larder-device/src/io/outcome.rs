//! The outcome of a request: success or failure, each with the request's buffer.

use std::fmt;

use crate::buffer::IoBuffer;
use crate::error::Error;

/// Outcome of a request. Requests without bytes give back an empty buffer.
pub type IoResult = Result<IoBuffer, IoFailure>;

/// A request that failed, with the buffer that it owned.
#[derive(Debug)]
pub struct IoFailure {
    /// The reason.
    pub error: Error,
    /// The request's buffer; for a failed read its content is unspecified.
    pub buffer: IoBuffer,
}

impl IoFailure {
    /// A failure of a request that has no buffer, or whose buffer is elsewhere.
    pub fn without_buffer(error: Error) -> Self {
        Self { error, buffer: IoBuffer::empty() }
    }
}

impl fmt::Display for IoFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for IoFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}
